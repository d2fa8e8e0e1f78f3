"""Annealings that cool down together."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search.annealing import Annealing, is_ready
from themis_opt.search.annealing_state import BEST, CURRENT, USUAL
from themis_opt.search.population import Population, copies_of

Run = Callable[[Instance, str], Schedule]

HOT, COLD = 2e-2, 1e-3
SLICE_WORK = 2**15


@pytest.fixture(autouse=True, scope="module")
def _compiled_before() -> None:
    is_ready(None)


@pytest.fixture
def start(hetero: Instance, run: Run) -> Schedule:
    return run(hetero.overridden(chunks=8), "themis+scf")


def never(makespan: float) -> bool:
    return False


def cooled(start: Schedule, count: int, keeps_sizes: bool = False, seed: int = 0, **options: Any) -> Population:
    plans = Population(start, seed, USUAL, SLICE_WORK, count=count, **options)
    plans.cool(count * 8 * SLICE_WORK, HOT, COLD, never, keeps_sizes=keeps_sizes)
    return plans


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9).map(np.array), st.floats(0, 1, exclude_max=True))
def test_copies_are_about_in_proportion_to_their_weights(weights: np.ndarray, offset: float) -> None:
    copies = copies_of(weights, offset)
    assert copies.sum() == len(weights)
    assert (copies >= 0).all()
    assert (abs(copies - len(weights) * weights / weights.sum()) < 1 + 1e-9).all()


def test_copies_are_in_proportion_to_their_weights_on_average() -> None:
    weights = np.array([0.1, 0.5, 0.25, 0.15])
    mean = np.mean([copies_of(weights, offset) for offset in np.linspace(0, 1, 1000, endpoint=False)], axis=0)
    assert mean == pytest.approx(4 * weights, abs=2e-3)


def test_one_alone_is_plain_annealing(start: Schedule) -> None:
    alone, temperatures = Annealing(start, 5), np.geomspace(HOT, COLD, 9)
    for above, below in pairwise(temperatures):
        alone.run(SLICE_WORK // alone.step_work, above, below)
    assert cooled(start, 1, seed=5).best() == alone.best()


@pytest.mark.parametrize("pairs", [None, 2])
def test_what_goes_on_from_another_has_its_plan_and_keeps_its_own_best_one(start: Schedule, pairs: int | None) -> None:
    one, other = (Annealing(start, seed, resizes=True, pairs=pairs) for seed in (1, 2))
    one.run(2000, HOT, COLD)
    other.run(100, 10 * HOT, 10 * HOT)
    best, cost, path = one.best(), other.cost, other._state.current_path.copy()
    one.go_on_from(other)
    assert one.best() == best
    assert one.cost == cost
    assert one._state.makespans[BEST] < one._state.makespans[CURRENT]
    assert np.array_equal(one._state.current_path, path)
    one.run(500, HOT, COLD)
    assert np.array_equal(other._state.current_path, path)
    assert other.cost == cost
    assert one.cost < cost
    validate(one.best())


def test_good_plans_take_the_place_of_bad_ones_unless_sizes_stay(
    start: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    differences, go_on_from = [], Annealing.go_on_from

    def noted(self: Annealing, other: Annealing) -> None:
        differences.append(other.cost - self.cost)
        go_on_from(self, other)

    monkeypatch.setattr(Annealing, "go_on_from", noted)
    cooled(start, 4, keeps_sizes=True, resizes=True)
    assert not differences
    cooled(start, 4, resizes=True)
    assert np.mean(differences) < 0


def test_no_plan_that_was_found_is_lost(start: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    makespans, run = [], Annealing.run

    def noted(self: Annealing, *arguments: float, **options: bool) -> None:
        run(self, *arguments, **options)  # type: ignore[arg-type]
        makespans.append(self.makespan)

    monkeypatch.setattr(Annealing, "run", noted)
    best = cooled(start, 3).best()
    validate(best)
    assert best.makespan == min(makespans)


def test_equal_seeds_give_equal_schedules(start: Schedule) -> None:
    one, same, other = (cooled(start, 3, seed=seed, resizes=True).best() for seed in (7, 7, 8))
    assert one == same != other


@pytest.mark.parametrize("count", [1, 3])
def test_it_stops_when_told(start: Schedule, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    steps, run = [], Annealing.run

    def noted(self: Annealing, *arguments: float, **options: bool) -> None:
        steps.append(arguments[0])
        run(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Annealing, "run", noted)
    plans = Population(start, 0, USUAL, SLICE_WORK, count=count)
    plans.cool(100 * SLICE_WORK, HOT, COLD, lambda makespan: len(steps) == 2)
    assert len(steps) == 2
