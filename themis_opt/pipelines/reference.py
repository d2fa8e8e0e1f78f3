"""The best order of a pipeline, by annealing and CP-SAT from the best policy, with its proven gap."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from formulations.limits import Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import nanoseconds
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.order_search import anneal
from themis_opt.pipelines.policies import PIPELINE_POLICIES, by_kind, by_way_to_go, greedy, put_off
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, halves, simulate, validate
from themis_opt.policies.registry import REFERENCE
from themis_opt.schedules.status import status_of

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


@dataclass(frozen=True)
class PipelineResult:
    """A schedule of a policy and the best bound that is known, in picoseconds."""

    policy: str
    schedule: PipelineSchedule
    bound: int
    outcome: str = ""
    """What the solver said, for the reference."""

    @property
    def makespan(self) -> int:
        """The value of the objective: the makespan, or the length of the period."""
        return self.schedule.value

    @property
    def gap(self) -> float:
        """Makespan over the bound, minus 1."""
        return self.makespan / self.bound - 1

    @property
    def status(self) -> str:
        """``optimal``, ``near-optimal`` or ``feasible``, by the gap."""
        return status_of(self.gap)

    def row(self) -> dict[str, Any]:
        """Plain values of a row of the table; times in nanoseconds."""
        schedule = self.schedule
        return {
            "policy": self.policy,
            "makespan_ns": nanoseconds(self.makespan),
            "period_ns": nanoseconds(schedule.period),
            "all_stages_ns": nanoseconds(schedule.makespan),
            "bound_ns": nanoseconds(self.bound),
            "gap": self.gap,
            "bubble": schedule.bubble(),
            "kept": max(schedule.peaks()),
            "status": self.status,
        }


@dataclass(frozen=True)
class PipelineComparison:
    """Results of policies, for each that does not apply the rule it breaks, and whether Ctrl-C ended the search."""

    problem: Pipeline
    results: tuple[PipelineResult, ...]
    refused: Mapping[str, str]
    interrupted: bool = False

    @property
    def bounds(self) -> dict[str, float]:
        """The best bound in picoseconds, by name."""
        return {"pipeline": float(self.best.bound)}

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the comparison comes to, in sentences."""
        from themis_opt.pipelines.verdict import verdict  # which knows comparisons

        return tuple(verdict(self))

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
    interrupted = False
    for name in policies or (*PIPELINE_POLICIES, REFERENCE):
        try:
            results.append(solve(pipeline, limits or Limits(), report) if name == REFERENCE else run(pipeline, name))
        except InputError as error:
            refused[name] = error.rule
        except InvalidSchedule as error:
            refused[name] = error.detail
        except KeyboardInterrupt:
            if not results:
                raise
            interrupted = True
            break
    if not results:
        raise InputError(f"no policy applies: {'; '.join(refused.values())}", field="policies")
    best = max(result.bound for result in results)
    interrupted = interrupted or any(result.outcome == "interrupted" for result in results)
    return PipelineComparison(pipeline, tuple(replace(result, bound=best) for result in results), refused, interrupted)


def run(pipeline: Pipeline, policy: str) -> PipelineResult:
    """The schedule of a policy.

    Raises
    ------
    InputError
        If the policy is for other pipelines.
    InvalidSchedule
        If it needs more memory.
    """
    return PipelineResult(policy, _by_policy(pipeline, policy), bound(pipeline))


def _by_policy(pipeline: Pipeline, policy: str) -> PipelineSchedule:
    schedule = simulate(pipeline, PIPELINE_POLICIES[policy](pipeline))
    validate(schedule)
    return schedule


def solve(
    pipeline: Pipeline, limits: Limits, report: Callable[[float, float], None] = lambda best, bound: None
) -> PipelineResult:
    """The best schedule of all policies, annealing from it, and CP-SAT."""
    allowance = Allowance(limits.seconds, limits.deterministic)
    start, lower = best_policy(pipeline, allowance), bound(pipeline)
    report(start.value, lower)
    start = anneal(start, allowance, int(lower * (1 + limits.gap)), limits.seed)
    report(start.value, lower)
    if start.value <= lower * (1 + limits.gap):
        return PipelineResult(REFERENCE, start, lower, "optimal")
    from formulations.microbatch_order import MicrobatchOrder

    tick = math.gcd(*pipeline.forward, *pipeline.inputs, *pipeline.weights, pipeline.message)
    model = MicrobatchOrder(_problem(pipeline, tick), -(-lower // tick), start.value // tick)
    model.hint(_table(start, tick))
    outcome = model.solve(limits.within(allowance.left), lambda best, bound: report(best * tick, bound * tick))
    lower = max(lower, outcome.bound * tick)
    if outcome.starts is not None:
        better = _schedule(pipeline, outcome.starts, tick)
        validate(better)
        start = min(start, better, key=lambda schedule: schedule.value)
    return PipelineResult(REFERENCE, start, lower, "optimal" if start.value == lower else outcome.status)


def best_policy(pipeline: Pipeline, allowance: Allowance | None = None) -> PipelineSchedule:
    """The best of all policies that apply and of their rules with other numbers, these in half of an allowance."""
    allowance = allowance or Allowance(math.inf)
    work = pipeline.num_parts * pipeline.microbatches * len(pipeline.kinds) / ACTIONS_PER_SECOND
    tried: list[PipelineSchedule] = []
    for name in PIPELINE_POLICIES:
        with suppress(InputError, InvalidSchedule):
            tried.append(_by_policy(pipeline, name))
            allowance.charge(work)
    enough = allowance.left / 2
    for orders in _variants(pipeline):
        if allowance.left < enough:
            break
        tried.append(simulate(pipeline, orders))
        allowance.charge(work)
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
