"""Every rule of training iterations, broken once in an otherwise valid schedule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_iterations import FOUR_TASKS, PAIR, iteration, run, tensor

from themis_opt.base.errors import InvalidSchedule
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import VALIDATION_RULES, validate

SCATTER2, SCATTER1, GATHER1, GATHER2 = range(1, 5)  # launches of the valid schedule; number 0 is of the model
Mutation = Callable[[Schedule], Schedule]


@pytest.fixture(scope="module")
def valid() -> Schedule:
    """Two layers in halves that must mirror each other, and a tensor of the model; all dimensions are alike."""
    tensors = [
        tensor("gradients2", 40, "backward2", "forward2"),
        tensor("gradients1", 16, "backward1", "forward1"),
        tensor("activations", 8, "forward1", "forward2", kind="all_gather", parallelism="model"),
    ]
    instance = iteration(FOUR_TASKS, tensors, dimensions=2, chunks=2, ag_order="reverse")
    return run(instance, "dear:threshold=1B/themis+scf")


def with_launch(schedule: Schedule, number: int, **changes: Any) -> Schedule:
    """The schedule with one launch changed, at the same times."""
    launches = list(schedule.plan.launches)
    launches[number] = replace(launches[number], **changes)
    return replace(schedule, plan=replace(schedule.plan, launches=tuple(launches)))


def with_chunks(schedule: Schedule, number: int, **changes: Any) -> Schedule:
    """The schedule with other sizes or paths of one launch."""
    chunks = list(schedule.plan.chunks)
    chunks[number] = replace(chunks[number], **changes)
    return replace(schedule, plan=replace(schedule.plan, chunks=tuple(chunks)))


def with_starts(schedule: Schedule, start: np.ndarray) -> Schedule:
    """The schedule with its stages started at other times, shape (iterations, stages)."""
    end = start + schedule.costs.occupancy
    return replace(schedule, start=start.ravel(), end=end.ravel(), ready=(end + schedule.costs.lag).ravel())


def with_stages(schedule: Schedule, number: int, row: int, moved: int) -> Schedule:
    """The schedule with the first stages of all chunks of a launch moved to one time in one iteration."""
    first, _ = schedule.plan.ends_of_chunks[number]
    start = schedule.period.stage_start.copy()
    start[row, first] = moved
    return with_starts(schedule, start)


def with_plan(schedule: Schedule, plan: Plan, stages: Any) -> Schedule:
    """Some stages of the schedule, by number, as those of another plan."""
    start, end, ready = (
        array.reshape(schedule.num_iterations, -1)[:, stages].ravel()
        for array in (schedule.start, schedule.end, schedule.ready)
    )
    return replace(schedule, plan=plan, start=start, end=end, ready=ready)


def a_tensor_twice(schedule: Schedule) -> Schedule:
    plan = schedule.plan
    (first, *rest) = plan.launches
    twice = replace(plan, launches=(first, replace(first, name="again"), *rest), chunks=(plan.chunks[0], *plan.chunks))
    first_stages = np.arange(plan.offsets[1])
    return with_plan(schedule, twice, np.concatenate([first_stages, np.arange(plan.num_stages)]))


def a_tensor_left_out(schedule: Schedule) -> Schedule:
    plan = schedule.plan
    fewer = replace(plan, launches=plan.launches[:-1], chunks=plan.chunks[:-1])
    return with_plan(schedule, fewer, np.arange(fewer.num_stages))


def a_single_iteration(schedule: Schedule) -> Schedule:
    stages = slice(0, schedule.plan.num_stages)
    times = {name: getattr(schedule, name)[stages] for name in ("start", "end", "ready")}
    return replace(schedule, task_start=schedule.task_start[:1], **times)


def on_network(schedule: Schedule, **changes: str) -> Schedule:
    """The schedule on a network with every dimension changed."""
    dimensions = tuple(dimension.replace(**changes) for dimension in schedule.instance.network.dimensions)
    network = schedule.instance.network.replace(dimensions=dimensions)
    return replace(schedule, instance=schedule.instance.replace(network=network))


def with_early_end(schedule: Schedule, row: int) -> Schedule:
    """The last stages of a launch at the time of the stages before them, in one iteration."""
    start = schedule.period.stage_start.copy()
    _, last = schedule.plan.ends_of_chunks[SCATTER2]
    start[row, last] = start[row, last - 1]
    return with_starts(schedule, start)


def a_stage_that_was_not_run(schedule: Schedule) -> Schedule:
    start = schedule.period.stage_start.copy()
    start[0, schedule.plan.ends_of_chunks[SCATTER2][1][0]] = -1
    return with_starts(schedule, start)


def a_gather_of_other_chunks(schedule: Schedule) -> Schedule:
    sizes = schedule.plan.chunks[GATHER1].sizes
    return with_chunks(schedule, GATHER1, sizes=sizes + np.array([-2, 2]))


def with_task(schedule: Schedule, iteration: int, task: int, shift: int) -> Schedule:
    """The schedule with one task started earlier or later by some picoseconds."""
    start = schedule.task_start.copy()
    start[iteration, task] += shift
    return replace(schedule, task_start=start)


def sequences_served_backwards(schedule: Schedule) -> Schedule:
    plan = schedule.enforced_plan()
    backwards = tuple(sequence[::-1] for sequence in plan.sequences)
    return replace(schedule, plan=plan.enforcing(backwards, plan.shifts))


def shifts_of_another_period(schedule: Schedule) -> Schedule:
    """Half of the stages a period later than they are served."""
    plan = schedule.enforced_plan()
    later = plan.shifts + (np.arange(plan.num_stages) % 2)
    return replace(schedule, plan=plan.enforcing(plan.sequences, later))


def with_shifts(schedule: Schedule, shifts: np.ndarray) -> Schedule:
    """Other shifts, of orders that nothing enforces."""
    return replace(schedule, plan=replace(schedule.plan, sequences=(), shifts=shifts))


BROKEN: tuple[tuple[str, str, Mutation], ...] = (
    ("shape", "a row of stages left out", lambda s: replace(s, start=s.start[: -s.plan.num_stages])),
    ("shape", "a launch without chunks", lambda s: replace(s, plan=replace(s.plan, chunks=s.plan.chunks[:-1]))),
    ("shape", "a single iteration", a_single_iteration),
    ("coverage", "a tensor twice", a_tensor_twice),
    ("coverage", "a tensor left out", a_tensor_left_out),
    ("coverage", "tensors of two kinds", lambda s: with_launch(s, 0, tensors=(2, 0))),
    ("coverage", "a gather run as a scatter", lambda s: with_launch(s, GATHER1, kind=CollectiveKind.REDUCE_SCATTER)),
    ("coverage", "a half of what has none", lambda s: with_launch(s, 0, part="gather")),
    ("stages", "a dimension twice", lambda s: with_chunks(s, SCATTER2, paths=np.zeros((2, 2), dtype=np.int64))),
    ("sizes", "chunks of too few bytes", lambda s: with_chunks(s, SCATTER2, sizes=s.plan.chunks[SCATTER2].sizes // 2)),
    ("sizes", "more chunks than allowed", lambda s: replace(s, instance=s.instance.replace(chunks=1))),
    (
        "mirrored_halves",
        "a gather that repeats its scatter",
        lambda s: with_chunks(s, GATHER1, paths=s.plan.chunks[SCATTER1].paths),
    ),
    ("complete", "a stage that was not run", a_stage_that_was_not_run),
    ("duration", "a slower network", lambda s: on_network(s, bandwidth="500 MB/s")),
    ("lag", "another latency", lambda s: on_network(s, latency="1 us")),
    ("serial_compute", "a task in another", lambda s: with_task(s, 1, 3, -1)),
    ("serial_compute", "a task before the clock", lambda s: with_task(s, 0, 0, -1)),
    ("release", "a stage before its tensor", lambda s: with_stages(s, SCATTER2, 1, int(s.period.task_end[1, 2]) - 1)),
    (
        "release",
        "a stage before its tensor in the last iteration",
        lambda s: with_stages(s, SCATTER2, -1, int(s.period.task_end[-1, 2]) - 1),
    ),
    (
        "release",
        "a gather before its scatter",
        lambda s: with_stages(s, GATHER1, 1, int(s.period.launch_ready[1, SCATTER1]) - 1),
    ),
    ("precedence", "a stage before the one before it", lambda s: with_early_end(s, 1)),
    ("precedence", "a late stage of the last iteration too early", lambda s: with_early_end(s, -1)),
    ("needs", "a task before its tensor", lambda s: with_task(s, 1, 0, -1)),
    ("sequence", "sequences served backwards", sequences_served_backwards),
    ("sequence", "shifts of another period", shifts_of_another_period),
    ("sequence", "shifts below 0", lambda s: with_shifts(s, np.full(s.plan.num_stages, -1))),
    ("sequence", "a shift too few", lambda s: with_shifts(s, np.zeros(s.plan.num_stages - 1, dtype=np.int64))),
)


def test_the_schedule_is_valid_before_it_is_broken(valid: Schedule) -> None:
    validate(valid)


@pytest.mark.parametrize(("rule", "mutation"), [(r, m) for r, _, m in BROKEN], ids=[w for _, w, _ in BROKEN])
def test_a_broken_rule_is_named(valid: Schedule, rule: str, mutation: Mutation) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        validate(mutation(valid))
    assert caught.value.rule == rule


def test_stages_of_one_resource_must_not_overlap() -> None:
    """The schedule is of a dimension whose parts are independent, the instance shares them."""
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["inner", "outer"]}
    parts = [tensor(name, 6, "work", "work", dimensions=[name]) for name in ("inner", "outer")]
    network = {"dimensions": [PAIR | {"size": 4}]}
    independent, shared = (
        iteration({"work": 10}, parts, network=network, splits=[split | {"shared": together}])
        for together in (False, True)
    )
    with pytest.raises(InvalidSchedule) as caught:
        validate(replace(run(independent, "fused/baseline"), instance=shared))
    assert caught.value.rule == "no_overlap"


def test_a_gather_of_other_chunks_than_its_scatter_does_not_mirror_it(valid: Schedule) -> None:
    assert VALIDATION_RULES["mirrored_halves"](valid) is None
    assert "does not reverse its scatter" in (
        VALIDATION_RULES["mirrored_halves"](a_gather_of_other_chunks(valid)) or ""
    )


def test_every_rule_is_broken_by_a_test() -> None:
    # Those of whole all-reduces and of rails are broken among collectives, memory in test_memory.
    assert {*(rule for rule, _, _ in BROKEN), "no_overlap", "ag_order", "rails", "memory"} == set(VALIDATION_RULES)


def test_a_task_waits_for_those_of_other_stages() -> None:
    """Each picosecond before the end of the other task counts, in the iteration where it is."""
    document = iteration({"first": 10, "second": 10, "third": 10}, [tensor("x", 4, "third", "first")]).model_dump(
        mode="json", exclude_unset=True
    )
    document["iteration"]["tasks"][1] |= {"stage": 1, "after": ["first"]}
    schedule = run(Instance.model_validate(document), "fused/baseline")
    starts = schedule.task_start.copy()
    starts[1, 1] = schedule.period.task_end[1, 0]
    assert VALIDATION_RULES["serial_compute"](replace(schedule, task_start=starts)) is None
    starts[1, 1] -= 1
    assert VALIDATION_RULES["serial_compute"](replace(schedule, task_start=starts)) == (
        "iteration 1: task second starts before first ends"
    )


def test_launches_are_described_in_words(valid: Schedule) -> None:
    with pytest.raises(InvalidSchedule, match="task forward1 starts before gradients1 gather has arrived"):
        validate(with_task(valid, 1, 0, -1))
