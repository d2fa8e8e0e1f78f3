"""The best order of a pipeline, by CP-SAT from the best policy, with its proven gap."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from formulations.limits import Limits
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.policies import PIPELINE_POLICIES, greedy, put_off
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, Times, halves, simulate, validate
from themis_opt.policies.registry import REFERENCE

if TYPE_CHECKING:
    from formulations.microbatch_order import MicrobatchProblem

QUARTERS = (2, 3, 4, 5, 6, 7, 8, 12)
"""Microbatches on a stage that are tried, in quarters of its number of stages."""

PATIENCES = (0.0, 0.5, 1.0)
WARM_UPS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)


@dataclass(frozen=True)
class PipelineResult:
    """A schedule of a policy and the best bound that is known, in picoseconds."""

    policy: str
    schedule: PipelineSchedule
    bound: int
    status: str = ""

    @property
    def gap(self) -> float:
        """How far the schedule may be from an optimal one, as a fraction."""
        return self.schedule.value / self.bound - 1


@dataclass(frozen=True)
class PipelineComparison:
    """Results of policies, and for each that does not apply the rule it breaks."""

    results: tuple[PipelineResult, ...]
    refused: Mapping[str, str]

    @property
    def best(self) -> PipelineResult:
        """The fastest schedule, the first of equals."""
        return min(self.results, key=lambda result: result.schedule.value)


def compare(
    pipeline: Pipeline,
    policies: Sequence[str] | None = None,
    limits: Limits | None = None,
    report: Callable[[float, float], None] = lambda best, bound: None,
) -> PipelineComparison:
    """Each policy, and the reference where it is asked for, all against the best bound that any of them proves.

    Raises
    ------
    InputError
        If no policy applies.
    """
    results: list[PipelineResult] = []
    refused: dict[str, str] = {}
    for name in policies or (*PIPELINE_POLICIES, REFERENCE):
        try:
            results.append(solve(pipeline, limits or Limits(), report) if name == REFERENCE else run(pipeline, name))
        except InputError as error:
            refused[name] = error.rule
        except InvalidSchedule as error:
            refused[name] = error.detail
    if not results:
        raise InputError(f"no policy applies: {'; '.join(refused.values())}", field="policies")
    best = max(result.bound for result in results)
    return PipelineComparison(tuple(replace(result, bound=best) for result in results), refused)


def run(pipeline: Pipeline, policy: str) -> PipelineResult:
    """The schedule of a policy.

    Raises
    ------
    InputError
        If the policy is for other pipelines.
    InvalidSchedule
        If it needs more memory.
    """
    schedule = simulate(pipeline, PIPELINE_POLICIES[policy](pipeline))
    validate(schedule)
    return PipelineResult(policy, schedule, bound(pipeline))


def solve(
    pipeline: Pipeline, limits: Limits, report: Callable[[float, float], None] = lambda best, bound: None
) -> PipelineResult:
    """The best schedule of all policies and CP-SAT."""
    start, lower = best_policy(pipeline), bound(pipeline)
    report(start.value, lower)
    if start.value <= lower * (1 + limits.gap):
        return PipelineResult(REFERENCE, start, lower, "optimal")
    from formulations.microbatch_order import MicrobatchOrder

    tick = gcd(*(t for name in ("forward", "inputs", "weights") for t in getattr(pipeline, name)), pipeline.message)
    model = MicrobatchOrder(_problem(pipeline, tick), -(-lower // tick), start.value // tick)
    model.hint(_table(start, tick))
    outcome = model.solve(limits, lambda best, bound: report(best * tick, bound * tick))
    lower = max(lower, outcome.bound * tick)
    if outcome.starts is not None:
        times = _times(pipeline, outcome.starts, tick)
        better = PipelineSchedule(pipeline, _orders(pipeline, times), times)
        validate(better)
        start = min(start, better, key=lambda schedule: schedule.value)
    return PipelineResult(REFERENCE, start, lower, "optimal" if start.value == lower else outcome.status)


def best_policy(pipeline: Pipeline) -> PipelineSchedule:
    """The best of all policies that apply, and of their rules with other numbers."""
    tried = [simulate(pipeline, orders) for orders in _variants(pipeline)]
    for name in PIPELINE_POLICIES:
        with suppress(InputError, InvalidSchedule):
            tried.append(run(pipeline, name).schedule)
    return min(tried, key=lambda schedule: schedule.value)


def curve(pipeline: Pipeline, memories: Iterable[int]) -> list[tuple[int, PipelineResult]]:
    """The best of the rules for every limit of memory, in ascending order: what memory buys.

    A schedule for less memory is one for more, so that no limit makes it slower.
    """
    results: list[tuple[int, PipelineResult]] = []
    for memory in sorted(set(memories)):
        limited = pipeline.replace(memory=memory)
        schedule, lower = best_policy(limited), bound(limited)
        before = results[-1][1].schedule if results else schedule
        if before.value < schedule.value:
            schedule = PipelineSchedule(limited, before.orders, before.start)
        results.append((memory, PipelineResult("best rule", schedule, lower)))
    return results


def _variants(pipeline: Pipeline) -> Iterator[StageOrders]:
    """The rules of zero-bubble schedules, with more microbatches, and waiting for gradients or not."""
    fit = pipeline.microbatches if pipeline.memory is None else pipeline.memory // pipeline.activation
    for number in sorted({min(pipeline.stages * quarters // 4, fit, pipeline.microbatches) for quarters in QUARTERS}):
        for patience in PATIENCES:
            yield greedy(pipeline, max(number, 1), patience)
        for ahead in WARM_UPS if pipeline.parts == 1 else ():
            yield put_off(pipeline, ahead, max(number, 1))


def _problem(pipeline: Pipeline, tick: int) -> "MicrobatchProblem":
    """The integer data of the model; messages cannot queue where each takes no longer than any step before it."""
    from formulations.microbatch_order import MicrobatchProblem

    parts = range(pipeline.num_parts)
    durations = [[pipeline.duration(kind, part) // tick for part in parts] for kind in pipeline.kinds]
    kept = -pipeline.change_of_memory(pipeline.kinds[-1]) if pipeline.split else pipeline.activation
    return MicrobatchProblem(
        durations=durations,
        stages=pipeline.parts_of,
        hops=[pipeline.hop(part) // tick for part in parts[:-1]],
        microbatches=pipeline.microbatches,
        queue=pipeline.message // tick > min(map(min, durations[:2])),
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


def _times(pipeline: Pipeline, starts: Sequence[Sequence[Sequence[int]]], tick: int) -> Times:
    """Start times from those of the model: stages may begin later than they could."""
    return {
        Action(kind, part, i): start * tick
        for kind, by_part in zip(pipeline.kinds, starts, strict=True)
        for part, row in enumerate(by_part)
        for i, start in enumerate(row)
    }


def _orders(pipeline: Pipeline, times: Times) -> StageOrders:
    """Per stage its actions by their starts."""
    return tuple(tuple(sorted(pipeline.actions_of(s), key=times.__getitem__)) for s in range(pipeline.stages))
