"""A known schedule as a value for every variable of :mod:`formulations.period`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from formulations.job_plans import JobPlans, JobTimes, start_on
from formulations.job_variables import hint_job
from formulations.period_variables import FoldedStage, LaunchJobs, LaunchVariables, PeriodJobs, PeriodTimes, Window


@dataclass(frozen=True)
class PeriodVariables:
    """The variables of a period.

    Attributes
    ----------
    period : IntVar
    task_start : sequence of IntVar
    launches : sequence of LaunchVariables
    stages : mapping of sequences of FoldedStage
        By resource.
    windows : sequence of Window
    """

    period: cp_model.IntVar
    task_start: Sequence[cp_model.IntVar]
    launches: Sequence[LaunchVariables]
    stages: Mapping[int, Sequence[FoldedStage]]
    windows: Sequence[Window]


def add_hints(model: cp_model.CpModel, data: PeriodJobs, variables: PeriodVariables, times: PeriodTimes) -> None:
    """Suggest a schedule that is feasible for the integer data, as a value for every variable."""
    model.add_hint(variables.period, times.period)
    for variable, start in zip(variables.task_start, times.tasks, strict=True):
        model.add_hint(variable, start)
    plans = _numbered(data, times)
    starts: dict[int, tuple[int, int]] = {}
    for launch, launch_variables, own in zip(data.launches, variables.launches, plans, strict=True):
        _hint_launch(model, launch, launch_variables, own, starts)
    for stages in variables.stages.values():
        for stage in stages:
            _hint_stage(model, stage, *starts[stage.start.index], times.period)
    for window in variables.windows:
        _hint_window(model, data, window, times, plans)


def _numbered(data: PeriodJobs, times: PeriodTimes) -> list[list[list[JobTimes]]]:
    """Jobs of each class in the order of their first starts; those that mirror others, in the order of these."""
    orders: list[list[list[int]]] = []
    for launch, plans in zip(data.launches, times.launches, strict=True):
        if launch.mirrors is not None:
            orders.append(orders[launch.mirrors])
        else:
            first = [
                [start_on(t, 0, job.machines[0]) for t in own] for job, own in zip(launch.jobs, plans, strict=True)
            ]
            orders.append([sorted(range(len(own)), key=own.__getitem__) for own in first])
    return [
        [[own[i] for i in order] for own, order in zip(plans, per_class, strict=True)]
        for plans, per_class in zip(times.launches, orders, strict=True)
    ]


def _hint_launch(
    model: cp_model.CpModel,
    launch: LaunchJobs,
    variables: LaunchVariables,
    plans: JobPlans,
    starts: dict[int, tuple[int, int]],
) -> None:
    """Hints for the jobs of a launch; `starts` takes up start and duration by the index of the start variable."""
    ready = 0
    for job, own, own_times in zip(launch.jobs, variables.classes, plans, strict=True):
        for job_variables, times in zip(own, own_times, strict=True):
            mirrors = launch.mirrors is not None
            ready = max(ready, hint_job(model, job, job_variables, times, mirrors))
            for leg, leg_variables, path, at in zip(
                job.legs, job_variables.legs, times.paths, times.starts, strict=True
            ):
                visited = 0
                for machine, start in zip(path, at, strict=True):
                    starts[leg_variables.start[machine].index] = start, int(leg.duration[visited, machine])
                    visited |= 1 << machine
    model.add_hint(variables.ready, ready)


def _hint_stage(model: cp_model.CpModel, stage: FoldedStage, start: int, duration: int, period: int) -> None:
    wraps = stage.wraps if isinstance(stage.wraps, int) else min(start // period, 1)
    if not isinstance(stage.wraps, int):
        model.add_hint(stage.wraps, wraps)
    place = start - wraps * period
    if stage.folded.index != stage.start.index:
        model.add_hint(stage.folded, place)
        model.add_hint(stage.folded_end, place + duration)
    if stage.copies:
        model.add_hint(stage.copies[0], place + period)
        model.add_hint(stage.copies[1], place + duration + period)


def _hint_window(
    model: cp_model.CpModel,
    data: PeriodJobs,
    window: Window,
    times: PeriodTimes,
    plans: list[list[list[JobTimes]]],
) -> None:
    released = times.tasks[window.after[0]] + data.tasks[window.after[0]] + window.after[1] * times.period
    needed = times.tasks[window.before[0]] + window.before[1] * times.period
    model.add_hint(window.length, needed - released)
    inside = [job for m in window.members for own in plans[m] for job in own]
    for row in window.rows:
        ends = [job.paths[0][0] if row.at_start else job.paths[-1][-1] for job in inside]
        model.add_hint(row.absent, row.machine not in ends)
