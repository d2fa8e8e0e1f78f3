"""The subset lattice."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from formulations.lattice import JobClass, JobPhase, arcs, cheapest_path

MACHINES = (0, 2, 3)


@st.composite
def arc_costs(draw: st.DrawFn) -> dict[tuple[int, int], int]:
    return {arc: draw(st.integers(0, 100)) for arc in arcs(MACHINES)}


def path_cost(order: tuple[int, ...], cost: dict[tuple[int, int], int]) -> int:
    return sum(cost[sum(1 << k for k in order[:position]), machine] for position, machine in enumerate(order))


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
