"""Plans of jobs, as programmes take and give them; nothing here loads a solver."""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.lattice import JobClass


@dataclass(frozen=True)
class JobTimes:
    """The path of one job: per phase its machines in the order visited, and its start on each."""

    paths: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[int, ...], ...]

    def resource_of_end(self, job: JobClass, at_start: bool) -> int:
        """What the first stage of the job holds, or the last."""
        if at_start:
            return job.phases[0].held(self.paths[0][0])
        return job.phases[-1].held(self.paths[-1][-1])


JobPlans = Sequence[Sequence[JobTimes]]  # per class, the jobs


@dataclass(frozen=True)
class PlanOutcome:
    """Best plan (None if there is none), proven bound, status and deterministic time of the search."""

    jobs: JobPlans | None
    bound: int
    status: str
    work: float


@dataclass(frozen=True)
class SizedOutcome:
    """What is known of a horizon for one class of jobs of any sizes.

    `status`: ``infeasible`` if it is proven too short, ``feasible`` with a plan, or ``unknown``.
    `jobs`: paths and starts, none without a plan.
    `shares`: of the class, one for each job.
    `work`: seconds of work.
    """

    status: str
    jobs: Sequence[JobTimes]
    shares: Sequence[float]
    work: float


def start_on(times: JobTimes, phase: int, machine: int) -> int:
    """When a job starts on a machine in one of its phases."""
    return times.starts[phase][times.paths[phase].index(machine)]
