"""The plan of a training step: what it says, which settings it gives, and how traces become steps with windows."""

import pytest
from sharded_iterations import sharded
from small_iterations import FOUR_TASKS, iteration, tensor, two_layers

from themis_opt import workload
from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_size
from themis_opt.schedules.validation import validate
from themis_opt.study.step_plan import StepPlan, plan_step, with_prefetch


def planned(**fields: str) -> StepPlan:
    return plan_step(sharded(8, 8, 8, **fields), time_limit=0.1, workers=1, deterministic=True)


@pytest.fixture(scope="module")
def free() -> StepPlan:
    return planned()


def test_a_plan_is_no_slower_than_today_and_no_faster_than_its_bound(free: StepPlan) -> None:
    validate(free.best)
    assert free.today is not None
    assert free.bound <= free.best.makespan <= free.today.makespan


def test_what_fits_nowhere_is_refused_with_a_size_that_is_enough() -> None:
    setup = {"parallelism": "fsdp", "device": "H100", "batch": 1, "recompute": True}
    step = workload("bert-base", network="dgx_h100_superpod.all_reduce.1GiB", **setup)
    limits = {"time_limit": 0.1, "workers": 1, "deterministic": True}
    with pytest.raises(InputError, match=r"no launches fit beside .* gather.*: .* are enough") as refused:
        plan_step(step.replace(memory="1 MB"), **limits)
    enough = parse_size(refused.value.rule.partition(": ")[2].partition(" are")[0])
    plan = plan_step(step.replace(memory=enough), **limits)
    assert plan.best.memory_peak <= enough == plan.document()["memory"]


def test_less_than_half_a_percent_is_nothing_to_win() -> None:
    """Today all gradients, 0.17 us, wait for the last one: that costs 0.42 % of the step."""
    plan = plan_step(two_layers(0.08, 0.09), time_limit=0.1, workers=1, deterministic=True)
    assert plan.best.makespan < plan.today.makespan < plan.best.makespan * 1.005
    assert plan.sentence().startswith("nothing to win, keep today's launches: 40.17 us a step, of which other")


def test_every_module_is_in_one_group_and_prefetched_after_it(free: StepPlan) -> None:
    settings = free.fsdp()
    assert settings is not None
    assert sorted(module for group in settings["groups"] for module in group) == [f"parameters{n}" for n in (1, 2, 3)]
    assert all(int(user) < number for user, numbers in settings["forward"].items() for number in numbers)


def test_buckets_of_ddp_hold_all_gradients() -> None:
    plan = plan_step(two_layers(), time_limit=0.1, workers=1, deterministic=True)
    settings = plan.ddp()
    assert settings is not None
    assert sum(settings["bucket_cap_mb_list"]) * 2**20 == pytest.approx(14_000)
    assert settings["bucket_cap_mb"] == max(settings["bucket_cap_mb_list"])
    assert plan.fsdp() is None
    step = "44 us instead of 54 us a step, at least 44 us with any plan"
    assert plan.sentence() == f"use 2 buckets instead of 1 launch: {step}"


def traced(*sizes: float, gradients: tuple[float, ...] = (10, 8)) -> list[dict[str, object]]:
    """Gathers and reduce-scatters as a trace of two layers has them."""
    places = zip(sizes, ("backward1", "forward1", "forward2"), ("forward1", "forward2", "backward1"), strict=True)
    gathers = [tensor(f"g{s}{n}", s, r, n, kind="all_gather", parallelism="model") for s, r, n in places]
    pairs = zip(gradients, ("backward2", "backward1"), strict=True)
    return [*gathers, *(tensor(f"r{ready}", s, ready, "forward1", kind="reduce_scatter") for s, ready in pairs)]


def test_a_traced_step_of_sharded_parameters_gets_windows() -> None:
    step = with_prefetch(iteration(FOUR_TASKS, traced(8, 10, 8)))
    windows = {e.name: (e.ready_task, e.needed_task, e.needed_later, e.freed_task) for e in step.exchanges}
    assert windows["layer1.parameters"] == (3, 0, 1, 0)
    assert windows["layer2.parameters"] == (3, 1, 1, 2)
    assert windows["layer1.parameters_again"] == (0, 3, 0, 3)
    assert {e.parallelism for e in step.exchanges} == {"data"}


def test_other_gathers_stay_as_they_are() -> None:
    """Parameters of sharded optimizers are gathered once their gradients are scattered, and not given up."""
    names = [f"r{task}" for task in ("backward1", "backward2", "backward1")]
    waiting = zip(traced(8, 10, 8), names, strict=False)
    gathers = [gather | {"ready_after": "backward1", "after": [name]} for gather, name in waiting]
    gathers = [g | {"needed_in": "next"} for g in gathers[:2]]
    for tensors in ([*gathers, *traced(8, 10, 8)[3:]], traced(8, 10, 9), traced(9, 10, 9)):
        step = iteration(FOUR_TASKS, tensors)
        assert with_prefetch(step) == step
