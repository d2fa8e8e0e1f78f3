"""The best order of a pipeline, by annealing and CP-SAT from the best policy."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.pipelines.policies import PIPELINE_POLICIES, by_kind, by_way_to_go, greedy, put_off
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, halves, simulate
from themis_opt.pipelines.validation import validate

if TYPE_CHECKING:
    from formulations.microbatch_order import MicrobatchProblem

QUARTERS = (2, 3, 4, 5, 6, 7, 8, 12)
"""Microbatches on a stage that are tried, in quarters of its number of stages."""

WARM_UPS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
"""Forward passes before the first backward one, as multiples of those of 1F1B."""

WAITS = (1.0, 3.0)
"""Passes that an action waits for each microbatch before it, where the longest way to go is first."""

ACTIONS_PER_SECOND = 50_000
"""Actions of rules that a core plans and simulates, for limits that count work."""


def schedule_of(pipeline: Pipeline, policy: str) -> PipelineSchedule:
    """The schedule of a policy. Raises InputError or InvalidSchedule if it is not for the pipeline."""
    schedule = simulate(pipeline, PIPELINE_POLICIES[policy](pipeline))
    validate(schedule)
    return schedule


def best_policy(pipeline: Pipeline, allowance: Allowance | None = None) -> PipelineSchedule:
    """The best of all policies that apply and of their rules with other numbers, these in half of an allowance."""
    allowance = allowance or Allowance(math.inf)
    work = pipeline.num_parts * pipeline.microbatches * len(pipeline.kinds) / ACTIONS_PER_SECOND
    tried: list[PipelineSchedule] = []
    for name in PIPELINE_POLICIES:
        with suppress(InputError, InvalidSchedule):
            tried.append(schedule_of(pipeline, name))
            allowance.charge(work)
    enough = allowance.left / 2
    for orders in _variants(pipeline):
        if allowance.left < enough:
            break
        tried.append(simulate(pipeline, orders))
        allowance.charge(work)
    return min(tried, key=lambda schedule: schedule.value)


def _variants(pipeline: Pipeline) -> Iterator[StageOrders]:
    """The rules of zero-bubble schedules with other numbers of microbatches."""
    fit = pipeline.microbatches if pipeline.memory is None else pipeline.memory // pipeline.activation
    rules = [by_kind(pipeline), *(by_way_to_go(pipeline, patience) for patience in WAITS)]
    for number in sorted({min(pipeline.stages * quarters // 4, fit, pipeline.microbatches) for quarters in QUARTERS}):
        for urgency in rules if pipeline.parts > 1 else rules[:1]:
            yield greedy(pipeline, max(number, 1), urgency)
        for ahead in WARM_UPS if pipeline.parts == 1 else ():
            yield put_off(pipeline, ahead, max(number, 1))


def _problem(pipeline: Pipeline, tick: int) -> "MicrobatchProblem":
    """The integer data of the model."""
    from formulations.microbatch_order import MicrobatchProblem

    parts = range(pipeline.num_parts)
    durations = [[pipeline.duration(kind, part) // tick for part in parts] for kind in pipeline.kinds]
    kept = -pipeline.change_of_memory(pipeline.kinds[-1]) if pipeline.split else pipeline.activation
    return MicrobatchProblem(
        durations=durations,
        stages=pipeline.parts_of,
        hops=[pipeline.hop(part) // tick for part in parts[:-1]],
        microbatches=pipeline.microbatches,
        queue=pipeline.messages_queue,
        memory=pipeline.memory,
        kept=(pipeline.activation, kept),
        from_first=pipeline.objective == "period",
    )


def _table(schedule: PipelineSchedule, tick: int) -> list[list[list[int]]]:
    """Starts by kind, part and microbatch in ticks; those of alike steps in order."""
    pipeline = schedule.pipeline
    table: dict[ActionKind, list[list[int]]] = {
        kind: [[] for _ in range(pipeline.num_parts)] for kind in pipeline.kinds
    }
    for action, start in schedule.start.items():
        now = start // tick
        for step in halves(action) if pipeline.split and halves(action) else (action,):
            table[step.kind][step.part].append(now)
            now += pipeline.duration(step.kind, step.part) // tick
    return [[sorted(starts) for starts in table[kind]] for kind in pipeline.kinds]


def _schedule(pipeline: Pipeline, starts: Sequence[Sequence[Sequence[int]]], tick: int) -> PipelineSchedule:
    """A schedule with the starts of the model, or with its orders alone where messages queue.

    Stages may begin later than they could, which makes a period shorter.  Messages leave as they are ready, which the
    model does not ask for.
    """
    times = {
        Action(kind, part, i): start * tick
        for kind, by_part in zip(pipeline.kinds, starts, strict=True)
        for part, row in enumerate(by_part)
        for i, start in enumerate(row)
    }
    orders = tuple(tuple(sorted(pipeline.actions_of(s), key=times.__getitem__)) for s in range(pipeline.stages))
    return simulate(pipeline, orders) if pipeline.messages_queue else PipelineSchedule(pipeline, orders, times)
