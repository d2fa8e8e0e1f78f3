"""Orders of a pipeline side by side, and the reference with its proven gap."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from formulations.limits import PROVEN_GAP, Limits
from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import format_percent, format_short_size, format_short_time, nanoseconds
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule
from themis_opt.pipelines.steps import PipelineContest, best_policy, planned, searched
from themis_opt.policies.registry import REFERENCE
from themis_opt.schedules.incumbent import Progress, tell_notebook
from themis_opt.schedules.results import PolicyComparison, PolicyResult

USUAL = ("1f1b", "interleaved", "gpipe")  # policies that the best schedule is held against


@dataclass(frozen=True, eq=False, repr=False)
class PipelineResult(PolicyResult):
    """A schedule of a policy, whose makespan may be the length of the period."""

    schedule: PipelineSchedule

    @property
    def makespan(self) -> int:
        """The value of the objective: the makespan, or the length of the period."""
        return self.schedule.value

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
            "bubble": schedule.bubble() - schedule.communication,
            "communication": schedule.communication,
            "kept": max(schedule.peaks()),
            "offloads": schedule.offloads,
            "status": self.status,
        }


@dataclass(frozen=True, repr=False)
class PipelineComparison(PolicyComparison[PipelineResult]):
    """Results of policies on one pipeline, and the best bound."""

    problem: Pipeline

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the comparison comes to, in sentences: the best schedule against what is in use, its gap and memory."""
        best, schedule = self.best, self.best.schedule
        judged = f"at most {format_percent(best.gap)} above the optimum" if best.gap > PROVEN_GAP else "proven optimal"
        words = f"an iteration takes {format_short_time(schedule.value)} by {best.policy}, {judged}"
        others = [result for result in self.results if result.policy in USUAL and result is not best]
        if others:
            usual = min(others, key=lambda result: result.schedule.value)
            ratio = usual.schedule.value / schedule.value
            words += f"; {format_short_time(usual.schedule.value)} by {usual.policy}, {ratio:.3f} times as long"
        limit = schedule.pipeline.memory
        kept = f"a stage keeps {format_short_size(max(schedule.peaks()))} at most"
        kept += f" of {format_short_size(limit)}" if limit else ""
        if schedule.offloads:
            kept += f", and {schedule.offloads} activations go to the host and back"
        return f"{words}.", f"{kept}; {waits(schedule)}."


def waits(schedule: PipelineSchedule) -> str:
    """How long the busiest stage waits, for an infinitely fast network too and for messages."""
    words = f"the busiest stage waits for {format_percent(schedule.bubble())} of the time"
    if schedule.pipeline.message or schedule.offloads:
        bubble, messages = schedule.bubble() - schedule.communication, schedule.communication
        words += f": {format_percent(bubble)} bubble, {format_percent(messages)} messages"
        words += " and transfers to the host" if schedule.offloads else ""
    return words


def compare(
    pipeline: Pipeline,
    policies: Sequence[str] | None = None,
    limits: Limits | None = None,
    report: Progress = tell_notebook,
) -> PipelineComparison:
    """Each policy, and the reference where it is asked for, all against the best bound that any of them proves.

    Policies for which there is no time are left out, but for those before the first legal schedule.

    Raises InputError if there is no such policy, or none applies.
    """
    known = (*PIPELINE_POLICIES, REFERENCE)
    names = tuple(policies or known)
    for name in names:
        if name not in known:
            raise InputError(f"is no policy of pipelines{suggestion(name, known)}", field="--policies", value=name)
    contest = PipelineContest(pipeline, limits or Limits(), report)
    contest.attempt_each((name for name in names if name != REFERENCE), partial(planned, pipeline))
    contest.prove()
    if REFERENCE in names:
        contest.attempt(REFERENCE, partial(searched, contest), is_cut_off=bool(contest.schedules))
    contest.expect_schedules("there is none")
    least = int(contest.bound)
    results = (PipelineResult(name, contest.schedules[name], least) for name in names if name in contest.schedules)
    return PipelineComparison(pipeline, tuple(results), {"pipeline": float(least)}, **contest.ends)


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
