"""Orders of a pipeline side by side, and the reference with its proven gap."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from formulations.limits import PROVEN_GAP, Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import format_duration, format_percent, format_short_size, nanoseconds
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.order_search import anneal
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule
from themis_opt.pipelines.steps import _problem, _schedule, _table, best_policy, schedule_of
from themis_opt.pipelines.validation import validate
from themis_opt.policies.registry import REFERENCE
from themis_opt.schedules.status import status_of


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
        return tuple(verdict(self))

    @property
    def best(self) -> PipelineResult:
        """The fastest schedule, the first of equals."""
        return min(self.results, key=lambda result: result.schedule.value)


USUAL = ("1f1b", "interleaved", "gpipe")
"""Policies that the best schedule is held against."""


def verdict(compared: PipelineComparison) -> list[str]:
    """The best schedule against what is in use, its gap, and its memory."""
    best = compared.best
    schedule = best.schedule
    words = f"an iteration takes {format_duration(schedule.value)} by {best.policy}, {_judged(best)}"
    others = [result for result in compared.results if result.policy in USUAL and result is not best]
    if others:
        usual = min(others, key=lambda result: result.schedule.value)
        ratio = usual.schedule.value / schedule.value
        words += f"; {format_duration(usual.schedule.value)} by {usual.policy}, {ratio:.3f} times as long"
    limit = schedule.pipeline.memory
    kept = f"a stage keeps {format_short_size(max(schedule.peaks()))} at most"
    kept += f" of {format_short_size(limit)}" if limit else ""
    return [f"{words}.", f"{kept}; the busiest stage waits for {format_percent(schedule.bubble())} of the time."]


def _judged(result: PipelineResult) -> str:
    near = result.gap <= PROVEN_GAP
    return "proven optimal" if near else f"at most {format_percent(result.gap)} above the optimum"


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
    return PipelineResult(policy, schedule_of(pipeline, policy), bound(pipeline))


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
