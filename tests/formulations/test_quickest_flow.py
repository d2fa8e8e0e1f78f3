"""Arrivals by latency and bandwidth: distances and cuts in their limits, a pipeline between, and sets of sources."""

import random
from fractions import Fraction
from itertools import combinations

import pytest

from formulations.flow_network import CapacityGraph
from formulations.quickest_flow import latest_arrival, quickest_arrival

TWO_WAYS = CapacityGraph(4, (0, 1, 2, 3), {(0, 1): 2, (1, 3): 2, (0, 2): 1, (2, 3): 1})
LATENCIES = {(0, 1): 500, (1, 3): 500, (0, 2): 10, (2, 3): 10}


@pytest.mark.parametrize(("amount", "arrival"), [(0, 20), (100, 120), (980, 1000), (980 + 300, 1100)])
def test_the_slow_way_is_used_until_the_wide_one_has_arrived(amount: int, arrival: int) -> None:
    assert quickest_arrival(TWO_WAYS, LATENCIES, [0], 3, Fraction(amount)) == pytest.approx(arrival, abs=1)


def test_without_latency_it_is_the_least_cut() -> None:
    none = dict.fromkeys(LATENCIES, 0)
    assert quickest_arrival(TWO_WAYS, none, [0], 3, Fraction(3000)) == pytest.approx(1000, abs=2)


def test_several_sources_have_an_amount_together() -> None:
    assert quickest_arrival(TWO_WAYS, LATENCIES, [1, 2], 3, Fraction(980 + 300)) == pytest.approx(763, abs=1)


@pytest.mark.parametrize("seed", range(10))
def test_the_latest_sources_are_those_of_all_sets(seed: int) -> None:
    chance = random.Random(seed)
    pairs = {(node, (node + 1) % 6) for node in range(6)} | {(0, 3), (1, 4)}
    arcs = {arc: chance.randint(1, 6) for a, b in pairs for arc in ((a, b), (b, a))}
    graph, latencies = CapacityGraph(6, tuple(range(6)), arcs), {arc: chance.randint(10, 2000) for arc in arcs}
    amounts = {source: Fraction(chance.randint(1, 4000)) for source in range(1, 6)}
    sets = [each for count in range(1, 6) for each in combinations(amounts, count)]
    every = [quickest_arrival(graph, latencies, each, 0, sum(map(amounts.get, each), Fraction())) for each in sets]
    assert 0.995 * max(every) <= latest_arrival(graph, latencies, amounts, 0).time <= max(every)


def test_an_idle_link_is_waited_for_by_some_sources_alone() -> None:
    graph = CapacityGraph(3, (0, 1, 2), {(0, 1): 1, (1, 2): 1})
    latencies, amounts = {(0, 1): 1000, (1, 2): 0}, {0: Fraction(500), 1: Fraction(100)}
    assert quickest_arrival(graph, latencies, [0, 1], 2, Fraction(600)) == pytest.approx(600, abs=1)
    arrival = latest_arrival(graph, latencies, amounts, 2)
    assert arrival.sources == (0,)
    assert arrival.time == pytest.approx(1500, abs=1)


def test_alike_nodes_with_a_short_and_a_long_way_are_followed_over_the_short_one() -> None:
    latencies = {(a, b): 10 if a + 2 == b else 500 for a in (0, 1) for b in (2, 3)} | {(2, 4): 10, (3, 4): 10}
    graph = CapacityGraph(5, tuple(range(5)), dict.fromkeys(latencies, 1))
    assert latest_arrival(graph, latencies, {0: Fraction(40), 1: Fraction(40)}, 4).time == pytest.approx(60, abs=1)
