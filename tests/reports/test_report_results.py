"""Which bound judges which row, and the statistics of reports."""

import math

import pandas as pd
import pytest
from report_rows import bound, frame, row

from themis_opt.reports.rendering.charts import distribution
from themis_opt.reports.results import geometric_mean, results, speedups
from themis_opt.reports.sections import warnings


def judged(*rows):
    return results(frame(rows))


def the_one(*rows):
    """The only result of some rows."""
    ((_, result),) = judged(*rows).iterrows()
    return result


def bounds_of(*rows):
    """Best bounds of the results, None where there is none."""
    return [None if math.isnan(bound) else bound for bound in judged(*rows)["best_bound_ns"]]


def policies_of(*rows):
    return list(judged(*rows)["label"].cat.categories)


def test_a_gap_is_makespan_over_bound_minus_1():
    assert the_one(row(makespan_ns=1200), bound(bound_ns=1000)).gap == pytest.approx(0.2)


def test_a_makespan_without_a_bound_has_no_gap():
    result = the_one(row(makespan_ns=1200), bound(fingerprint="another"))
    assert math.isnan(result.gap)
    assert not result.is_optimal


def test_a_bound_for_equal_chunks_does_not_judge_free_ones():
    proven = bound(bound_ns=900, bound_equal_ns=990)
    assert bounds_of(row(sizes="equal"), row(sizes="free"), proven) == [990, 900]


def test_what_a_search_proved_of_equal_chunks_does_not_judge_free_ones():
    search = row(policy="exact", sizes="equal", bound_ns=995)
    assert bounds_of(search, row(sizes="free"), bound(bound_ns=900)) == [995, 900]


def test_what_a_search_proved_of_free_chunks_judges_all():
    search = row(policy="exact", sizes="free", bound_ns=950)
    assert bounds_of(search, row(sizes="equal")) == [950, 950]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_only_runs_that_went_well_have_results(status):
    assert judged(row(status=status)).empty


@pytest.mark.parametrize(("makespan", "optimal"), [(1000, True), (1000.09, True), (1000.2, False)])
def test_within_a_ten_thousandth_a_schedule_is_optimal(makespan, optimal):
    assert the_one(row(makespan_ns=makespan), bound(bound_ns=1000)).is_optimal == optimal


@pytest.mark.parametrize(("makespan", "said"), [(999, 1), (1000, 0), (1000 - 1e-7, 0)])
def test_a_makespan_below_its_bound_is_noticed(makespan, said):
    rows = frame([row(makespan_ns=makespan), bound(bound_ns=1000)])
    assert len(warnings(rows, results(rows))) == said


def test_searches_with_other_limits_are_told_apart():
    runs = row(policy="exact", time_limit=1), row(policy="exact", time_limit=10), row(time_limit=1), row()
    assert policies_of(*runs) == ["exact, 1 s", "exact, 10 s", "themis+scf"]


def test_the_fixed_order_is_that_of_the_first_dispatch_rule():
    runs = [("baseline+scf", 300), ("baseline+fifo", 600), ("hourglass", 100)]
    schedules = judged(*(row(policy=policy, makespan_ns=makespan) for policy, makespan in runs))
    assert list(speedups(schedules)) == [1, 0.5, 3]


def test_geometric_mean():
    assert geometric_mean(pd.Series([1, 4, 16])) == pytest.approx(4)
    assert geometric_mean(pd.Series([1, math.nan, 16])) == pytest.approx(4)
    assert math.isnan(geometric_mean(pd.Series([], dtype=float)))


def test_the_distribution_rises_from_0_to_1():
    values = pd.DataFrame({"gap": [3.0, 1, 1, 2, 7], "policy": [*"bbbb", "a"]})
    steps = distribution(values, "gap", "policy")
    of_b = steps[steps["policy"] == "b"].sort_values("share")
    assert list(of_b["gap"]) == [1, 1, 2, 3]
    assert list(of_b["share"]) == [0, 0.5, 0.75, 1]
    assert list(steps[steps["policy"] == "a"]["share"]) == [0, 1]
