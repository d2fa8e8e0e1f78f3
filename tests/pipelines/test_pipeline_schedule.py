"""Rules of a pipeline's schedule, and its files."""

import json
from dataclasses import replace

import pytest
from pipeline_samples import pipeline, random_pipeline, random_schedule

from themis_opt.base.errors import CyclicPlan, InputError, InvalidSchedule
from themis_opt.pipelines.files import read_pipeline, read_schedule, write_schedule
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Action, ActionKind
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.torch_csv import write_torch_csv
from themis_opt.pipelines.validation import validate
from themis_opt.schedules.envelope import Summary

FORWARD, INPUTS, WEIGHTS = ActionKind.FORWARD, ActionKind.INPUTS, ActionKind.WEIGHTS


@pytest.fixture
def schedule():
    problem = pipeline(3, 4, 2, 2, 2, message=3, memory=3)
    return simulate(problem, PIPELINE_POLICIES["zb1p"](problem))


def moved(schedule, action, by):
    return replace(schedule, start=schedule.start | {action: schedule.start[action] + by})


def test_messages_of_a_link_wait_for_each_other():
    """Messages take longer than the passes that send them, so that the second one leaves late."""
    problem = pipeline(2, 2, 1, 1, 1, message=10)
    schedule = simulate(problem, PIPELINE_POLICIES["gpipe"](problem))
    assert [schedule.start[Action(FORWARD, 1, i)] for i in range(2)] == [11, 21]
    validate(schedule)
    with pytest.raises(InvalidSchedule, match="stage 0 sends two messages to stage 1"):
        validate(moved(schedule, Action(FORWARD, 1, 1), -8))


def test_weights_wait_for_no_message(schedule):
    assert schedule.start[Action(WEIGHTS, 0, 0)] == schedule.end(Action(INPUTS, 0, 0))


@pytest.mark.parametrize(
    ("action", "by", "rule"),
    [(Action(FORWARD, 0, 1), -1, "stage"), (Action(FORWARD, 1, 0), -1, "input"), (Action(INPUTS, 0, 0), -1, "input")],
)
def test_times_that_break_a_rule_are_refused(schedule, action, by, rule):
    validate(schedule)
    with pytest.raises(InvalidSchedule) as refusal:
        validate(moved(schedule, action, by))
    assert refusal.value.rule == rule


@pytest.mark.parametrize("change", [lambda order: order[:-1], lambda order: (*order, order[-1])])
def test_missing_and_repeated_actions_are_refused(schedule, change):
    orders = (change(schedule.orders[0]), *schedule.orders[1:])
    with pytest.raises(InvalidSchedule, match="each of its actions once"):
        validate(replace(schedule, orders=orders))


def test_whole_backward_passes_have_no_halves(schedule):
    with pytest.raises(InvalidSchedule, match="runs half of a backward pass"):
        validate(replace(schedule, pipeline=schedule.pipeline.replace(split=False)))


def test_memory_is_a_limit(schedule):
    assert schedule.peaks() == (3, 3, 3)
    with pytest.raises(InvalidSchedule, match="keeps 3 of 2"):
        validate(replace(schedule, pipeline=schedule.pipeline.replace(memory=2)))


def test_actions_that_wait_for_each_other_are_refused():
    problem = pipeline(2, 1)
    orders = PIPELINE_POLICIES["gpipe"](problem)
    with pytest.raises(CyclicPlan, match="never runs"):
        simulate(problem, (orders[0][::-1], orders[1]))


def test_schedules_are_read_as_they_were_written(tmp_path):
    written = 0
    for seed in range(40):
        problem = random_pipeline(seed)
        schedule = random_schedule(problem, seed)
        if schedule is None:
            continue
        write_schedule(tmp_path / "schedule.json", schedule, Summary(policy="random"))
        again, summary = read_schedule(tmp_path / "schedule.json")
        assert (summary.policy, summary.makespan_ns) == ("random", schedule.value / 1000)
        assert (again.pipeline, again.orders, again.start) == (problem, schedule.orders, schedule.start)
        assert read_pipeline(tmp_path / "schedule.json") == problem
        written += 1
    assert written > 20


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("orders", [["0F0"]], "must be 3 lists"),
        ("orders", [["0X0"], [], []], "such as 2F0"),
        ("orders", [["1F0"], [], []], "must be a part of stage 0"),
        ("starts", [[0], [0], [0]], "must have a time for each action"),
        ("starts", [[True] * 12] * 3, r"starts\[0\]\[0\] = True: .*valid integer"),
        ("format", "other", "must be 'themis-opt/pipeline-schedule/1'"),
        ("instance", {"stages": 1}, "stages"),
        ("summary", {"makespan_ns": 1.0}, r"summary\.makespan_ns = 1\.0: must be"),
        ("fingerprint", "other", "belongs to another instance"),
    ],
)
def test_damaged_schedules_are_refused(tmp_path, schedule, field, value, message):
    path = tmp_path / "schedule.json"
    write_schedule(path, schedule)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError, match=message):
        read_schedule(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"forward": [1, 1]}, "one time, or one for each of 2 parts"),
        ({"gradient": 2}, "at most the activation"),
        ({"memory": 1, "activation": 2}, "must be at least 2 bytes"),
    ],
)
def test_pipelines_that_cannot_be_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        pipeline(2, 1, **({"forward": [1, 1, 1]} if "forward" in fields else fields))


def test_halves_are_one_action_of_torch_where_no_stage_waits_for_the_first(tmp_path):
    problem = pipeline(2, 1)
    write_torch_csv(tmp_path / "plan.csv", simulate(problem, PIPELINE_POLICIES["zb1p"](problem)))
    assert (tmp_path / "plan.csv").read_text().split() == ["0F0,0B0", "1F0,1I0,1W0"]
