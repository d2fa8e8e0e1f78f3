"""Activations that go to the host and back: legal, no slower than without, and never below the bound."""

from dataclasses import replace

import pytest
from pipeline_samples import pipeline, random_pipeline

from formulations.limits import Limits
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.families.calls import workload
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.comparison import compare
from themis_opt.pipelines.files import read_schedule, write_schedule
from themis_opt.pipelines.offloads import with_offloads
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Action, ActionKind
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.steps import best_policy
from themis_opt.pipelines.torch_csv import torch_rows
from themis_opt.pipelines.validation import validate

LIMITS = Limits(seconds=4.0, workers=1, gap=0.0, deterministic=True)


def gpipe(problem, spared=0):
    return simulate(problem, with_offloads(problem, PIPELINE_POLICIES["gpipe"](problem), spared))


@pytest.fixture
def schedule():
    return gpipe(pipeline(2, 4, 2, 2, 2, memory=2, offload="1 ps"))


@pytest.mark.parametrize("spared", [0, 1, 2])
@pytest.mark.parametrize("time", ["0 ps", "3 ps"])
def test_all_forward_passes_come_first_in_any_memory(time, spared):
    for seed in range(8):
        problem = random_pipeline(seed)
        problem = problem.replace(memory=problem.parts * problem.activation, offload=time)
        made = gpipe(problem, spared)
        validate(made)
        assert made.value >= bound(problem)
        assert (made.offloads > 0) == (problem.microbatches > 1)


def test_transfers_hide_behind_passes_where_the_link_is_fast():
    problem = pipeline(2, 8, 2, 2, 2, memory=3)
    hidden, slow = (gpipe(problem.replace(offload=f"{time} ps"), 1) for time in (1, 9))
    assert hidden.value == simulate(problem, PIPELINE_POLICIES["gpipe"](problem)).value < slow.value
    assert hidden.communication == 0 < slow.communication


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda plan: {Action(ActionKind.LOAD, 0, 1): plan.start[Action(ActionKind.BACKWARD, 0, 1)]}, "host"),
        (lambda plan: {Action(ActionKind.OFFLOAD, 0, 1): 0}, "input"),
        (lambda plan: {Action(ActionKind.FORWARD, 0, 2): plan.end(Action(ActionKind.OFFLOAD, 0, 1)) - 1}, "memory"),
        (lambda plan: {Action(ActionKind.LOAD, 0, 1): 0}, "memory"),
        (lambda plan: {Action(ActionKind.OFFLOAD, 0, 1): plan.start[Action(ActionKind.OFFLOAD, 0, 2)]}, "stage"),
    ],
)
def test_transfers_that_break_a_rule_are_refused(schedule, change, rule):
    validate(schedule)
    with pytest.raises(InvalidSchedule) as refusal:
        validate(replace(schedule, start=schedule.start | change(schedule)))
    assert refusal.value.rule == rule


def test_what_leaves_comes_back_once(schedule):
    back = Action(ActionKind.LOAD, 0, 1)
    for order in (tuple(a for a in schedule.orders[0] if a != back), (*schedule.orders[0], back)):
        with pytest.raises(InvalidSchedule, match="come back once"):
            validate(replace(schedule, orders=(order, *schedule.orders[1:])))
    with pytest.raises(InvalidSchedule, match="has no time"):
        validate(replace(schedule, pipeline=schedule.pipeline.replace(offload=None, memory=None)))


def test_schedules_with_transfers_are_read_again_and_not_written_for_torch(tmp_path, schedule):
    write_schedule(tmp_path / "schedule.json", schedule)
    assert read_schedule(tmp_path / "schedule.json")[0].start == schedule.start
    with pytest.raises(InputError, match="cannot send activations to the host"):
        torch_rows(schedule)


@pytest.mark.parametrize(("time", "period"), [(1, 18), (2, 18), (9, 21)])
def test_the_reference_chooses_what_leaves(time, period):
    """Without a link to hosts 21 is the optimum; a slow one is no use."""
    problem = pipeline(3, 4, 1, 1, 1, memory=2, split=False)
    result = compare(problem.replace(offload=f"{time} ps"), ["exact"], LIMITS).best
    validate(result.schedule)
    assert (result.schedule.value, result.bound) == (period, period)


def test_a_model_states_what_its_link_to_hosts_takes():
    choices = {"stages": 2, "microbatches": 2, "batch": 2, "sequence": 64, "host_link": "1 GB/s"}
    problem = workload("transformer:layers=4:hidden=256", "v100-256.resnet-50", family="pipeline", **choices)
    assert problem.offload == 1000 * problem.activation


@pytest.mark.parametrize(("seed", "memory", "time", "period"), [(66, 1, 4, 72), (138, 1, 6, 68), (5, 1, 7, 115)])
def test_the_bound_knows_how_long_activations_take_memory(seed, memory, time, period):
    """The passes that wait for the link alone say 50, 52 and 66."""
    sample = random_pipeline(seed)
    problem = sample.replace(memory=memory * sample.activation, offload=f"{time} ps")
    assert period == bound(problem) <= best_policy(problem).value
