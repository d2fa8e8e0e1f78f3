"""Stages of :mod:`formulations.iteration` folded into one period: its constraints (5), and what (6) needs."""

from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from formulations.iteration_variables import LaunchJobs
from formulations.job_variables import LegVariables


@dataclass(frozen=True)
class FoldedStage:
    """A stage, and where in the period it stands: u, its end, and the same one period later.

    `wraps` is w, or its value where that is known; `copies` is empty where no stage of the resource can wrap.
    """

    start: cp_model.IntVar
    duration: cp_model.IntVar
    folded: cp_model.IntVar
    folded_end: cp_model.IntVar
    wraps: cp_model.IntVar | int
    copies: tuple[cp_model.IntVar, cp_model.IntVar] | None


def fold(
    model: cp_model.CpModel, period: cp_model.IntVar, launch: LaunchJobs, leg: LegVariables, machine: int
) -> FoldedStage:
    """(5) The stage of a leg on a machine, in its place; a new variable only where that is not its start."""
    start, duration, end = leg.start[machine], leg.duration[machine], leg.end[machine]
    later = launch.after[1]
    if not later and not launch.may_wrap:
        return FoldedStage(start, duration, start, end, wraps=0, copies=None)
    folded = model.new_int_var(0, _most(period), f"{start.name}_folded")
    folded_end = model.new_int_var(0, 2 * _most(period), f"{end.name}_folded")
    model.add(end == start + duration)  # the interval is the folded one, which ties these no longer
    model.add(folded <= period)
    model.add(folded_end == folded + duration)
    if later:
        model.add(start == folded + period)
        return FoldedStage(start, duration, folded, folded_end, wraps=1, copies=None)
    wraps = model.new_bool_var(f"{start.name}_wraps")
    model.add(start == folded).only_enforce_if(~wraps)
    model.add(start == folded + period).only_enforce_if(wraps)
    return FoldedStage(start, duration, folded, folded_end, wraps, copies=None)


def with_copies(model: cp_model.CpModel, period: cp_model.IntVar, stage: FoldedStage) -> FoldedStage:
    """The stage with the same interval one period later."""
    start = model.new_int_var(0, 2 * _most(period), f"{stage.start.name}_copy")
    end = model.new_int_var(0, 3 * _most(period), f"{stage.start.name}_copy_end")
    model.add(start == stage.folded + period)
    model.add(end == stage.folded_end + period)
    return replace(stage, copies=(start, end))


def _most(period: cp_model.IntVar) -> int:
    return int(period.domain.max())
