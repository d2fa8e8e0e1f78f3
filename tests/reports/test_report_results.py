"""Which bound judges which row, and the statistics of reports."""

import pytest
from report_rows import bound, row

from themis_opt.reports.results import by_policy, results
from themis_opt.reports.rows import Row
from themis_opt.reports.statistics import distribution, geometric_mean, power_law, spread


def judged(*rows):
    return results([Row.model_validate({name: cell for name, cell in cells.items() if cell != ""}) for cells in rows])


def bounds_of(*rows):
    return [result.bound_ns for result in judged(*rows)]


def test_a_gap_is_makespan_over_bound_minus_1():
    (result,) = judged(row(makespan_ns=1200), bound(bound_ns=1000))
    assert result.gap == pytest.approx(0.2)


def test_a_makespan_without_a_bound_has_no_gap():
    (result,) = judged(row(makespan_ns=1200), bound(fingerprint="another"))
    assert result.gap is None
    assert not result.is_optimal


def test_the_best_bound_counts():
    assert bounds_of(row(), bound(bound_ns=900), bound(bound_ns=950), bound(bound_ns=920)) == [950]


def test_a_bound_for_equal_chunks_does_not_judge_free_ones():
    proven = bound(bound_ns=900, bound_equal_ns=990)
    assert bounds_of(row(sizes="equal"), row(sizes="free"), proven) == [990, 900]


def test_what_a_search_proved_of_equal_chunks_does_not_judge_free_ones():
    search = row(policy="exact", sizes="equal", bound_ns=995)
    assert bounds_of(search, row(sizes="free"), bound(bound_ns=900)) == [995, 900]


def test_what_a_search_proved_of_free_chunks_judges_all():
    search = row(policy="exact", sizes="free", bound_ns=950)
    assert bounds_of(search, row(sizes="equal")) == [950, 950]


def test_a_failed_run_proves_nothing():
    assert bounds_of(row(), row(policy="exact", status="failed", bound_ns=990)) == [None]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_only_runs_that_went_well_have_results(status):
    assert judged(row(status=status)) == ()


@pytest.mark.parametrize(("makespan", "optimal"), [(1000, True), (1000.09, True), (1000.2, False)])
def test_within_a_ten_thousandth_a_schedule_is_optimal(makespan, optimal):
    (result,) = judged(row(makespan_ns=makespan), bound(bound_ns=1000))
    assert result.is_optimal == optimal


def test_a_makespan_below_its_bound_is_noticed():
    (result,) = judged(row(makespan_ns=999), bound(bound_ns=1000))
    assert result.is_below_bound


def test_searches_with_other_limits_are_told_apart():
    runs = judged(row(policy="exact", time_limit=1), row(policy="exact", time_limit=10), row(time_limit=1), row())
    assert list(by_policy(runs)) == ["exact, 1 s", "exact, 10 s", "themis+scf"]


def test_searches_with_other_sizes_are_told_apart():
    runs = judged(row(policy="exact", sizes="equal"), row(policy="exact", sizes="free"))
    assert list(by_policy(runs)) == ["exact, equal sizes", "exact, free sizes"]


def test_searches_with_one_setting_have_the_name_of_the_policy():
    assert list(by_policy(judged(row(policy="exact", time_limit=1, sizes="free")))) == ["exact"]


def test_the_exponent_of_a_power_law_is_found():
    assert power_law([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_one_place_has_no_exponent():
    assert power_law([4, 4], [1, 2]) is None


def test_geometric_mean():
    assert geometric_mean([1, 4, 16]) == pytest.approx(4)
    assert geometric_mean([]) is None


def test_spread_of_nothing_is_nothing():
    assert spread([]) is None


def test_the_distribution_rises_from_0_to_1():
    assert distribution([3, 1, 1, 2]) == ((1, 1, 2, 3), (0, 0.5, 0.75, 1))
