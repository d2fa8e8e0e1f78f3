r"""Training iteration: one period of compute and chunks that repeats itself, a constraint programme.

Sets and data
    Tasks :math:`t = 1..n` of a period, of the integer duration :math:`c_t`, serial in chains :math:`C`, one for each
    stage of a pipeline; pairs :math:`W` of tasks of different chains that wait for each other.  Launches
    :math:`\lambda`, each released by the end of task :math:`a_\lambda`, :math:`\alpha_\lambda \in \{0, 1\}` periods
    later, and by the results of launches :math:`A_\lambda`; task :math:`b_\lambda`, :math:`\beta_\lambda \in \{0, 1\}`
    periods later, waits for it.  Jobs :math:`i` of a launch are those of :mod:`formulations.chunk_order`, with arcs,
    durations :math:`d`, lags :math:`l` and the resources that stages hold.  A lower bound L on the period and a
    horizon H.

Variables
    - those of each job in :mod:`formulations.chunk_order`, starts :math:`s_{iqk} \in [0, 2H]` counted from the start of
      the period that the job belongs to;
    - :math:`u_{iqk}`, the place of a stage in the period, and :math:`w_{iqk} \in \{0, 1\}`, how many periods later it
      is;
    - :math:`\tau_t`, start of a task; :math:`R_\lambda`, when a launch has all results;
    - :math:`T`, the period.

Objective
    minimise :math:`T`

Constraints
    1. *jobs*: (1) to (5) of :mod:`formulations.chunk_order`; where the gathers of a launch mirror the scatters of
       another one, x and b of these, reversed, stand for theirs;
    2. *tasks*: :math:`\tau_1 = 0`; in each chain :math:`\tau_{t'} \ge \tau_t + c_t` for the task :math:`t'` after t,
       and :math:`\tau_t + T \ge \tau_{t'} + c_{t'}` for its first t and its last :math:`t'`; and
       :math:`\tau_{t'} \ge \tau_t + c_t` for :math:`(t, t') \in W`;
    3. *release*: :math:`s_{i1k} \ge \tau_{a} + c_{a} + \alpha_\lambda T`, and :math:`s_{i1k} \ge R_\mu` for
       :math:`\mu \in A_\lambda`;
    4. *results*: :math:`R_\lambda \ge f_{iqk} + l_{iqk}` in the last phase, and
       :math:`R_\lambda \le \tau_b + \beta_\lambda T`;
    5. *folding*: :math:`s_{iqk} = u_{iqk} + w_{iqk} T`, :math:`0 \le u_{iqk} \le T`;
    6. *no overlap*: on each resource the intervals of length :math:`p_{iqk}` at :math:`u_{iqk}`, and, where one of them
       could be under way at the end of a period, those at :math:`u_{iqk} + T`, are disjoint;
    7. *loads*: :math:`T \ge \sum p_{iqk}` on each resource;
    8. *windows*: for all events a and b, (2) and (3) of :mod:`formulations.order_count` with
       :math:`\tau_b + \beta T - \tau_a - c_a - \alpha T` for the makespan, on all launches released by a or later and
       needed by b or earlier, all in one chain;
    9. *symmetry*: jobs of one class are numbered by their start on their first machine in the first phase, unless they
       mirror others;
    10. *bounds*: :math:`L \le T \le H`, :math:`T \ge \sum_{t \in C} c_t`.

Results are needed by :math:`2T` at the latest, so no stage starts after it and w is 0 or 1; a launch that is released
and needed within one period, or needed by its end, has a known w.  Two intervals of the repeated schedule that overlap
do so with places less than a period apart, which the copies of (6) see.  (7), (8) and (10) are redundant.

The optimum is exact for the integer data, among schedules that repeat themselves after one period.  If durations and
lags are rounded down to ticks, a true period of :math:`\theta` ticks leaves a feasible one of
:math:`\lceil \theta \rceil`: round every place u down and keep w.  A wait from place u to :math:`u'`,
:math:`k = w' - w \ge 0` periods later, takes :math:`u' + k \theta - u \ge p`, so
:math:`\lfloor u' \rfloor + k \lceil \theta \rceil - \lfloor u \rfloor > p - 1`, and both sides being integers it is at
least :math:`\lfloor p \rfloor`.  So every schedule of the same launches and chunk sizes that repeats itself has a
period of **more than the optimum less one tick**, whatever paths and sequences it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortools.sat.python import cp_model

from formulations.cp_sat import SolverProgress, search
from formulations.job_model import JobVariables, add_job, arc_counts, begin_in_turn, decisions, extracted, hint_job
from formulations.job_plans import JobPlans, JobTimes, start_on
from formulations.limits import SECONDS_PER_WORK, Limits
from formulations.order_count import add_load_bounds
from formulations.period_variables import (
    FoldedStage,
    LaunchJobs,
    LaunchVariables,
    Moment,
    PeriodJobs,
    PeriodOutcome,
    PeriodTimes,
    PeriodWindow,
    fold,
    windows_of,
    with_copies,
)


class PeriodModel:
    """The model of one period.

    `period`: tasks and launches in whole ticks.
    `horizon`: an upper bound on the period.
    `lower_bound`: a proven lower bound.
    """

    def __init__(self, period: PeriodJobs, horizon: int, lower_bound: int = 0) -> None:
        self.data, self.horizon = period, horizon
        self.lower_bound = max(lower_bound, period.compute)
        self.model = cp_model.CpModel()
        self.model.name = "period"
        self.period = self.model.new_int_var(self.lower_bound, horizon, "period")
        self.task_start = self._tasks()
        self.launches: list[LaunchVariables] = []
        for number, launch in enumerate(period.launches):
            self.launches.append(self._launch(launch, f"launch{number}"))
        for launch, variables in zip(period.launches, self.launches, strict=True):
            self._release(launch, variables)
            self._results(launch, variables)
        self.stages = self._folded()
        self._no_overlap()
        self._loads()
        self.windows = list(self._windows())
        self._symmetry()
        self.model.minimize(self.period)

    def solve(self, limits: Limits, report: SolverProgress) -> PeriodOutcome:
        """Search within limits; `report` hears of every better period and bound."""
        held = [self.period, *self.task_start]
        held += [v for launch in self.launches for job in launch.jobs for v in decisions(job)]
        # Some periods are proven several times as fast without a relaxation, others only with one.
        outcome = search(self.model, held, limits, report, relaxation="mixed", pace=SECONDS_PER_WORK["period"])
        bound = max(self.lower_bound, int(outcome.bound))
        if outcome.value is None:
            return PeriodOutcome(None, bound, outcome.status, outcome.work)
        value = outcome.value
        launches = tuple(
            [[extracted(job, value) for job in jobs] for jobs in launch.classes] for launch in self.launches
        )
        times = PeriodTimes(value[self.period.index], tuple(value[v.index] for v in self.task_start), launches)
        return PeriodOutcome(times, bound, outcome.status, outcome.work)

    def hint(self, times: PeriodTimes) -> None:
        """Suggest a schedule that is feasible for the integer data, as a value for every variable."""
        held = PeriodVariables(self.period, self.task_start, self.launches, self.stages, self.windows)
        add_hints(self.model, self.data, held, times)

    def moment(self, moment: Moment) -> cp_model.LinearExprT:
        """When a task starts, counted from the start of the period."""
        task, later = moment
        return self.task_start[task] + later * self.period

    def _tasks(self) -> list[cp_model.IntVar]:
        """(2)."""
        starts = [self.model.new_int_var(0, self.horizon, f"task{t}") for t in range(len(self.data.tasks))]
        self.model.add(starts[0] == 0)
        for chain in self.data.chains:
            turns = [*(starts[task] for task in chain), starts[chain[0]] + self.period]
            for task, (one, following) in zip(chain, pairwise(turns), strict=True):
                self.model.add(following >= one + self.data.tasks[task])
        for before, task in self.data.waits:
            self.model.add(starts[task] >= starts[before] + self.data.tasks[before])
        return starts

    def _launch(self, launch: LaunchJobs, name: str) -> LaunchVariables:
        """(1)."""
        latest = 2 * self.horizon
        classes: list[list[JobVariables]] = []
        for c, job in enumerate(launch.jobs):
            jobs = []
            for i in range(job.count):
                mirrored = None if launch.mirrors is None else self.launches[launch.mirrors].classes[c][i].phases[0]
                jobs.append(add_job(self.model, job, latest, f"{name}_job{c}_{i}", mirrored))
            classes.append(jobs)
        return LaunchVariables(self.model.new_int_var(0, latest, f"{name}_ready"), classes)

    def _release(self, launch: LaunchJobs, variables: LaunchVariables) -> None:
        """(3)."""
        released = self.moment(launch.after) + self.data.tasks[launch.after[0]]
        for job in variables.jobs:
            for start in job.phases[0].start.values():
                self.model.add(start >= released)
                for other in launch.after_launches:
                    self.model.add(start >= self.launches[other].ready)

    def _results(self, launch: LaunchJobs, variables: LaunchVariables) -> None:
        """(4)."""
        for job in variables.jobs:
            for k, end in job.phases[-1].end.items():
                self.model.add(variables.ready >= end + int(job.job.phases[-1].lag[k]))
        self.model.add(variables.ready <= self.moment(launch.before))

    def _folded(self) -> dict[int, list[FoldedStage]]:
        """(5) Per resource, the stages in their places."""
        pairs = list(zip(self.data.launches, self.launches, strict=True))
        held = [{k for job in launch.jobs for k in job.resources} for launch, _ in pairs]
        wrapping = set().union(
            *(resources for resources, (launch, _) in zip(held, pairs, strict=True) if launch.may_wrap)
        )
        stages: dict[int, list[FoldedStage]] = {}
        for launch, variables in pairs:
            phases = [pair for job in variables.jobs for pair in zip(job.job.phases, job.phases, strict=True)]
            for data, phase in phases:
                for k in phase.start:
                    resource = data.held(k)
                    stage = fold(self.model, self.period, launch, phase, k)
                    stages.setdefault(resource, []).append(
                        with_copies(self.model, self.period, stage) if resource in wrapping else stage
                    )
        return stages

    def _no_overlap(self) -> None:
        """(6)."""
        for resource, stages in self.stages.items():
            intervals = []
            for stage in stages:
                places = [(stage.folded, stage.folded_end), *([stage.copies] if stage.copies else [])]
                for start, end in places:
                    intervals.append(self.model.new_interval_var(start, stage.duration, end, f"on{resource}"))
            self.model.add_no_overlap(intervals)

    def _loads(self) -> None:
        """(7)."""
        for stages in self.stages.values():
            self.model.add(self.period >= cp_model.LinearExpr.sum([stage.duration for stage in stages]))

    def _windows(self) -> Iterator[PeriodWindow]:
        """(8)."""
        for after, before, members in windows_of(self.data):
            length = self.model.new_int_var(0, 2 * self.horizon, f"window{after}_{before}")
            released = self.moment(after) + self.data.tasks[after[0]]
            self.model.add(length == self.moment(before) - released)
            jobs = [job for m in members for job in self.data.launches[m].jobs]
            counts = [arc_counts(jobs) for m in members for jobs in self.launches[m].classes]
            rows = add_load_bounds(self.model, jobs, counts, length)
            yield PeriodWindow(length, after, before, members, tuple(rows))

    def _symmetry(self) -> None:
        """(9)."""
        for launch, variables in zip(self.data.launches, self.launches, strict=True):
            for jobs in variables.classes if launch.mirrors is None else ():
                begin_in_turn(self.model, jobs, jobs[0].job.machines[0])


@dataclass(frozen=True)
class PeriodVariables:
    """The variables of a period.

    `stages`: by resource.
    """

    period: cp_model.IntVar
    task_start: Sequence[cp_model.IntVar]
    launches: Sequence[LaunchVariables]
    stages: Mapping[int, Sequence[FoldedStage]]
    windows: Sequence[PeriodWindow]


def add_hints(model: cp_model.CpModel, data: PeriodJobs, variables: PeriodVariables, times: PeriodTimes) -> None:
    """Suggest a schedule that is feasible for the integer data, as a value for every variable."""
    model.add_hint(variables.period, times.period)
    for variable, start in zip(variables.task_start, times.tasks, strict=True):
        model.add_hint(variable, start)
    plans = _numbered(data, times)
    starts: dict[int, tuple[int, int]] = {}
    for launch, launch_variables, launch_plans in zip(data.launches, variables.launches, plans, strict=True):
        _hint_launch(model, launch, launch_variables, launch_plans, starts)
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
                [start_on(t, 0, job.machines[0]) for t in plans_of_class]
                for job, plans_of_class in zip(launch.jobs, plans, strict=True)
            ]
            orders.append([sorted(range(len(starts)), key=starts.__getitem__) for starts in first])
    return [
        [[plans_of_class[i] for i in order] for plans_of_class, order in zip(plans, per_class, strict=True)]
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
    for job, jobs, plans_of_class in zip(launch.jobs, variables.classes, plans, strict=True):
        for job_variables, times in zip(jobs, plans_of_class, strict=True):
            mirrors = launch.mirrors is not None
            ready = max(ready, hint_job(model, job, job_variables, times, mirrors))
            for phase, phase_variables, path, at in zip(
                job.phases, job_variables.phases, times.paths, times.starts, strict=True
            ):
                visited = 0
                for machine, start in zip(path, at, strict=True):
                    starts[phase_variables.start[machine].index] = start, int(phase.duration[visited, machine])
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
    window: PeriodWindow,
    times: PeriodTimes,
    plans: list[list[list[JobTimes]]],
) -> None:
    released = times.tasks[window.after[0]] + data.tasks[window.after[0]] + window.after[1] * times.period
    needed = times.tasks[window.before[0]] + window.before[1] * times.period
    model.add_hint(window.length, needed - released)
    inside = [
        (job, job_times)
        for m in window.members
        for job, jobs in zip(data.launches[m].jobs, plans[m], strict=True)
        for job_times in jobs
    ]
    for row in window.rows:
        ends = {job_times.resource_of_end(job, row.at_start) for job, job_times in inside}
        model.add_hint(row.absent, row.resource not in ends)
