"""Comparisons: one bound for all rows, one time limit, nothing lost on Ctrl-C."""

import pytest
from small_iterations import iteration, tensor, two_layers

import themis_opt
from themis_opt.base import allowance
from themis_opt.base.errors import InputError
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.registry import HEURISTICS, REFERENCE, usual_policies
from themis_opt.schedules import kernel
from themis_opt.schedules.results import status_of
from themis_opt.schedules.validation import validate
from themis_opt.search.annealed import Annealed
from themis_opt.search.exact import Exact
from themis_opt.study import comparison as module
from themis_opt.study.comparison import compare, solve

TOYS = (
    "fig5.all_reduce.256MB",
    "one_ring.all_reduce.4MB",
    "release_and_subset.mixed.8MB",
    "two_equal_dims.all_reduce.8MB",
)
TRAINED = ("two layers", "two layers in chunks")
INSTANCES = {name: themis_opt.load(name) for name in TOYS} | dict(
    zip(TRAINED, (two_layers(), two_layers(dimensions=2, chunks=4)), strict=True)
)

QUICK = {"time_limit": 5, "workers": 1}
TO_THE_END = {"time_limit": 600, "workers": 1}  # for what is solved in no time
TOLERANCE = 1e-9
TICKS = 1e-5  # what rounding to the ticks of the solver may hide in a report


@pytest.fixture(scope="module", params=INSTANCES)
def compared(request):
    """Every toy instance, solved."""
    return solve(INSTANCES[request.param], **TO_THE_END)


@pytest.fixture(params=["collectives", "iteration"])
def toy(request, figure_5):
    """A toy of each kind."""
    return figure_5 if request.param == "collectives" else INSTANCES[TRAINED[1]]


@pytest.fixture(scope="module")
def hard():
    """Eight chunks on three uneven dimensions: one second proves nothing."""
    return themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=8)


def test_speedup_is_the_makespan_of_the_baseline_over_the_own(compared):
    baseline = compared.results[0].makespan
    assert [r.speedup for r in compared.results] == [pytest.approx(baseline / r.makespan) for r in compared.results]


def test_speedup_is_relative_to_the_baseline_even_if_that_is_not_asked_for(toy):
    baseline, *_, other = usual_policies(toy)
    of_both, (alone,) = (compare(toy, names, **QUICK).results for names in ([baseline, other], [other]))
    assert alone.speedup == of_both[1].speedup == of_both[0].makespan / alone.makespan


def test_valid_schedules_have_a_bound_below_and_the_gap_to_it(compared):
    for result in compared.results:
        validate(result.schedule)
        assert result.bound <= result.makespan * (1 + TOLERANCE)
        assert result.gap == pytest.approx(result.makespan / result.bound - 1)


def test_status_is_optimal_only_within_the_proven_gap(compared):
    assert compared.best.status == "optimal"
    assert all((r.status == "optimal") == (r.gap <= 1e-4) for r in compared.results)


def test_row_has_times_in_ns(compared):
    row = compared.best.row()
    assert (row["makespan_ns"], row["bound_ns"]) == (compared.best.makespan / 1000, compared.best.bound / 1000)


def test_exposed_gap_is_0_where_everything_hides():
    instance = iteration({"first": 10, "second": 20}, [tensor("t", 5, "first", "first", needed_in="next")])
    (result,) = compare(instance, ["wait_free/baseline+fifo"], **QUICK).results
    assert (result.schedule.period.exposed, result.exposed_gap) == (0, 0)


def test_equal_runs_give_equal_heuristic_rows(hard):
    names = ["baseline", "themis+scf", "random"]
    first, second = (compare(hard, names, **QUICK, seed=3) for _ in range(2))
    assert [r.row() for r in first.results] == [r.row() for r in second.results]


def test_seed_reaches_policies_that_take_one(figure_5):
    by_option = [compare(figure_5, ["random"], seed=s, **QUICK).best.makespan for s in range(4)]
    by_knob = [compare(figure_5, [f"random:seed={s}"], **QUICK).best.makespan for s in range(4)]
    assert by_option == by_knob


def test_unknown_policy_is_refused_before_anything_runs(toy):
    heard = []
    with pytest.raises(InputError, match="unknown policy"):
        compare(toy, ["baseline", "magic"], **QUICK, progress=lambda *news: heard.append(news))
    assert heard == []


@pytest.mark.parametrize("policies", [[], ["baseline", "themis", "baseline"]])
def test_policies_must_be_named_once(toy, policies):
    with pytest.raises(InputError, match="must name one or more policies, each once"):
        compare(toy, policies, **QUICK)


