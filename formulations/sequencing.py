r"""Sequencing: start times when the path of every job is given, a constraint programme.

Sets and data
    Jobs :math:`i`, each with a class, a release :math:`r_i` and a given path; class and path make its stages
    :math:`o = 1..n_i`.  Stage o holds machine :math:`k_{io}` for the integer :math:`d_{io}`, its result is ready the
    integer :math:`l_{io}` later.  Jobs are *alike* if class and path are equal; :math:`i'` is the next one alike after
    i.  For a job that never waits, head :math:`h_{io}` is the start of a stage, and tail :math:`t_{io}` the time from
    its end to the last result of the job.  A horizon H.

Variables
    - :math:`s_{io}`, start of a stage; with :math:`d_{io}` an interval;
    - :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. *precedence*: :math:`s_{i1} \ge r_i` and :math:`s_{i,o+1} \ge s_{io} + d_{io} + l_{io}`;
    2. *no overlap*: the intervals on one machine are disjoint;
    3. *makespan*: :math:`T \ge s_{io} + d_{io} + l_{io}` of the last stage;
    4. *symmetry*: alike jobs never overtake each other, :math:`s_{i'o} \ge s_{io} + d_{io}`;
    5. *one machine*: for every machine k and all thresholds a and b,
       :math:`T \ge a + \sum d_{io} + b`, the sum over the stages on k with :math:`h_{io} \ge a` and
       :math:`t_{io} \ge b`;
    6. *bounds*: :math:`T \le H`.

Results along a path come one after the other, so a phase that follows the last result of the phase before follows all
of them.  (4) loses no makespan: in a schedule of alike jobs, let the j-th of them take the j-th earliest start on every
stage.  A stage of each job starts at least a constant after the stage before, so the j-th earliest of the one starts
at least that constant after the j-th earliest of the other, and the machines serve the same intervals as before.  (5)
is redundant: the first of these stages starts no earlier than a, and the last has b still to follow.  Its greatest
right side is the length of Jackson's preemptive schedule, which serves the longest tail first.

The optimum is exact for the integer data; with durations and lags rounded down it bounds the true makespan **of these
paths only**: other paths may be faster.

J. Carlier, *The one-machine sequencing problem*, European Journal of Operational Research 11 (1982).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, islice, pairwise

from ortools.sat.python import cp_model

from formulations.cp_sat import SolverProgress, search
from formulations.job_plans import JobPlans, JobTimes, PlanOutcome
from formulations.lattice import JobClass
from formulations.limits import SECONDS_PER_WORK, Limits

JobPath = tuple[tuple[int, ...], ...]  # per phase the machines in the order visited
JobPaths = Sequence[Sequence[JobPath]]  # per class, the paths of its jobs


@dataclass(frozen=True)
class PathStage:
    """A visit to a machine on a given path, and the resource that it holds."""

    resource: int
    duration: int
    lag: int


StageWindow = tuple[PathStage, int, int]  # a stage, its head and its tail


@dataclass(frozen=True)
class AlikeJobs:
    """Jobs of one class that share a path.

    `members` are their indices within the class with index `number`, `starts` the variables by member and stage.
    """

    number: int
    members: Sequence[int]
    release: int
    stages: tuple[PathStage, ...]
    starts: Sequence[Sequence[cp_model.IntVar]]

    def windows(self) -> list[StageWindow]:
        """Each stage of one of the jobs with its head and its tail."""
        head, tail = self.release, sum(stage.duration + stage.lag for stage in self.stages)
        windows = []
        for stage in self.stages:
            tail -= stage.duration
            windows.append((stage, head, tail))
            head += stage.duration + stage.lag
            tail -= stage.lag
        return windows


class Sequencing:
    """The model for some jobs on given paths.

    `jobs`: with integer durations, lags and releases.
    `paths`: per class one path for each of its jobs; a path is, per phase, the tuple of machines in the order visited.
    `horizon`: an upper bound on the makespan of some feasible schedule on these paths.
    """

    def __init__(self, jobs: Sequence[JobClass], paths: JobPaths, horizon: int) -> None:
        self.paths = paths
        self.model = cp_model.CpModel()
        self.model.name = "sequencing"
        self.horizon = horizon
        self.makespan = self.model.new_int_var(0, horizon, "makespan")
        self.starts = [
            [self._starts(job, path, f"job{j}_{i}") for i, path in enumerate(paths_of_class)]
            for j, (job, paths_of_class) in enumerate(zip(jobs, paths, strict=True))
        ]
        self.alike = [group for j, job in enumerate(jobs) for group in self._groups(j, job)]
        for group in self.alike:
            self._precedence(group)
            self._finish(group)
            self._symmetry(group)
        self._no_overlap()
        self._one_machine()
        self.model.minimize(self.makespan)

    def solve(self, limits: Limits, report: SolverProgress) -> PlanOutcome:
        """Search within limits; `report` hears of every better solution and bound.

        The bound of the outcome holds for these paths only.
        """
        variables = [start for jobs in self.starts for starts in jobs for start in starts]
        # A relaxation says less than (5), and delays what propagation finds.
        outcome = search(self.model, variables, limits, report, relaxation="none", pace=SECONDS_PER_WORK["sequencing"])
        bound = int(outcome.bound)
        if outcome.value is None:
            return PlanOutcome(None, bound, outcome.status, outcome.work)
        values = iter([outcome.value[variable.index] for variable in variables])
        jobs = [[_times(path, values) for path in paths_of_class] for paths_of_class in self.paths]
        return PlanOutcome(jobs, bound, outcome.status, outcome.work)

    def hint(self, plans: JobPlans) -> None:
        """Suggest a plan on these paths that is feasible for the integer data, as a value for every variable."""
        finish = 0
        for group in self.alike:
            planned = [[s for phase in plans[group.number][i].starts for s in phase] for i in group.members]
            by_stage = [sorted(column) for column in zip(*planned, strict=True)]
            finish = max(finish, by_stage[-1][-1] + group.stages[-1].duration + group.stages[-1].lag)
            for variables, starts in zip(zip(*group.starts, strict=True), by_stage, strict=True):
                for variable, start in zip(variables, starts, strict=True):
                    self.model.add_hint(variable, start)
        self.model.add_hint(self.makespan, min(finish, self.horizon))

    def _groups(self, number: int, job: JobClass) -> Iterator[AlikeJobs]:
        """The alike jobs of one class, path by path."""
        members: dict[JobPath, list[int]] = {}
        for i, path in enumerate(self.paths[number]):
            members.setdefault(path, []).append(i)
        for path, indices in members.items():
            starts = [self.starts[number][i] for i in indices]
            yield AlikeJobs(number, indices, int(job.release), stages_along(job, path), starts)

    def _starts(self, job: JobClass, path: JobPath, name: str) -> list[cp_model.IntVar]:
        stages = range(sum(map(len, path)))
        return [self.model.new_int_var(int(job.release), self.horizon, f"{name}_start{stage}") for stage in stages]

    def _precedence(self, group: AlikeJobs) -> None:
        """(1); releases are in the domains."""
        for starts in group.starts:
            for stage, (start, following) in zip(group.stages, pairwise(starts), strict=False):
                self.model.add(following >= start + stage.duration + stage.lag)

    def _no_overlap(self) -> None:
        """(2)."""
        intervals: dict[int, list[cp_model.IntervalVar]] = {}
        for group in self.alike:
            for starts in group.starts:
                for stage, start in zip(group.stages, starts, strict=True):
                    interval = self.model.new_fixed_size_interval_var(start, stage.duration, f"on{stage.resource}")
                    intervals.setdefault(stage.resource, []).append(interval)
        for on_machine in intervals.values():
            self.model.add_no_overlap(on_machine)

    def _finish(self, group: AlikeJobs) -> None:
        """(3)."""
        last = group.stages[-1]
        for starts in group.starts:
            self.model.add(self.makespan >= starts[-1] + last.duration + last.lag)

    def _symmetry(self, group: AlikeJobs) -> None:
        """(4)."""
        for one, following in pairwise(group.starts):
            for stage, start, later in zip(group.stages, one, following, strict=True):
                self.model.add(later >= start + stage.duration)

    def _one_machine(self) -> None:
        """(5)."""
        windows = [window for group in self.alike for window in group.windows() * len(group.starts)]
        self.model.add(self.makespan >= one_machine_bound(windows))


def stages_along(job: JobClass, path: JobPath) -> tuple[PathStage, ...]:
    """The stages of a job on a path."""
    stages = []
    for phase, order in zip(job.phases, path, strict=True):
        before = accumulate((1 << machine for machine in order), initial=0)
        for machine, visited in zip(order, before, strict=False):
            stages.append(
                PathStage(phase.held(machine), int(phase.duration[visited, machine]), int(phase.lag[machine]))
            )
    return tuple(stages)


def one_machine_bound(windows: Iterable[StageWindow]) -> int:
    """The greatest right side of (5) over all machines and thresholds."""
    on_machine: dict[int, list[tuple[int, int, int]]] = {}
    for stage, head, tail in windows:
        on_machine.setdefault(stage.resource, []).append((head, stage.duration, tail))
    return max((_preemptive_makespan(stages) for stages in on_machine.values()), default=0)


def _preemptive_makespan(stages: Sequence[tuple[int, int, int]]) -> int:
    """Length of Jackson's preemptive schedule of stages with head, duration and tail, in O(n log n) time."""
    coming, waiting = sorted(stages, reverse=True), list[tuple[int, int]]()
    now, makespan = 0, 0
    while coming or waiting:
        if not waiting:
            now = max(now, coming[-1][0])
        while coming and coming[-1][0] <= now:
            _, duration, tail = coming.pop()
            heappush(waiting, (-tail, duration))
        tail, left = heappop(waiting)
        served = min(left, coming[-1][0] - now) if coming else left
        now += served
        if served < left:
            heappush(waiting, (tail, left - served))
        else:
            makespan = max(makespan, now - tail)
    return makespan


def _times(path: JobPath, values: Iterator[int]) -> JobTimes:
    """The plan of one job, from the values of its starts."""
    return JobTimes(path, tuple(tuple(islice(values, len(order))) for order in path))
