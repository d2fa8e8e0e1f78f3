"""Arrivals by latency and bandwidth: distances and cuts in their limits, and a simulated pipeline between."""

from fractions import Fraction

import pytest

from formulations.flow_network import CapacityGraph
from formulations.quickest_flow import quickest_arrival

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
