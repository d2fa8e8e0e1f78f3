"""Sequencing on given paths as a job shop of PyJobShop, the model that its users would write.

https://pyjobshop.org
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from pyjobshop import Model
from pyjobshop.solvers.ortools import CPModel

from formulations.cp_sat import SolverProgress, search
from formulations.job_plans import JobTimes, PlanOutcome
from formulations.lattice import JobClass
from formulations.limits import Limits
from formulations.sequencing import JobPath, JobPaths, stages_along


def job_shop(jobs: Sequence[JobClass], paths: JobPaths, horizon: int) -> Model:
    """One job per chunk with release and deadline, one task per stage, lags as delays, least makespan.

    Tasks are numbered class by class, job by job, along the path; one more, of no length and on no machine, ends
    each job when its last result is ready.
    """
    model = Model()
    machines = {k: model.add_machine(name=f"machine{k}") for k in sorted({k for job in jobs for k in job.resources})}
    for job_class, paths_of_class in zip(jobs, paths, strict=True):
        for path in paths_of_class:
            job = model.add_job(release_date=int(job_class.release), deadline=horizon)
            stages = stages_along(job_class, path)
            tasks = [model.add_task(job) for _ in (*stages, "result")]
            for stage, (task, following) in zip(stages, pairwise(tasks), strict=True):
                model.add_mode(task, machines[stage.resource], stage.duration)
                model.add_end_before_start(task, following, stage.lag)
            model.add_mode(tasks[-1], [], 0)
    model.set_objective(weight_makespan=1)
    return model


class JobShop:
    """The job shop, solved by OR-Tools.

    PyJobShop reports no progress, so the constraint programme that it builds is searched here, with the parameters
    that :meth:`pyjobshop.Model.solve` sets, and the gap at which the other solvers stop.
    """

    def __init__(self, jobs: Sequence[JobClass], paths: JobPaths, horizon: int) -> None:
        self.paths = paths
        self.programme = CPModel(job_shop(jobs, paths, horizon).data())

    def solve(self, budget: Limits, report: SolverProgress) -> PlanOutcome:
        """Search within a budget; the bound of the outcome holds for these paths only."""
        starts = [task.start for task in self.programme.variables.task_vars]
        outcome = search(self.programme.model, starts, budget, report)
        if outcome.value is None:
            return PlanOutcome(None, int(outcome.bound), outcome.status, outcome.work)
        values = iter([outcome.value[start.index] for start in starts])
        plans = [[_times(path, values) for path in paths_of_class] for paths_of_class in self.paths]
        return PlanOutcome(plans, int(outcome.bound), outcome.status, outcome.work)


def _times(path: JobPath, values: Iterator[int]) -> JobTimes:
    """The plan of one job; its last task is the result."""
    starts = tuple(tuple(islice(values, len(order))) for order in path)
    next(values)
    return JobTimes(path, starts)