def test_progress_names_every_policy_with_the_makespan_that_it_reached(toy):
    heard = {}
    comparison = solve(toy, **QUICK, progress=lambda policy, makespan, bound: heard.update({policy: makespan}))
    assert heard == {r.policy: r.makespan for r in comparison.results}
    assert list(heard) == [*usual_policies(toy), REFERENCE]


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
    assert comparison.interrupted is True


def test_a_lost_ctrl_c_ends_the_comparison_after_the_policy(toy, loses_ctrl_c):
    comparison = solve(toy, **QUICK, progress=loses_ctrl_c)
    assert comparison.interrupted
    assert [r.policy for r in comparison.results] == [usual_policies(toy)[0]]


def test_interruption_before_the_first_schedule_is_passed_on(figure_5, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "simulate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        solve(figure_5, **QUICK)


@pytest.fixture
def searches(monkeypatch):
    """Policies that would search, as they are called; in their place the fixed order plans."""
    called = []

    def plan(policy, instance):
        called.append(policy)
        return Baseline()(instance)

    for kind in (Annealed, Exact):
        monkeypatch.setattr(kind, "__call__", plan)
    return called


LIMITS = {"time_limit": 600, "seed": 3, "workers": 1, "sizes": "free"}


@pytest.mark.parametrize("name", ["search", "exact"])
def test_limits_reach_the_chunk_policy_of_an_iteration(searches, name):
    compare(INSTANCES[TRAINED[0]], [f"wait_free/{name}"], **LIMITS)
    assert {(policy.seed, policy.workers, policy.sizes) for policy in searches} == {(3, 1, "free")}


@pytest.mark.parametrize("deterministic", [False, True])
def test_groups_of_launches_share_the_seconds(searches, deterministic):
    names = ["wait_free/exact", "wait_free/exact:seed=9"]
    compare(two_layers(4, 10), names, **LIMITS, deterministic=deterministic)
    first, again, *second = [policy.seconds for policy in searches]
    quarter = LIMITS["time_limit"] / 4
    assert 0 < first == again <= quarter
    assert all(quarter <= seconds <= quarter * (1 if deterministic else 2) for seconds in second)
    assert len(second) == 2


def test_policies_are_cut_off_where_their_work_does_not_fit(monkeypatch):
    instance = two_layers(4, 10)
    names = ["wait_free/baseline", "wait_free/hourglass", "ddp/themis"]
    limits = LIMITS | {"time_limit": 3, "deterministic": True}
    assert compare(instance, names, **limits).left_out == ()
    monkeypatch.setattr(kernel, "RUN_SECONDS", 1.0)  # a slow planner of each of two groups
    compared = compare(instance, names, **limits)
    assert compared.left_out == ("wait_free/hourglass", "ddp/themis")
    assert [result.policy for result in compared.results] == ["wait_free/baseline"]


def test_no_solver_is_asked_for_a_bound_after_the_time_limit(figure_5, monkeypatch):
    def slow(instance):
        clock[0] += 60.0
        return Baseline()(instance)

    clock = [0.0]
    monkeypatch.setattr(allowance.SEARCH_CLOCK, "now", lambda: clock[0])
    assert "order_count" in compare(figure_5, ["baseline"], time_limit=5).bounds
    late = compare(figure_5, [slow], time_limit=5).bounds
    assert "head_tail" in late
    assert "order_count" not in late


def test_equal_groups_are_one(searches):
    compare(two_layers(8, 8), ["wait_free/exact"], **LIMITS, deterministic=True)
    assert [policy.seconds for policy in searches] == [LIMITS["time_limit"]]


def test_searches_count_evaluations_where_equal_input_must_give_equal_output(searches):
    compare(INSTANCES[TRAINED[0]], ["wait_free/search"], **LIMITS, deterministic=True)
    assert {policy.seconds for policy in searches} == {None}


def test_policies_with_a_clock_share_the_time_limit(searches, figure_5):
    compare(figure_5, ["search", "baseline", "search:seed=1"], **LIMITS)
    assert searches[0].seconds <= LIMITS["time_limit"] / 2 <= searches[1].seconds <= LIMITS["time_limit"]


@pytest.mark.parametrize(("gap", "status"), [(0.0, "optimal"), (2e-4, "near-optimal"), (0.02, "feasible")])
def test_gaps_have_names(gap, status):
    assert status_of(gap) == status


def test_nccl_stands_beside_the_fixed_order_where_it_would_run():
    assert "nccl" in usual_policies(themis_opt.load("dgx_h100_superpod.all_reduce.1GiB"))
    assert "nccl" not in usual_policies(themis_opt.load("3d-fc_ring_sw.all_reduce.100MiB"))
    assert "nccl" not in usual_policies(themis_opt.load("tpu_v4-4x4x4.all_reduce.1GiB"))
