"""Comparisons: one bound for all rows, nothing lost on Ctrl-C."""

import time

import pytest

import themis_opt
from themis_opt import comparison as module
from themis_opt.comparison import compare, solve
from themis_opt.errors import InputError
from themis_opt.policies.registry import HEURISTICS, REFERENCE
from themis_opt.validation import validate

TOYS = (
    "fig5.all_reduce.256MB",
    "one_ring.all_reduce.4MB",
    "release_and_subset.mixed.8MB",
    "two_equal_dims.all_reduce.8MB",
)
QUICK = {"time_limit": 5, "workers": 1}
TO_THE_END = {"time_limit": 600, "workers": 1}
"""For what is solved in no time."""

TOLERANCE = 1e-9
TICKS = 1e-5
"""What rounding to the ticks of the solver may hide in a report."""


@pytest.fixture(scope="module", params=TOYS)
def compared(request):
    """Every toy instance, solved."""
    return solve(themis_opt.load(request.param), **TO_THE_END)


@pytest.fixture(scope="module")
def hard():
    """Eight chunks on three uneven dimensions: one second proves nothing."""
    return themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=8)


@pytest.fixture(scope="module")
def unfinished(hard):
    return solve(hard, time_limit=2, workers=1)


def test_solve_compares_the_heuristics_with_the_reference(compared):
    assert [result.policy for result in compared.results] == [*HEURISTICS, REFERENCE]


def test_baseline_has_speedup_1(compared):
    assert compared.results[0].speedup == 1


def test_speedup_is_the_makespan_of_the_baseline_over_the_own(compared):
    baseline = compared.results[0].makespan
    assert [r.speedup for r in compared.results] == [pytest.approx(baseline / r.makespan) for r in compared.results]


def test_speedup_is_relative_to_the_baseline_even_if_that_is_not_asked_for(figure_5):
    (result,) = compare(figure_5, ["themis+scf"], **QUICK).results
    assert result.speedup == pytest.approx(8 / 7)


def test_all_rows_share_the_best_bound(compared):
    assert {result.bound for result in compared.results} == {max(compared.bounds.values())}


def test_bound_is_never_above_a_makespan(compared):
    assert all(r.bound <= r.makespan * (1 + TOLERANCE) for r in compared.results)


def test_no_single_bound_is_above_a_makespan(compared):
    assert max(compared.bounds.values()) <= compared.best.makespan * (1 + TOLERANCE)


def test_gap_is_makespan_over_bound_minus_1(compared):
    assert all(r.gap == pytest.approx(r.makespan / r.bound - 1) for r in compared.results)


def test_gap_is_not_negative(compared):
    assert all(r.gap >= -TOLERANCE for r in compared.results)


def test_toys_are_solved_to_optimality(compared):
    assert compared.best.status == "optimal"


def test_status_is_optimal_only_within_the_proven_gap(compared):
    assert all((r.status == "optimal") == (r.gap <= 1e-4) for r in compared.results)


def test_schedules_are_valid(compared):
    for result in compared.results:
        validate(result.schedule)


def test_reference_is_never_worse_than_a_heuristic(compared):
    assert compared.results[-1].makespan == compared.best.makespan


def test_finished_comparison_is_not_interrupted(compared):
    assert compared.interrupted is False


def test_row_has_times_in_ns(compared):
    row = compared.best.row()
    assert (row["makespan_ns"], row["bound_ns"]) == (compared.best.makespan / 1000, compared.best.bound / 1000)


def test_row_has_fractions(compared):
    assert all(0 < r.row()["utilisation"] <= 1 + TOLERANCE for r in compared.results)


def test_unfinished_search_still_has_a_bound_below_its_makespans(unfinished):
    assert all(0 < r.bound <= r.makespan for r in unfinished.results)


def test_unfinished_search_shares_one_bound(unfinished):
    assert len({r.bound for r in unfinished.results}) == 1


