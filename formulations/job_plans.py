"""Plans of jobs, as programmes take and give them; nothing here loads a solver."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class JobTimes:
    """The path of one job: per phase its machines in the order visited, and its start on each."""

    paths: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[int, ...], ...]


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
