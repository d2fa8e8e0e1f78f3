"""Shares of ways: worked examples, and no mixture of a grid of shares is faster."""

import itertools
import random

import pytest

from formulations.way_shares import DemandWay, MachineUse, WayShares, share_ways

A, B = (0, 1), (1, 2)


def solved(ways: list[DemandWay]) -> WayShares:
    solution = share_ways(ways)
    assert solution is not None
    return solution


def test_two_machines_alike_have_half_each() -> None:
    solution = solved([DemandWay(0, 2.0, [MachineUse(machine, 0, 2, 8)]) for machine in (A, B)])
    assert solution.time == pytest.approx(6)
    assert solution.shares == pytest.approx([0.5, 0.5])
    assert solution.prices == pytest.approx({A: 0.5, B: 0.5})


def test_uses_that_are_far_apart_in_time_do_not_add_up() -> None:
    way = DemandWay(0, 10.0, [MachineUse(A, 0, 10, 3), MachineUse(A, 9, 1, 3)])
    assert solved([way]).time == pytest.approx(13)


def test_every_demand_goes_some_way() -> None:
    ways = [DemandWay(demand, 1.0, [MachineUse(A, 0, 1, 2 + demand)]) for demand in range(2)]
    assert solved(ways).time == pytest.approx(6)


@pytest.mark.parametrize("seed", range(5))
def test_no_mixture_of_a_grid_is_faster(seed: int) -> None:
    chance = random.Random(seed)
    uses = [
        MachineUse(chance.choice((A, B)), chance.randint(0, 4), chance.randint(0, 4), chance.randint(1, 9))
        for _ in range(9)
    ]
    ways = [DemandWay(0, 9.0, uses[first : first + 3]) for first in (0, 3, 6)]
    grid = [(a / 20, b / 20, 1 - (a + b) / 20) for a, b in itertools.product(range(21), repeat=2) if a + b <= 20]
    assert solved(ways).time <= min(_time(ways, shares) for shares in grid) + 1e-3


def _time(ways: list[DemandWay], shares: tuple[float, ...]) -> float:
    uses = [(use, share * use.hold) for way, share in zip(ways, shares, strict=True) for use in way.uses if share]
    windows = itertools.product((A, B), {use.head for use, _ in uses}, {use.tail for use, _ in uses})
    times = [9.0]
    for machine, head, tail in windows:
        load = sum(t for u, t in uses if u.machine == machine and u.head >= head and u.tail >= tail)
        times.append(head + tail + load if load else 0.0)
    return max(times)
