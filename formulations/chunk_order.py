r"""Chunk order: the path of every job and its start times, a constraint programme.

Sets and data
    Jobs :math:`i` of classes :math:`j(i)`, each with machines :math:`M_i`, release :math:`r_i` and phases :math:`q`;
    arc :math:`e = (V, k)` of phase q holds machine k for the integer :math:`d_{iqe}`, its result is ready the integer
    :math:`l_{iqk}` later.  A lower bound L on the makespan and a horizon H.

Variables
    - :math:`x_{iqe} \in \{0, 1\}`, job i takes arc e in phase q;
    - :math:`b_{iqkl} \in \{0, 1\}`, job i visits k before l in phase q (:math:`k < l`);
    - :math:`s_{iqk}`, :math:`p_{iqk}`, :math:`f_{iqk}`, start, duration and end of the stage on k, an interval;
    - :math:`g_i`, when the first phase of job i has all results;
    - :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. *path*: in each phase, one unit of :math:`x` flows from the empty set to the full one;
    2. *order*: :math:`b_{iqkl} = \sum_{V \ni k} x_{iq(V,l)}` and :math:`1 - b_{iqkl} = \sum_{V \ni l} x_{iq(V,k)}`;
    3. *duration*: :math:`p_{iqk} = \sum_V d_{iq(V,k)} x_{iq(V,k)}`;
    4. *precedence*: :math:`b_{iqkl} \Rightarrow s_{iql} \ge f_{iqk} + l_{iqk}`, and the other way round;
    5. *handover*: :math:`s_{i1k} \ge g_i \ge f_{i0l} + l_{i0l}`;
    6. *no overlap*: the intervals of stages that hold one resource are disjoint;
    7. *makespan*: :math:`T \ge f_{iqk} + l_{iqk}` in the last phase;
    8. *loads*: constraints (2) and (3) of :mod:`formulations.order_count` on the sums of :math:`x` per class;
    9. *symmetry*: jobs of one class are numbered by their start on their first machine in the first phase;
    10. *bounds*: :math:`L \le T \le H`.

A mirrored second phase has no variables :math:`x` and :math:`b`: those of the first phase, reversed, stand for them.
(8) and (10) are redundant; they give the solver the bounds it would otherwise take long to find.  The optimum is exact
for the integer data; with durations and lags rounded down it bounds the true makespan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from ortools.sat.python import cp_model

from formulations.cp_sat import SolverProgress, search
from formulations.job_plans import JobPlans, JobTimes, PlanOutcome
from formulations.lattice import Arc, JobClass, arcs
from formulations.limits import Limits
from formulations.order_count import EndRow, add_flow, add_load_bounds

OrderLiterals = dict[tuple[int, int], cp_model.LiteralT]
"""By pair of machines, whether the first is visited before the second."""


@dataclass(frozen=True)
class PhaseVariables:
    """x, b, s, p and f of one phase."""

    taken: Mapping[Arc, cp_model.IntVar]
    before: Mapping[tuple[int, int], cp_model.LiteralT]
    start: Mapping[int, cp_model.IntVar]
    duration: Mapping[int, cp_model.IntVar]
    end: Mapping[int, cp_model.IntVar]


@dataclass(frozen=True)
class JobVariables:
    """The variables of one job; `handover` is g."""

    job: JobClass
    phases: tuple[PhaseVariables, ...]
    handover: cp_model.IntVar


def hint_job(model: cp_model.CpModel, job: JobClass, variables: JobVariables, times: JobTimes) -> int:
    """Suggest a plan for the variables of one job; returns when it has all results."""
    ready = 0
    for number, (phase, path, starts) in enumerate(zip(variables.phases, times.paths, times.starts, strict=True)):
        if number == 1:
            model.add_hint(variables.handover, ready)
        visited, ready = 0, 0
        for machine, start in zip(path, starts, strict=True):
            arc = (visited, machine)
            duration = int(job.phases[number].duration[arc])
            model.add_hint(phase.start[machine], start)
            model.add_hint(phase.duration[machine], duration)
            model.add_hint(phase.end[machine], start + duration)
            ready = max(ready, start + duration + int(job.phases[number].lag[machine]))
            visited |= 1 << machine
        if not (job.mirrored and number):
            _hint_path(model, phase, path)
    if len(variables.phases) == 1:
        model.add_hint(variables.handover, ready)
    return ready


def _hint_path(model: cp_model.CpModel, phase: PhaseVariables, path: tuple[int, ...]) -> None:
    chosen = {(sum(1 << m for m in path[:position]), machine) for position, machine in enumerate(path)}
    for arc, taken in phase.taken.items():
        model.add_hint(taken, arc in chosen)
    for (k, m), before in phase.before.items():
        if k < m:
            model.add_hint(before, path.index(k) < path.index(m))


def extracted(job: JobVariables, value: Mapping[int, int]) -> JobTimes:
    """The plan of one job in a solution, given the values by variable index."""
    paths, starts = [], []
    for phase in job.phases:
        by_count = sorted((arc[0].bit_count(), arc[1]) for arc, x in phase.taken.items() if value[x.index])
        path = tuple(machine for _, machine in by_count)
        paths.append(path)
        starts.append(tuple(value[phase.start[machine].index] for machine in path))
    return JobTimes(tuple(paths), tuple(starts))


def arc_counts(jobs: Sequence[JobVariables]) -> list[Mapping[Arc, cp_model.LinearExprT]]:
    """How many jobs of a class take each arc, per independent phase."""
    one = jobs[0].job
    return [
        {arc: cp_model.LinearExpr.sum([v.phases[q].taken[arc] for v in jobs]) for arc in arcs(one.machines)}
        for q in range(one.num_layers)
    ]


def add_job(model: cp_model.CpModel, job: JobClass, latest: int, name: str) -> JobVariables:
    """Add one job to a model, of which no stage ends later than `latest`; its variables have names that begin alike."""
    phases: list[PhaseVariables] = []
    for number in range(len(job.phases)):
        mirror = phases[0] if job.mirrored and number else None
        phases.append(_phase(model, job, number, latest, f"{name}_phase{number}", mirror))
    handover = model.new_int_var(int(job.release), latest, f"{name}_handover")
    for k in job.machines:  # (5)
        model.add(handover >= phases[0].end[k] + int(job.phases[0].lag[k]))
        for later in phases[1:]:
            model.add(later.start[k] >= handover)
    return JobVariables(job, tuple(phases), handover)


def _phase(
    model: cp_model.CpModel, job: JobClass, number: int, latest: int, name: str, mirror: PhaseVariables | None
) -> PhaseVariables:
    taken, before = _path(model, job, name, mirror)
    phase = PhaseVariables(taken, before, *_intervals(model, job, number, latest, name))
    _durations(model, job, number, phase)
    _precedence(model, job, number, phase)
    return phase


def _path(
    model: cp_model.CpModel, job: JobClass, name: str, mirror: PhaseVariables | None
) -> tuple[Mapping[Arc, cp_model.IntVar], Mapping[tuple[int, int], cp_model.LiteralT]]:
    """(1) and (2): x and b of one phase, or those of the first one, reversed."""
    if mirror is not None:
        taken = {job.mirror(arc): variable for arc, variable in mirror.taken.items()}
        return taken, {(m, k): literal for (k, m), literal in mirror.before.items()}
    taken = {arc: model.new_bool_var(f"{name}_arc{arc[0]:b}_{arc[1]}") for arc in arcs(job.machines)}
    add_flow(model, replace(job, count=1), taken)
    return taken, _order(model, job, taken, name)


def _order(model: cp_model.CpModel, job: JobClass, taken: Mapping[Arc, cp_model.IntVar], name: str) -> OrderLiterals:
    """(2)."""
    before: OrderLiterals = {}
    for k, m in combinations(sorted(job.machines), 2):
        first = model.new_bool_var(f"{name}_before{k}_{m}")
        model.add(sum(x for (visited, at), x in taken.items() if at == m and visited >> k & 1) == first)
        model.add(sum(x for (visited, at), x in taken.items() if at == k and visited >> m & 1) == 1 - first)
        before[k, m], before[m, k] = first, ~first
    return before


def _intervals(
    model: cp_model.CpModel, job: JobClass, number: int, latest: int, name: str
) -> tuple[dict[int, cp_model.IntVar], dict[int, cp_model.IntVar], dict[int, cp_model.IntVar]]:
    start, duration, end = {}, {}, {}
    for k in job.machines:
        choices = sorted({int(d) for (_, at), d in job.phases[number].duration.items() if at == k})
        domain = cp_model.Domain.from_values(choices)
        start[k] = model.new_int_var(int(job.release), latest, f"{name}_start{k}")
        duration[k] = model.new_int_var_from_domain(domain, f"{name}_duration{k}")
        end[k] = model.new_int_var(int(job.release), latest, f"{name}_end{k}")
    return start, duration, end


def _durations(model: cp_model.CpModel, job: JobClass, number: int, phase: PhaseVariables) -> None:
    """(3)."""
    for k in job.machines:
        choices = [(int(d), phase.taken[arc]) for arc, d in job.phases[number].duration.items() if arc[1] == k]
        model.add(phase.duration[k] == sum(d * taken for d, taken in choices))


def _precedence(model: cp_model.CpModel, job: JobClass, number: int, phase: PhaseVariables) -> None:
    """(4)."""
    for (k, m), before in phase.before.items():
        lag = int(job.phases[number].lag[k])
        model.add(phase.start[m] >= phase.end[k] + lag).only_enforce_if(before)


class ChunkOrder:
    """The model for some job classes.

    `jobs`: with integer durations, lags and releases.
    `horizon`: an upper bound on the makespan of some feasible schedule.
    `lower_bound`: a proven lower bound.
    """

    def __init__(self, jobs: Sequence[JobClass], horizon: int, lower_bound: int = 0) -> None:
        self.jobs = jobs
        self.model = cp_model.CpModel()
        self.model.name = "chunk order"
        self.horizon, self.lower_bound = horizon, lower_bound
        self.makespan = self.model.new_int_var(lower_bound, horizon, "makespan")
        self.variables = [[self._job(job, f"job{j}_{i}") for i in range(job.count)] for j, job in enumerate(jobs)]
        self._no_overlap()
        self._end_rows = self._loads()
        self._symmetry()
        self.model.minimize(self.makespan)

    def solve(self, limits: Limits, report: SolverProgress) -> PlanOutcome:
        """Search within limits; `report` hears of every better solution and bound."""
        phases = [phase for jobs in self.variables for job in jobs for phase in job.phases]
        held = [variable for phase in phases for variable in (*phase.taken.values(), *phase.start.values())]
        # A relaxation of these rules says less than the loads of (8), and takes most of the time.
        outcome = search(self.model, held, limits, report, propagates=True)
        bound = max(self.lower_bound, int(outcome.bound))
        if outcome.value is None:
            return PlanOutcome(None, bound, outcome.status, outcome.work)
        jobs = [[extracted(job, outcome.value) for job in of_class] for of_class in self.variables]
        return PlanOutcome(jobs, bound, outcome.status, outcome.work)

    def hint(self, plans: JobPlans) -> None:
        """Suggest a plan that is feasible for the integer data, as a value for every variable."""
        finish = 0
        for job, jobs_of_class, times in zip(self.jobs, self.variables, plans, strict=True):
            numbered = sorted(times, key=lambda t: t.starts[0][t.paths[0].index(job.machines[0])])
            for variables, job_times in zip(jobs_of_class, numbered, strict=True):
                finish = max(finish, hint_job(self.model, job, variables, job_times))
        self.model.add_hint(self.makespan, min(max(finish, self.lower_bound), self.horizon))
        for row in self._end_rows:
            self.model.add_hint(row.absent, not self._touches(row, plans))

    def _touches(self, row: EndRow, plans: JobPlans) -> bool:
        """Whether a job that the row counts starts (or ends) on its resource."""
        end = 0 if row.at_start else -1
        return any(
            job.phases[end].held(times.paths[end][end]) == row.resource
            for job, plans_of_class in zip(self.jobs, plans, strict=True)
            if job.release >= row.threshold
            for times in plans_of_class
        )

    def _job(self, job: JobClass, name: str) -> JobVariables:
        """A job, with (7)."""
        variables = add_job(self.model, job, self.horizon, name)
        for k, end in variables.phases[-1].end.items():
            self.model.add(self.makespan >= end + int(job.phases[-1].lag[k]))
        return variables

    def _no_overlap(self) -> None:
        """(6)."""
        intervals: dict[int, list[cp_model.IntervalVar]] = {}
        for jobs in self.variables:
            for variables in jobs:
                for phase, data in zip(variables.phases, variables.job.phases, strict=True):
                    for k, start in phase.start.items():
                        interval = self.model.new_interval_var(start, phase.duration[k], phase.end[k], f"on{k}")
                        intervals.setdefault(data.held(k), []).append(interval)
        for on_resource in intervals.values():
            self.model.add_no_overlap(on_resource)

    def _loads(self) -> list[EndRow]:
        """(8)."""
        return add_load_bounds(self.model, self.jobs, [arc_counts(jobs) for jobs in self.variables], self.makespan)

    def _symmetry(self) -> None:
        """(9)."""
        for job, jobs in zip(self.jobs, self.variables, strict=True):
            for one, following in pairwise(jobs):
                first = job.machines[0]
                self.model.add(one.phases[0].start[first] <= following.phases[0].start[first])
