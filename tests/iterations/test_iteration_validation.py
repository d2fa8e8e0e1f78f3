"""Every rule of training iterations, broken once in an otherwise valid schedule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_iterations import FOUR_TASKS, PAIR, iteration, run, tensor

from themis_opt.errors import InvalidSchedule
from themis_opt.instance import CollectiveKind
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.validation import RULES, validate_iterations
from themis_opt.plan import Chunks, Plan

SCATTER2, SCATTER1, GATHER1, GATHER2 = range(1, 5)
"""Launches of the valid schedule; number 0 is of the model."""

Mutation = Callable[[IterationSchedule], IterationSchedule]


@pytest.fixture(scope="module")
def valid() -> IterationSchedule:
    """Two layers in halves that must mirror each other, and a tensor of the model; all dimensions are alike."""
    tensors = [
        tensor("gradients2", 40, "backward2", "forward2"),
        tensor("gradients1", 16, "backward1", "forward1"),
        tensor("activations", 8, "forward1", "forward2", kind="all_gather", parallelism="model"),
    ]
    instance = iteration(FOUR_TASKS, tensors, dimensions=2, chunks=2, ag_order="reverse")
    return run(instance, "dear:threshold=1B/themis+scf")


def with_launch(schedule: IterationSchedule, number: int, **changes: Any) -> IterationSchedule:
    """The schedule with one launch changed, at the same times."""
    launches = list(schedule.plan.launches)
    launches[number] = replace(launches[number], **changes)
    return replace(schedule, plan=replace(schedule.plan, launches=tuple(launches)))


def with_collective(schedule: IterationSchedule, number: int, **changes: Any) -> IterationSchedule:
    """The schedule with one collective of its stream changed."""
    own = list(schedule.plan.stream.collectives)
    own[number] = own[number].replace(**changes)
    stream = schedule.plan.stream.replace(collectives=tuple(own))
    return replace(schedule, plan=replace(schedule.plan, stream=stream))


def with_chunks(schedule: IterationSchedule, number: int, **changes: Any) -> IterationSchedule:
    """The schedule with other sizes or paths of one launch."""
    own = list(schedule.plan.chunks.chunks)
    own[number] = Chunks(**({"sizes": own[number].sizes, "paths": own[number].paths} | changes))
    return replace(schedule, plan=replace(schedule.plan, chunks=Plan(tuple(own), schedule.plan.chunks.dispatch)))


def with_stages(schedule: IterationSchedule, number: int, row: int, moved: Callable[[int], int]) -> IterationSchedule:
    """The schedule with the first stages of all chunks of a launch moved in one iteration."""
    first, _ = schedule.plan.ends_of_chunks[number]
    start = schedule.stage_start.copy()
    start[row, first] = [moved(time) for time in start[row, first].tolist()]
    return replace(schedule, stage_start=start)


def a_tensor_twice(schedule: IterationSchedule) -> IterationSchedule:
    (first, *rest), stream = schedule.plan.launches, schedule.plan.stream
    plan = schedule.plan
    twice = IterationPlan(
        (first, replace(first, name="again"), *rest),
        stream.replace(
            collectives=(stream.collectives[0], stream.collectives[0].replace(name="again"), *stream.collectives[1:])
        ),
        Plan((plan.chunks.chunks[0], *plan.chunks.chunks), plan.chunks.dispatch),
    )
    own = schedule.stage_start[:, : plan.chunks.offsets[1]]
    return replace(schedule, plan=twice, stage_start=np.concatenate([own, schedule.stage_start], axis=1))


def a_tensor_left_out(schedule: IterationSchedule) -> IterationSchedule:
    plan = schedule.plan
    rest = plan.stream.replace(collectives=plan.stream.collectives[:-1])
    chunks = Plan(plan.chunks.chunks[:-1], plan.chunks.dispatch)
    fewer = replace(plan, launches=plan.launches[:-1], stream=rest, chunks=chunks)
    return replace(schedule, plan=fewer, stage_start=schedule.stage_start[:, : chunks.num_stages])


def a_row_of_stages_left_out(schedule: IterationSchedule) -> IterationSchedule:
    return replace(schedule, stage_start=schedule.stage_start[:-1])


def a_launch_without_chunks(schedule: IterationSchedule) -> IterationSchedule:
    chunks = Plan(schedule.plan.chunks.chunks[:-1], schedule.plan.chunks.dispatch)
    return replace(schedule, plan=replace(schedule.plan, chunks=chunks))


def tensors_of_two_kinds(schedule: IterationSchedule) -> IterationSchedule:
    return with_launch(schedule, 0, tensors=(2, 0))


def a_gather_run_as_a_scatter(schedule: IterationSchedule) -> IterationSchedule:
    return with_launch(schedule, GATHER1, kind=CollectiveKind.REDUCE_SCATTER)


def bytes_left_out(schedule: IterationSchedule) -> IterationSchedule:
    return with_collective(schedule, SCATTER1, size="8 kB")


def another_network(schedule: IterationSchedule) -> IterationSchedule:
    stream = schedule.plan.stream
    faster = [d.replace(bandwidth="2 GB/s") for d in stream.network.dimensions]
    other = stream.replace(network=stream.network.replace(dimensions=tuple(faster)))
    return replace(schedule, plan=replace(schedule.plan, stream=other))


def with_stream(schedule: IterationSchedule, **changes: Any) -> IterationSchedule:
    return replace(schedule, plan=replace(schedule.plan, stream=schedule.plan.stream.replace(**changes)))


def another_latency(schedule: IterationSchedule) -> IterationSchedule:
    return with_stream(schedule, latency="occupy")


def another_gather_order(schedule: IterationSchedule) -> IterationSchedule:
    return with_stream(schedule, ag_order="free")


def more_chunks_than_allowed(schedule: IterationSchedule) -> IterationSchedule:
    return with_collective(schedule, SCATTER2, chunks=3)


def smaller_elements(schedule: IterationSchedule) -> IterationSchedule:
    return with_collective(schedule, SCATTER2, element_bytes=1)


def fewer_dimensions(schedule: IterationSchedule) -> IterationSchedule:
    return with_collective(schedule, 0, dimensions=("dim1",))


def a_dimension_twice(schedule: IterationSchedule) -> IterationSchedule:
    return with_chunks(schedule, SCATTER2, paths=np.zeros((2, 2), dtype=np.int64))


def chunks_of_too_few_bytes(schedule: IterationSchedule) -> IterationSchedule:
    return with_chunks(schedule, SCATTER2, sizes=schedule.plan.chunks.chunks[SCATTER2].sizes // 2)


def a_stage_before_the_one_before_it(schedule: IterationSchedule) -> IterationSchedule:
    start = schedule.stage_start.copy()
    _, last = schedule.plan.ends_of_chunks[SCATTER2]
    start[1, last] = schedule.stage_start[1, last - 1]
    return replace(schedule, stage_start=start)


def a_gather_that_repeats_its_scatter(schedule: IterationSchedule) -> IterationSchedule:
    return with_chunks(schedule, GATHER1, paths=schedule.plan.chunks.chunks[SCATTER1].paths)


def a_gather_of_other_chunks(schedule: IterationSchedule) -> IterationSchedule:
    sizes = schedule.plan.chunks.chunks[GATHER1].sizes
    return with_chunks(schedule, GATHER1, sizes=sizes + np.array([-2, 2]))


def a_task_in_another(schedule: IterationSchedule) -> IterationSchedule:
    start = schedule.task_start.copy()
    start[1, 3] -= 1
    return replace(schedule, task_start=start)


def a_task_before_the_clock(schedule: IterationSchedule) -> IterationSchedule:
    start = schedule.task_start.copy()
    start[0, 0] = -1
    return replace(schedule, task_start=start)


def a_stage_before_its_tensor(schedule: IterationSchedule) -> IterationSchedule:
    ready = int(schedule.task_end[1, 2])
    return with_stages(schedule, SCATTER2, 1, lambda _: ready - 1)


def a_gather_before_its_scatter(schedule: IterationSchedule) -> IterationSchedule:
    ready = int(schedule.launch_ready[1, SCATTER1])
    return with_stages(schedule, GATHER1, 1, lambda _: ready - 1)


def a_task_before_its_tensor(schedule: IterationSchedule) -> IterationSchedule:
    start = schedule.task_start.copy()
    start[1, 0] -= 1
    return replace(schedule, task_start=start)


BROKEN: dict[str, list[Mutation]] = {
    "shape": [a_row_of_stages_left_out, a_launch_without_chunks],
    "coverage": [
        a_tensor_twice,
        a_tensor_left_out,
        tensors_of_two_kinds,
        a_gather_run_as_a_scatter,
        bytes_left_out,
    ],
    "stream": [
        another_network,
        another_latency,
        another_gather_order,
        more_chunks_than_allowed,
        smaller_elements,
    ],
    "spans": [fewer_dimensions],
    "chunks": [a_dimension_twice, chunks_of_too_few_bytes, a_stage_before_the_one_before_it],
    "mirrored_halves": [a_gather_that_repeats_its_scatter],
    "serial_compute": [a_task_in_another, a_task_before_the_clock],
    "release": [a_stage_before_its_tensor, a_gather_before_its_scatter],
    "needs": [a_task_before_its_tensor],
}


def test_the_schedule_is_valid_before_it_is_broken(valid: IterationSchedule) -> None:
    validate_iterations(valid)


@pytest.mark.parametrize(
    ("rule", "mutation"), [pytest.param(r, m, id=f"{r}-{m.__name__}") for r, own in BROKEN.items() for m in own]
)
def test_a_broken_rule_is_named(valid: IterationSchedule, rule: str, mutation: Mutation) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        validate_iterations(mutation(valid))
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
        validate_iterations(replace(run(independent, "fused/baseline"), instance=shared))
    assert caught.value.rule == "no_overlap"


def test_a_gather_of_other_chunks_than_its_scatter_does_not_mirror_it(valid: IterationSchedule) -> None:
    assert RULES["mirrored_halves"](valid) is None
    assert "does not reverse its scatter" in (RULES["mirrored_halves"](a_gather_of_other_chunks(valid)) or "")


def test_every_rule_is_broken_by_a_test() -> None:
    assert {*BROKEN, "no_overlap"} == set(RULES)


def test_launches_are_described_in_words(valid: IterationSchedule) -> None:
    with pytest.raises(InvalidSchedule, match="task forward1 starts before gradients1 gather has arrived"):
        validate_iterations(a_task_before_its_tensor(valid))
