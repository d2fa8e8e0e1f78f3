"""A known schedule as a value for every variable of :mod:`formulations.iteration`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from formulations.iteration_folding import FoldedStage
from formulations.iteration_variables import LaunchVariables, PeriodTimes, Window
from formulations.job_plans import JobPlans, JobTimes, start_on
from formulations.job_variables import hint_job
from formulations.lattice import JobClass

if TYPE_CHECKING:
    from formulations.iteration import IterationModel


def add_hints(model: "IterationModel", times: PeriodTimes) -> None:
    """Suggest a schedule that is feasible for the integer data."""
    model.model.add_hint(model.period, times.period)
    for variable, start in zip(model.task_start, times.tasks, strict=True):
        model.model.add_hint(variable, start)
    plans = _numbered(model, times)
    starts: dict[int, tuple[int, int]] = {}
    for number, (variables, own) in enumerate(zip(model.launches, plans, strict=True)):
        _hint_launch(model, number, variables, own, starts)
    for stages in model.stages.values():
        for stage in stages:
            _hint_stage(model, stage, *starts[stage.start.index], times.period)
    for window in model.windows:
        _hint_window(model, window, times, plans)


def _numbered(model: "IterationModel", times: PeriodTimes) -> list[list[list[JobTimes]]]:
    """Jobs of each class in the order of their first starts; those that mirror others, in the order of these."""
    orders: list[list[list[int]]] = []
    for launch, plans in zip(model.data.launches, times.launches, strict=True):
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


def _by_start(job: JobClass, times: Sequence[JobTimes]) -> list[int]:
    return sorted(range(len(times)), key=lambda i: start_on(times[i], 0, job.machines[0]))


def _hint_launch(
    model: "IterationModel",
    number: int,
    variables: LaunchVariables,
    plans: JobPlans,
    starts: dict[int, tuple[int, int]],
) -> None:
    """Hints for the jobs of a launch; `starts` takes up start and duration by the index of the start variable."""
    launch, ready = model.data.launches[number], 0
    for job, own, own_times in zip(launch.jobs, variables.classes, plans, strict=True):
        for job_variables, times in zip(own, own_times, strict=True):
            mirrors = launch.mirrors is not None
            ready = max(ready, hint_job(model.model, job, job_variables, times, mirrors))
            for leg, leg_variables, path, at in zip(
                job.legs, job_variables.legs, times.paths, times.starts, strict=True
            ):
                visited = 0
                for machine, start in zip(path, at, strict=True):
                    starts[leg_variables.start[machine].index] = start, int(leg.duration[visited, machine])
                    visited |= 1 << machine
    model.model.add_hint(variables.ready, ready)


def _hint_stage(model: "IterationModel", stage: FoldedStage, start: int, duration: int, period: int) -> None:
    wraps = stage.wraps if isinstance(stage.wraps, int) else min(start // period, 1)
    if not isinstance(stage.wraps, int):
        model.model.add_hint(stage.wraps, wraps)
    place = start - wraps * period
    if stage.folded.index != stage.start.index:
        model.model.add_hint(stage.folded, place)
        model.model.add_hint(stage.folded_end, place + duration)
    if stage.copies:
        model.model.add_hint(stage.copies[0], place + period)
        model.model.add_hint(stage.copies[1], place + duration + period)


def _hint_window(
    model: "IterationModel", window: Window, times: PeriodTimes, plans: list[list[list[JobTimes]]]
) -> None:
    released = times.tasks[window.after[0]] + model.data.tasks[window.after[0]] + window.after[1] * times.period
    needed = times.tasks[window.before[0]] + window.before[1] * times.period
    model.model.add_hint(window.length, needed - released)
    inside = [job for m in window.members for own in plans[m] for job in own]
    for row in window.rows:
        ends = [job.paths[0][0] if row.at_start else job.paths[-1][-1] for job in inside]
        model.model.add_hint(row.absent, row.machine not in ends)
