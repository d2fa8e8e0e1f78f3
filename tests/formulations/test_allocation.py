"""Allocation of bandwidth: optima known in closed form, bounds, shadow prices and whole links."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import allocation
from formulations.allocation import AllocationData, Group, Infeasible, LinearRow, Piece, allocate


def data(*groups: Group, total: float = 10.0, units: tuple[float, ...] = (0.0, 0.0), **box) -> AllocationData:
    rows = (LinearRow((1.0, 1.0), "<=", total), *box.pop("rows", ()))
    return AllocationData(groups, rows, box.get("least", (0.0, 0.0)), box.get("most", (total, total)), units)


def alone(*works: float, weight: float = 1.0) -> Group:
    """Jobs that need each machine for some work, whatever their order."""
    return Group(weight, tuple(Piece(work, tuple(row)) for work, row in zip(works, np.eye(len(works)), strict=True)))


FREE = np.zeros(2)


def test_one_group_gets_rates_in_proportion_to_its_work() -> None:
    allocation = allocate(data(alone(3.0, 1.0)), FREE)
    assert allocation.rates == pytest.approx([7.5, 2.5], rel=1e-4)
    assert allocation.objective == pytest.approx(0.4)


def test_two_groups_share_by_the_square_roots_of_their_work() -> None:
    """Minimise 9/x + 4/y with x + y = 10: x : y = 3 : 2, and 25/10 in all."""
    allocation = allocate(data(alone(9.0, 0.0), alone(0.0, 4.0)), FREE)
    assert allocation.rates == pytest.approx([6.0, 4.0], rel=1e-4)
    assert allocation.objective == pytest.approx(2.5, rel=1e-9)
    assert 2.5 * (1 - 1e-9) <= allocation.bound <= allocation.objective


def test_shadow_prices_are_what_a_little_more_saves() -> None:
    groups = alone(9.0, 0.0), alone(0.0, 4.0)
    less, more = (allocate(data(*groups, total=total), FREE).objective for total in (9.99, 10.01))
    allocation = allocate(data(*groups), FREE)
    assert allocation.row_prices[0] == pytest.approx((less - more) / 0.02, rel=1e-3)
    assert allocation.rate_prices == pytest.approx([0.25, 0.25], rel=1e-3)


def test_whole_links_are_as_good_as_the_best_of_all() -> None:
    groups = alone(9.0, 0.0), alone(0.0, 4.0)
    allocation = allocate(data(*groups, units=(2.5, 2.5), least=(2.5, 2.5)), FREE)
    best = min(9 / (2.5 * n) + 4 / (2.5 * m) for n in range(1, 4) for m in range(1, 5 - n))
    assert allocation.objective == pytest.approx(best)
    assert allocation.rates / 2.5 == pytest.approx(np.round(allocation.rates / 2.5))
    assert allocation.bound <= best


def test_whole_links_at_both_ends_of_their_box_are_allowed() -> None:
    box = {"units": (2.5, 2.5), "least": (7.5, 2.5), "most": (7.5, 2.5)}
    assert allocate(data(alone(9.0, 4.0), **box), FREE).rates == pytest.approx([7.5, 2.5])


def test_of_equally_good_rates_the_cheapest_are_taken() -> None:
    allocation = allocate(data(alone(4.0, 0.0), most=(2.0, 8.0), least=(0.0, 1.0)), np.array([1.0, 3.0]))
    assert allocation.rates == pytest.approx([2.0, 1.0], rel=1e-6)


@pytest.mark.parametrize(("prices", "rates"), [((1, 1, 3), (2, 4, 0)), ((1, 3, 1), (2, 0, 4))])
def test_what_is_not_needed_goes_where_it_is_cheapest(prices: tuple[int, ...], rates: tuple[int, ...]) -> None:
    """Only the first machine works, at its most; the others need some rate together."""
    together = LinearRow((0.0, 1.0, 1.0), ">=", 4.0)
    only = AllocationData((alone(4.0, 0.0, 0.0),), (together,), (0.0, 0.0, 0.0), (2.0, 8.0, 8.0), (0.0, 0.0, 0.0))
    assert allocate(only, np.array(prices, dtype=float)).rates == pytest.approx(rates, abs=1e-5)


def test_constraints_without_a_solution_are_told() -> None:
    impossible = LinearRow((1.0, 1.0), ">=", 11.0)
    with pytest.raises(Infeasible):
        allocate(data(alone(1.0, 1.0), rows=(impossible,)), FREE)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0.1, 10)), min_size=1, max_size=4))
def test_no_rates_on_a_grid_beat_the_bound(works: list[tuple[float, float, float]]) -> None:
    allocation = allocate(data(*(alone(a, b, weight=weight) for a, b, weight in works)), FREE)
    grid = np.linspace(0.01, 9.99, 999)
    values = sum(weight * np.maximum(a / grid, b / (10 - grid)) for a, b, weight in works)
    assert allocation.bound <= values.min() * (1 + 1e-9)
    assert allocation.objective <= values.min() * (1 + 1e-9)
    assert allocation.objective <= allocation.bound * (1 + 1e-7)


def random_data(seed: int) -> tuple[AllocationData, np.ndarray]:
    """Three groups on three machines, one of which has whole links in every other case; and prices."""
    generator = np.random.default_rng(seed)
    groups = tuple(
        Group(float(weight), tuple(Piece(float(generator.uniform(1, 9)), tuple(row)) for row in rows))
        for weight, rows in zip(generator.uniform(1, 5, 3), generator.uniform(0, 1, (3, 2, 3)), strict=True)
    )
    rows = (LinearRow((1.0, 1.0, 1.0), "<=", 10.0), LinearRow((1.0, -1.0, 0.0), ">=", -2.0))
    units = (0.0, 0.0, 1.5 if seed % 2 else 0.0)
    return AllocationData(groups, rows, (0.5, 0.0, 1.5), (6.0, 8.0, 7.5), units), generator.uniform(0, 3, 3)


@pytest.mark.parametrize(
    ("whole", "figures"),
    [(False, (72.6051505, 72.6051505, 93.77, 25.8625, 28)), (True, (75.5325973, 75.5325932, 107.32, 25.3598, 24))],
)
def test_rates_are_as_good_and_as_cheap_as_ever(
    whole: bool, figures: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objectives, bounds, costs, shadow prices and programmes of six cases in all."""
    solve, programmes = allocation._Master.solve, list[object]()
    monkeypatch.setattr(allocation._Master, "solve", lambda master: programmes.append(master) or solve(master))
    cases = [random_data(seed) for seed in range(whole, 12, 2)]
    results = [allocate(one, prices) for one, prices in cases]
    costs = sum(prices @ result.rates for (_, prices), result in zip(cases, results, strict=True))
    shadows = sum(sum(result.row_prices) + sum(result.rate_prices) for result in results)
    sums = [sum(getattr(result, name) for result in results) for name in ("objective", "bound")]
    assert sums == pytest.approx(figures[:2], rel=1e-8)
    assert (costs, shadows, len(programmes)) == pytest.approx(figures[2:], rel=1e-3)
