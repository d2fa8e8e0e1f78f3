"""What the schedules of a pipeline come to, in sentences."""

from formulations.limits import PROVEN_GAP
from themis_opt.base.units import format_duration, format_percent, format_short_size
from themis_opt.pipelines.reference import PipelineComparison, PipelineResult

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
