"""The critical path, the time of each resource, and what the NPU waits for."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from iteration_schedules import layers, scheduled, with_and_without_compute, with_compute
from strategies import schedules

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.explanation import critical_path, explain
from themis_opt.schedules.plan import Chunks, Plan, TaskOf
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.timed import CriticalStep
from themis_opt.schedules.validation import validate

MICROSECOND = 10**6


def passed(before: CriticalStep, waited_for: str) -> int:
    """When a step is over for the one after it: data arrive a lag after the dimension is free."""
    return before.start + before.busy + before.lag * (waited_for == "data")


def waits_on_purpose(schedule: Schedule) -> Schedule:
    """Everything starts twice as late; orders stay."""
    start, known = schedule.start * 2, schedule.start >= 0
    ends = (np.where(known, start + times - schedule.start, times) for times in (schedule.end, schedule.ready))
    return replace(schedule, start=np.where(known, start, -1), **dict(zip(("end", "ready"), ends, strict=True)),
                   task_start=schedule.task_start * 2)  # fmt: skip


@given(schedules())
def test_the_critical_path_leads_from_a_release_to_the_makespan(schedule: Schedule) -> None:
    """A step passes on its lag to the next one of its chunk, and only its busy time along a dimension."""
    steps = critical_path(schedule)
    waits = [following.waited_for == "data" for following in steps[1:]] + [True]
    total = sum(step.busy + step.lag * with_lag for step, with_lag in zip(steps, waits, strict=True))
    assert steps[0].start + total == schedule.makespan
    launch = schedule.plan.stage_of(schedule.instance, steps[0].stage).launch
    assert (steps[0].waited_for, steps[0].start) == ("release", schedule.instance.exchanges[launch].release)
    assert all(step.start == passed(before, step.waited_for) for before, step in pairwise(steps))


@with_compute
def test_steps_of_a_period_start_when_what_they_waited_for_is_over(schedule: Schedule) -> None:
    for before, step in pairwise(critical_path(schedule)):
        assert step.start == passed(before, step.waited_for)
        assert (step.waited_for == "task") == (before.stage is None)


@with_compute
@pytest.mark.parametrize("iterations", [2, 5])
def test_the_critical_path_of_a_period_fills_the_last_whole_one(schedule: Schedule, iterations: int) -> None:
    schedule = simulate(schedule.instance, schedule.plan, iterations)
    steps, (begin, end) = critical_path(schedule), schedule.task_start[-2:, 0]
    assert steps[0].start <= begin < steps[1].start
    assert passed(steps[-1], "data") == end


@with_compute
def test_steps_of_a_period_say_what_they_are(schedule: Schedule) -> None:
    """Tasks hold the NPU and have no lag."""
    instance, plan = schedule.instance, schedule.plan
    tasks = [task.name for task in instance.tasks]
    for step in critical_path(schedule):
        iteration, name = step.label.split(": ")
        assert iteration == f"iteration {step.iteration}"
        if step.stage is not None:
            assert name == plan.label(instance, step.stage)
            assert step.start == schedule.period.stage_start[step.iteration, step.stage]
            continue
        number = tasks.index(name)
        assert step.start == schedule.task_start[step.iteration, number]
        assert (step.busy, step.lag) == (instance.tasks[number].duration, 0)


@given(schedules())
def test_a_schedule_that_waits_on_purpose_has_the_critical_path_of_its_orders(schedule: Schedule) -> None:
    waiting = waits_on_purpose(schedule)
    validate(waiting)
    steps, expected = ([(s.stage, s.waited_for) for s in critical_path(one)] for one in (waiting, schedule))
    assert steps == expected


@with_compute
def test_periods_that_wait_on_purpose_have_the_critical_path_of_their_orders(schedule: Schedule) -> None:
    waiting = waits_on_purpose(schedule)
    validate(waiting)
    steps, expected = ([(s.label, s.waited_for) for s in critical_path(one)] for one in (waiting, schedule))
    assert steps == expected


def test_a_gather_waits_for_its_scatter() -> None:
    steps = critical_path(scheduled("dear:threshold=6MB/themis"))
    gathers = [
        (a.label, b.waited_for) for a, b in pairwise(steps) if "gather chunk" in b.label and "scatter" in a.label
    ]
    assert [(waited_for, "scatter chunk" in label) for label, waited_for in gathers] == [("data", True)]


def test_a_launch_of_one_iteration_may_wait_for_a_task_of_the_next() -> None:
    """The gradient of the last layer is exchanged while the first computes again."""
    plan = scheduled().plan
    rows, last, *rest = plan.launches
    launches = (rows, replace(last, after=TaskOf(0, 1)), *rest)
    steps = critical_path(simulate(layers(), replace(plan, launches=launches)))
    late = [(task, step) for task, step in pairwise(steps) if step.waited_for == "task" and "w2" in step.label]
    ((task, step),) = late
    assert task.label == f"iteration {step.iteration + 1}: layer0_forward"


@pytest.mark.parametrize("later", [1, 3])
def test_a_launch_before_its_time_waits_for_no_task(later: int) -> None:
    """No rule says when a plan launches, so that a valid schedule may contradict it."""
    schedule = scheduled()
    late = tuple(
        replace(launch, after=TaskOf(min(launch.after.task + later, 5), 0)) for launch in schedule.plan.launches
    )
    contradicted = replace(schedule, plan=replace(schedule.plan, launches=late))
    validate(contradicted)
    steps = critical_path(contradicted)
    assert all(a.start < b.start for a, b in pairwise(steps))
    assert passed(steps[-1], "data") == schedule.task_start[-1, 0]


def check_sums(schedule: Schedule) -> None:
    """Busy, lag and idle time fill the makespan."""
    for time in explain(schedule).resources:
        assert time.busy + time.lag + time.idle == schedule.makespan
        assert min(time.busy, time.lag, time.idle) >= 0


@given(schedules())
def test_busy_time_is_what_the_stages_hold(schedule: Schedule) -> None:
    check_sums(schedule)
    resources = schedule.plan.stage_resources(schedule.instance)
    for k, time in enumerate(explain(schedule).resources):
        assert time.busy == schedule.costs.occupancy[resources == k].sum()


@with_compute
def test_busy_time_of_a_period_is_what_its_tasks_and_stages_hold(schedule: Schedule) -> None:
    """In the steady state every stage runs once in a period, of whichever iteration."""
    check_sums(schedule)
    assert schedule.period.is_steady
    instance, resources = schedule.instance, schedule.plan.stage_resources(schedule.instance)
    held = [schedule.costs.occupancy[resources == k].sum() for k in range(instance.num_resources)]
    expected = dict(zip(("compute", *instance.resource_names), (instance.compute, *held), strict=True))
    assert {time.name: time.busy for time in explain(schedule).resources} == expected


@given(schedules(latency="occupy"))
def test_without_lags_no_time_is_lag(schedule: Schedule) -> None:
    assert all(time.lag == 0 for time in explain(schedule).resources)


@pytest.fixture
def two_stages() -> Schedule:
    """An all-to-all of one chunk: 1 us on dim1, 3 us of lag, 1 us on dim2, 3 us of lag; dim3 is not used."""
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1 GB/s", latency="3 us")
    collective = Collective(kind=CollectiveKind.ALL_TO_ALL, size=2000, chunks=1, dimensions=("dim1", "dim2"))
    instance = Instance(network=Network(dimensions=(dimension,) * 3), collectives=(collective,))
    return simulate(instance, Plan((Chunks(np.array([2000]), np.array([[0, 1]])),)))


@pytest.mark.parametrize(("dimension", "times"), [(0, (1, 3, 4)), (1, (1, 6, 1)), (2, (0, 0, 8))])
def test_time_without_work_is_lag_while_data_are_on_their_way(
    two_stages: Schedule, dimension: int, times: tuple[int, ...]
) -> None:
    """dim2 waits 3 us for its input and ends with a lag of 3 us; before that it has nothing to wait for."""
    time = explain(two_stages).resources[dimension]
    assert tuple(t / MICROSECOND for t in (time.busy, time.lag, time.idle)) == times


@with_and_without_compute
def test_the_npu_waits_for_all_exposed_communication(schedule: Schedule) -> None:
    exposed = schedule.period.exposed if schedule.has_period else 0
    assert sum(wait.length for wait in explain(schedule).waits) == exposed


@with_compute
@pytest.mark.parametrize("kind", ["data", "model"])
def test_waits_have_the_parallelism_of_what_is_exposed(schedule: Schedule, kind: str) -> None:
    lengths = [wait.length for wait in explain(schedule).waits if wait.parallelism == kind]
    assert sum(lengths) == schedule.period.exposed_by(kind)


def test_a_wait_names_its_launch() -> None:
    first = explain(scheduled("fused/baseline")).waits[0]
    assert (first.task, first.launch, first.start) == ("layer1_forward", "rows", 40 * MICROSECOND)