def test_equal_runs_give_equal_heuristic_rows(hard):
    names = ["baseline", "themis+scf", "random"]
    first, second = (compare(hard, names, **QUICK, seed=3) for _ in range(2))
    assert [r.row() for r in first.results] == [r.row() for r in second.results]


def test_results_come_in_the_order_asked_for(figure_5):
    names = ["exact", "themis+scf", "baseline"]
    assert [r.policy for r in compare(figure_5, names, **QUICK).results] == names


def test_comparison_without_the_reference_has_bounds(figure_5):
    comparison = compare(figure_5, ["baseline"], **QUICK)
    assert comparison.results[0].bound == pytest.approx(7e9, rel=1e-4)


def test_seed_reaches_policies_that_take_one(figure_5):
    by_option = [compare(figure_5, ["random"], seed=s, **QUICK).best.makespan for s in range(4)]
    by_knob = [compare(figure_5, [f"random:seed={s}"], **QUICK).best.makespan for s in range(4)]
    assert by_option == by_knob


def test_unknown_policy_is_refused_before_anything_runs(figure_5):
    heard = []
    with pytest.raises(InputError, match="unknown policy"):
        compare(figure_5, ["baseline", "magic"], **QUICK, progress=lambda *news: heard.append(news))
    assert heard == []


def test_no_policies_are_refused(figure_5):
    with pytest.raises(InputError, match="one or more policies"):
        compare(figure_5, [], **QUICK)


def test_repeated_policies_are_refused(figure_5):
    with pytest.raises(InputError, match="each once"):
        compare(figure_5, ["baseline", "themis", "baseline"], **QUICK)


def test_progress_names_every_policy(figure_5):
    heard = []
    solve(figure_5, **QUICK, progress=lambda policy, makespan, bound: heard.append(policy))
    assert list(dict.fromkeys(heard)) == [*HEURISTICS, REFERENCE]


def test_progress_reports_makespans_that_were_reached(figure_5):
    heard = {}
    comparison = compare(
        figure_5, HEURISTICS, **QUICK, progress=lambda policy, makespan, bound: heard.update({policy: makespan})
    )
    assert heard == {r.policy: r.makespan for r in comparison.results}


def test_progress_never_reports_a_bound_above_its_makespan(hard):
    heard = []
    solve(hard, time_limit=2, workers=1, progress=lambda policy, makespan, bound: heard.append((makespan, bound)))
    best = min(makespan for makespan, _ in heard)
    assert max(bound for _, bound in heard) <= best * (1 + TICKS)


def interrupting(policy):
    """A receiver of progress that is hit by Ctrl-C at the first report of a policy."""

    def report(reporting, makespan, bound):
        if reporting == policy:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize(("policy", "kept"), [*zip(HEURISTICS, (1, 2, 3, 4), strict=True), (REFERENCE, 4)])
def test_interruption_keeps_what_is_there(hard, policy, kept):
    comparison = solve(hard, **QUICK, progress=interrupting(policy))
    assert [r.policy for r in comparison.results] == list(HEURISTICS[:kept])


@pytest.mark.parametrize("policy", [*HEURISTICS, REFERENCE])
def test_interruption_is_reported(figure_5, policy):
    assert solve(figure_5, **QUICK, progress=interrupting(policy)).interrupted is True


@pytest.mark.parametrize("policy", [*HEURISTICS, REFERENCE])
def test_interrupted_comparison_has_a_valid_bound(figure_5, policy):
    comparison = solve(figure_5, **QUICK, progress=interrupting(policy))
    assert all(0 < r.bound <= r.makespan for r in comparison.results)


def test_interruption_before_the_first_schedule_is_passed_on(figure_5, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "simulate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        solve(figure_5, **QUICK)


@pytest.mark.benchmarks
def test_time_limit_covers_the_whole_comparison():
    instance = themis_opt.load("4d-ring_fc_ring_sw.all_reduce.100MiB").overridden(chunks=16)
    began = time.monotonic()
    solve(instance, time_limit=8, workers=1)
    assert time.monotonic() - began < 2 * 8
