"""Translation between plans of iterations and the data of :mod:`formulations.period`; rounding lives here."""

from dataclasses import dataclass, replace

import numpy as np

from formulations.lattice import JobClass
from formulations.period_variables import LaunchJobs, PeriodJobs, PeriodTimes
from themis_opt.base.arrays import IntArray
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, TaskOf, mirrored_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.lowering import job_class, job_times, rounded_down


@dataclass(frozen=True)
class PeriodData:
    """One period in whole ticks, and which chunk every job stands for."""

    tick: int  # picoseconds of one tick; durations and lags are rounded down to ticks
    period: PeriodJobs  # chunks of one launch and equal size form a class
    members: tuple[tuple[IntArray, ...], ...]  # per launch and class, the chunks

    def bound(self, ticks: int) -> int:
        """Picoseconds that a period is sure to last if one of the rounded data lasts so many ticks.

        A period of a fraction of a tick more than `ticks - 1` is rounded up to `ticks`.
        """
        return (ticks - 1) * self.tick + 1


def period_data(instance: Instance, plan: Plan, tick: int) -> PeriodData:
    """Prepare :mod:`formulations.period` for the launches and chunk sizes of a plan."""
    jobs, members = [], []
    for number, cut_chunks in enumerate(plan.chunks):
        classes = [np.flatnonzero(cut_chunks.sizes == size) for size in np.unique(cut_chunks.sizes)]
        jobs.append(tuple(_jobs(instance, plan, number, chunks, tick) for chunks in classes))
        members.append(tuple(classes))
    mirrors = mirrored_launches(instance, plan.launches)
    launches = tuple(
        LaunchJobs(job, _event(launch.after), _event(launch.before), launch.after_launches, mirrors.get(number))
        for number, (job, launch) in enumerate(zip(jobs, plan.launches, strict=True))
    )
    tasks = tuple(task.duration // tick for task in instance.tasks)
    return PeriodData(tick, PeriodJobs(tasks, launches, instance.chains, instance.waits), tuple(members))


def _event(task: TaskOf | None) -> TaskOf:
    if task is None:
        raise ValueError("every launch of a period stands between two tasks")
    return task


def _jobs(instance: Instance, plan: Plan, number: int, chunks: IntArray, tick: int) -> JobClass:
    size = int(plan.chunks[number].sizes[chunks[0]])
    return rounded_down(job_class(instance, plan.launched(instance)[number], size, count=len(chunks)), tick)


def period_times(data: PeriodData, schedule: Schedule) -> PeriodTimes:
    """The last whole period of a steady schedule in ticks, feasible for the rounded data.

    Places within the period are rounded down, and the period is rounded up.
    """
    row = schedule.num_iterations - 2
    begin, exact = int(schedule.task_start[row, 0]), schedule.makespan
    period = -(-exact // data.tick)
    later, place = np.divmod(schedule.period.stage_start[row] - begin, exact)
    starts = place // data.tick + later * period
    launches = []
    for number, classes in enumerate(data.members):
        cut_chunks = schedule.plan.chunks[number]
        first = schedule.plan.offsets[number]
        at = starts[first : first + cut_chunks.paths.size].reshape(cut_chunks.paths.shape)
        num_phases = len(schedule.plan.launches[number].kind.rule.phases)
        launches.append(
            [[job_times(cut_chunks.paths[c], at[c], num_phases) for c in chunks.tolist()] for chunks in classes]
        )
    tasks = (schedule.task_start[row] - begin) // data.tick
    return PeriodTimes(period, tuple(tasks.tolist()), tuple(launches))


def enforced_plan(instance: Instance, plan: Plan, data: PeriodData, times: PeriodTimes) -> Plan:
    """The launches and chunk sizes of a plan with the paths and sequences of a solution.

    Its times are for the simulator to find.  Resources serve stages by their place in the period, of equal ones those
    of the earlier iteration first.
    """
    chunks, starts = [], []
    for cut_chunks, classes, launch in zip(plan.chunks, data.members, times.launches, strict=True):
        paths, at = np.zeros_like(cut_chunks.paths), np.zeros_like(cut_chunks.paths)
        for members, jobs in zip(classes, launch, strict=True):
            for chunk, job in zip(members.tolist(), jobs, strict=True):
                paths[chunk] = [k for phase_path in job.paths for k in phase_path]
                at[chunk] = [s for phase_starts in job.starts for s in phase_starts]
        chunks.append(Chunks(cut_chunks.sizes, paths))
        starts.append(at.ravel())
    later, place = np.divmod(np.concatenate(starts), times.period)
    return replace(plan, chunks=tuple(chunks), order="ready", keys=None).in_order_of(instance, place, later)
