"""Limits on time and memory hold for heuristics and files of large instances too."""

import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.formats import tables
from themis_opt.formats.bundle import write_schedule
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.planning import in_stages
from themis_opt.search.exact import Exact
from themis_opt.solving import makespan_bounds
from themis_opt.study import comparison
from themis_opt.study.comparison import compare

POLICIES = ("baseline+fifo", "themis+scf", "hourglass")


@pytest.fixture(scope="module")
def large():
    """A collective of 400,000 stages."""
    return themis_opt.load("2d-sw_sw.all_reduce.100MiB").overridden(chunks=100_000, size="64 GiB")


def test_policies_that_would_outlast_the_limit_are_left_out(large):
    compared = compare(large, POLICIES, time_limit=0.1)
    assert compared.left_out == POLICIES[1:]
    assert [result.policy for result in compared.results] == [POLICIES[0]]
    assert compared.bounds


def test_small_instances_have_all_policies_whatever_the_limit():
    compared = compare(themis_opt.load("fig5.all_reduce.256MB"), (*POLICIES, "exact"), time_limit=0.01)
    assert compared.left_out == ()
    assert len(compared.results) == 4


def test_equal_chunks_come_before_free_sizes_and_the_better_of_both_stays():
    assert [stage.sizes for stage in in_stages(Hourglass(sizes="free"))] == ["equal", "free"]
    assert list(in_stages(endless)) == [endless]
    instance = themis_opt.load("fig5.all_reduce.256MB")
    best = compare(instance, ("hourglass",), sizes="free").best.makespan
    assert best <= compare(instance, ("hourglass",), sizes="equal").best.makespan


def endless(instance):
    while True:
        pass


def test_a_policy_that_does_not_end_is_cut_off_and_left_out():
    compared = compare(themis_opt.load("fig5.all_reduce.256MB"), ("baseline", endless), time_limit=0.05)
    assert compared.left_out == ("endless",)
    assert [result.policy for result in compared.results] == ["baseline"]


def test_a_reference_that_is_a_schedule_at_hand_is_checked_once(monkeypatch):
    checked = []
    monkeypatch.setattr(comparison, "validate", checked.append)
    compared = compare(themis_opt.load("fig5.all_reduce.256MB"), ("hourglass", "exact"), time_limit=1e-6)
    assert compared.results[1].schedule is compared.results[0].schedule
    assert checked == [compared.results[0].schedule]


def test_a_bound_that_does_not_end_is_cut_off(monkeypatch):
    kinds = {"ideal": makespan_bounds.MAKESPAN_BOUNDS["ideal"], "slow": makespan_bounds.Bound(endless, False, "")}
    monkeypatch.setattr(comparison, "bounds_of", lambda instance: kinds)
    compared = compare(themis_opt.load("fig5.all_reduce.256MB"), ("baseline",), time_limit=0.05)
    assert list(compared.bounds) == ["ideal"]


def test_a_step_that_does_not_end_is_cut_off():
    class Endless:
        engine = ""

        def applies(self, incumbent):
            return True

        def run(self, incumbent):
            endless(incumbent)

    instance = themis_opt.load("fig5.all_reduce.256MB")
    assert Exact(seconds=0.05).solve(instance, steps=[Endless()]).status == "finished"


def test_instances_that_do_not_fit_the_memory_are_refused(large):
    with pytest.raises(InputError, match=r"memory = 0\.1: must be 0\.4 GiB or more for 400000 stages"):
        compare(large, POLICIES, memory=0.1)


def test_tables_that_no_spreadsheet_holds_are_not_written(tmp_path, monkeypatch):
    instance = themis_opt.load("fig5.all_reduce.256MB")
    schedule = themis_opt.simulate(instance, themis_opt.make_policy("baseline")(instance))
    monkeypatch.setattr(tables, "MAX_TABULATED_STAGES", schedule.plan.num_stages - 1)
    names = {path.name for path in write_schedule(tmp_path, schedule)}
    assert "order.json" in names
    assert not names & {"stages.csv", "order.csv"}
