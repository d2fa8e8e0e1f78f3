"""Policies of training iterations side by side."""

import pytest
from small_iterations import iteration, tensor, two_layers

from themis_opt.errors import InputError
from themis_opt.iterations.comparison import IterationComparison, compare_iterations
from themis_opt.iterations.registry import BASELINE

POLICIES = (BASELINE, "wait_free/themis+scf", "dear:threshold=1B/hourglass")


@pytest.fixture(scope="module")
def compared() -> IterationComparison:
    return compare_iterations(two_layers(dimensions=2, chunks=4), POLICIES)


def test_results_are_in_the_order_asked_for(compared: IterationComparison) -> None:
    assert tuple(result.policy for result in compared.results) == POLICIES


def test_the_baseline_has_no_speedup(compared: IterationComparison) -> None:
    assert compared.results[0].speedup == 1


def test_speedups_are_against_the_baseline(compared: IterationComparison) -> None:
    times = [result.iteration_time for result in compared.results]
    assert [result.speedup for result in compared.results] == [times[0] / time for time in times]


def test_speedups_are_against_the_baseline_where_it_is_not_asked_for(compared: IterationComparison) -> None:
    (alone,) = compare_iterations(compared.instance, POLICIES[1:2]).results
    assert alone.speedup == compared.results[1].speedup


def test_gaps_are_against_the_best_bound(compared: IterationComparison) -> None:
    bound = max(compared.bounds.values())
    for result in compared.results:
        assert result.bound == bound
        assert result.gap == result.iteration_time / bound - 1 >= 0


def test_the_best_result_has_the_least_time(compared: IterationComparison) -> None:
    assert compared.best.iteration_time == min(result.iteration_time for result in compared.results)


def test_a_schedule_at_the_bound_is_optimal() -> None:
    (result,) = compare_iterations(two_layers(), ("wait_free/baseline+fifo",)).results
    assert result.status == "optimal"
    assert result.gap == pytest.approx(0, abs=1e-9)


def test_a_schedule_above_the_bound_is_feasible(compared: IterationComparison) -> None:
    assert compared.results[0].status == "feasible"


def test_the_exposed_gap_is_none_where_everything_hides() -> None:
    instance = iteration({"first": 10, "second": 20}, [tensor("t", 5, "first", "first", needed_in="next")])
    (result,) = compare_iterations(instance, ("wait_free/baseline+fifo",)).results
    assert (result.schedule.exposed, result.exposed_gap) == (0, 0)


def test_times_of_a_row_are_in_nanoseconds(compared: IterationComparison) -> None:
    row = compared.results[0].row()
    assert row["compute_ns"] == 40_000
    assert row["iteration_ns"] == row["compute_ns"] + row["exposed_ns"]
    assert row["exposed_ns"] == row["exposed_data_ns"] + row["exposed_model_ns"]


def test_every_schedule_is_told_with_the_best_bound() -> None:
    heard: list[tuple[str, float]] = []
    instance = two_layers()
    compare_iterations(instance, POLICIES, progress=lambda name, time, bound: heard.append((name, bound or 0)))
    assert [name for name, _ in heard] == list(POLICIES)
    assert len({bound for _, bound in heard}) == 1


@pytest.mark.parametrize("policies", [(), (BASELINE, BASELINE)])
def test_policies_must_be_named_once(policies: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must name one or more policies, each once"):
        compare_iterations(two_layers(), policies)


def test_an_unknown_policy_is_refused_before_anything_runs() -> None:
    heard: list[str] = []
    with pytest.raises(InputError, match="unknown policy"):
        compare_iterations(two_layers(), (BASELINE, "never"), progress=lambda name, *_: heard.append(name))
    assert not heard
