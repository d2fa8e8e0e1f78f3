"""The subset lattice."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.lattice import JobClass, JobPhase, arcs, cheapest_path, subsets

MACHINES = (0, 2, 3)


@st.composite
def arc_costs(draw: st.DrawFn) -> dict[tuple[int, int], int]:
    return {arc: draw(st.integers(0, 100)) for arc in arcs(MACHINES)}


def path_cost(order: tuple[int, ...], cost: dict[tuple[int, int], int]) -> int:
    return sum(cost[sum(1 << k for k in order[:position]), machine] for position, machine in enumerate(order))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_the_lattice_has_d_times_two_to_the_d_minus_one_arcs(count: int) -> None:
    assert len(list(arcs(tuple(range(count))))) == count * 2 ** (count - 1)


def test_every_set_follows_its_own_subsets() -> None:
    order = list(subsets(MACHINES))
    assert all(order.index(a) <= order.index(b) for a in order for b in order if a & b == a)


def test_there_is_one_set_per_choice_of_machines() -> None:
    assert sorted(subsets(MACHINES)) == [0b0000, 0b0001, 0b0100, 0b0101, 0b1000, 0b1001, 0b1100, 0b1101]


@given(arc_costs())
def test_the_cheapest_path_is_the_cheapest_order(cost: dict[tuple[int, int], int]) -> None:
    assert cheapest_path(MACHINES, cost) == min(path_cost(order, cost) for order in permutations(MACHINES))


def job(first: dict[tuple[int, int], int], second: dict[tuple[int, int], int], *, mirrored: bool) -> JobClass:
    lag = dict.fromkeys(MACHINES, 1)
    return JobClass(MACHINES, (JobPhase(first, lag), JobPhase(second, lag)), mirrored=mirrored)


@given(arc_costs(), arc_costs(), st.permutations(MACHINES).map(tuple))
def test_a_folded_layer_costs_an_order_and_its_reverse(
    first: dict[tuple[int, int], int], second: dict[tuple[int, int], int], order: tuple[int, ...]
) -> None:
    mirrored = job(first, second, mirrored=True)
    (layer,) = mirrored.layers(mirrored.load)
    assert path_cost(order, layer) == path_cost(order, first) + path_cost(order[::-1], second)


@given(arc_costs(), arc_costs())
def test_free_phases_are_layers_of_their_own(
    first: dict[tuple[int, int], int], second: dict[tuple[int, int], int]
) -> None:
    free = job(first, second, mirrored=False)
    assert free.layers(free.load) == [first, second]


@given(arc_costs(), arc_costs())
def test_mirroring_twice_gives_the_same_arc(
    first: dict[tuple[int, int], int], second: dict[tuple[int, int], int]
) -> None:
    mirrored = job(first, second, mirrored=True)
    assert all(mirrored.mirror(mirrored.mirror(arc)) == arc for arc in first)


def test_the_passage_of_an_arc_is_its_duration_and_the_lag_of_its_machine() -> None:
    cost = dict.fromkeys(arcs(MACHINES), 5)
    assert job(cost, cost, mirrored=False).passage(0, (0, 2)) == 5 + 1
