"""Translation between plans of iterations and the data of :mod:`formulations.iteration`; rounding lives here."""

from dataclasses import dataclass

import numpy as np

from formulations.iteration_variables import LaunchJobs, PeriodJobs, PeriodTimes
from formulations.job_plans import JobTimes
from formulations.lattice import JobClass
from themis_opt.cost import PHASES, IntArray
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.lowering import job_class, rounded_down
from themis_opt.plan import Chunks, Plan


@dataclass(frozen=True)
class PeriodData:
    """One period in whole ticks, and which chunk every job stands for.

    Attributes
    ----------
    tick : int
        Picoseconds of one tick; durations and lags are rounded down to ticks.
    period : PeriodJobs
        Chunks of one launch and equal size form a class.
    members : tuple of tuple of int64 arrays
        Per launch and class, the chunks.
    """

    tick: int
    period: PeriodJobs
    members: tuple[tuple[IntArray, ...], ...]

    def bound(self, ticks: int) -> int:
        """Picoseconds that a period is sure to last if one of the rounded data lasts so many ticks.

        A period of a fraction of a tick more than `ticks - 1` is rounded up to `ticks`.
        """
        return (ticks - 1) * self.tick + 1


def period_data(instance: IterationInstance, plan: IterationPlan, tick: int) -> PeriodData:
    """Prepare :mod:`formulations.iteration` for the launches and chunk sizes of a plan."""
    jobs, members = [], []
    for number, own in enumerate(plan.chunks.chunks):
        classes = [np.flatnonzero(own.sizes == size) for size in np.unique(own.sizes)]
        jobs.append(tuple(_jobs(plan, number, chunks, tick) for chunks in classes))
        members.append(tuple(classes))
    mirrored = _mirrored(instance, plan)
    launches = tuple(
        LaunchJobs(own, launch.after, launch.before, launch.after_launches, mirror)
        for own, launch, mirror in zip(jobs, plan.launches, mirrored, strict=True)
    )
    tasks = tuple(task.duration // tick for task in instance.iteration.tasks)
    return PeriodData(tick, PeriodJobs(tasks, launches, instance.resources), tuple(members))


def _jobs(plan: IterationPlan, number: int, chunks: IntArray, tick: int) -> JobClass:
    size = int(plan.chunks.chunks[number].sizes[chunks[0]])
    return rounded_down(job_class(plan.stream, number, size, count=len(chunks)), tick)


def _mirrored(instance: IterationInstance, plan: IterationPlan) -> list[int | None]:
    """Per launch, the scatter whose paths it reverses where gathers must."""
    if instance.ag_order == "free":
        return [None] * len(plan.launches)
    scatters = {launch.tensors: n for n, launch in enumerate(plan.launches) if launch.part == "scatter"}
    return [scatters[launch.tensors] if launch.part == "gather" else None for launch in plan.launches]


def period_times(data: PeriodData, schedule: IterationSchedule) -> PeriodTimes:
    """The last whole period of a steady schedule in ticks, feasible for the rounded data.

    Places within the period are rounded down, and the period is rounded up.
    """
    row = schedule.num_iterations - 2
    begin, exact = int(schedule.task_start[row, 0]), schedule.iteration_time
    period = -(-exact // data.tick)
    later, place = np.divmod(schedule.stage_start[row] - begin, exact)
    starts = place // data.tick + later * period
    launches = []
    for number, classes in enumerate(data.members):
        own = schedule.plan.chunks.chunks[number]
        first = schedule.plan.chunks.offsets[number]
        at = starts[first : first + own.paths.size].reshape(own.paths.shape)
        legs = len(PHASES[schedule.plan.launches[number].kind])
        launches.append([[_job_times(own.paths[c], at[c], legs) for c in chunks.tolist()] for chunks in classes])
    tasks = (schedule.task_start[row] - begin) // data.tick
    return PeriodTimes(period, tuple(tasks.tolist()), tuple(launches))


def _job_times(path: IntArray, starts: IntArray, legs: int) -> JobTimes:
    return JobTimes(*(tuple(tuple(part.tolist()) for part in np.split(whole, legs)) for whole in (path, starts)))


def enforced_plan(
    instance: IterationInstance, plan: IterationPlan, data: PeriodData, times: PeriodTimes
) -> IterationPlan:
    """The launches and chunk sizes of a plan with the paths and sequences of a solution.

    Its times are for the simulator to find.
    """
    chunks, starts = [], []
    for own, classes, found in zip(plan.chunks.chunks, data.members, times.launches, strict=True):
        paths, at = np.zeros_like(own.paths), np.zeros_like(own.paths)
        for members, jobs in zip(classes, found, strict=True):
            for chunk, job in zip(members.tolist(), jobs, strict=True):
                paths[chunk] = [k for leg in job.paths for k in leg]
                at[chunk] = [s for leg in job.starts for s in leg]
        chunks.append(Chunks(own.sizes, paths))
        starts.append(at.ravel())
    made = IterationPlan(plan.launches, plan.stream, Plan(tuple(chunks)))
    return made.enforcing(_sequences(instance, made, np.concatenate(starts), times.period))


def _sequences(instance: IterationInstance, plan: IterationPlan, starts: IntArray, period: int) -> tuple[IntArray, ...]:
    """Per resource the stages by their place in the period; of equal ones, those of the earlier iteration first."""
    later, place = np.divmod(starts, period)
    position = np.concatenate([np.tile(np.arange(c.paths.shape[1]), len(c.sizes)) for c in plan.chunks.chunks])
    order = np.lexsort((position, -later, place))
    resources = np.array(instance.resources)[plan.chunks.stage_dimensions[order]]
    pairs = np.stack([order, later[order]], axis=1)
    return tuple(pairs[resources == r] for r in range(instance.num_resources))
