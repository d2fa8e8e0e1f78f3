r"""Chunk order: the path of every job and its start times, a constraint programme.

Sets and data
    Jobs :math:`i` of classes :math:`j(i)`, each with machines :math:`M_i`, release :math:`r_i` and legs :math:`q`; arc
    :math:`e = (V, k)` of leg q holds machine k for the integer :math:`d_{iqe}`, its result is ready the integer
    :math:`l_{iqk}` later.  A lower bound L on the makespan and a horizon H.

Variables
    - :math:`x_{iqe} \in \{0, 1\}`, job i takes arc e in leg q;
    - :math:`b_{iqkl} \in \{0, 1\}`, job i visits k before l in leg q (:math:`k < l`);
    - :math:`s_{iqk}`, :math:`p_{iqk}`, :math:`f_{iqk}`, start, duration and end of the stage on k, an interval;
    - :math:`g_i`, when the first leg of job i has all results;
    - :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. *path*: in each leg, one unit of :math:`x` flows from the empty set to the full one;
    2. *order*: :math:`b_{iqkl} = \sum_{V \ni k} x_{iq(V,l)}` and :math:`1 - b_{iqkl} = \sum_{V \ni l} x_{iq(V,k)}`;
    3. *duration*: :math:`p_{iqk} = \sum_V d_{iq(V,k)} x_{iq(V,k)}`;
    4. *precedence*: :math:`b_{iqkl} \Rightarrow s_{iql} \ge f_{iqk} + l_{iqk}`, and the other way round;
    5. *handover*: :math:`s_{i1k} \ge g_i \ge f_{i0l} + l_{i0l}`;
    6. *no overlap*: the intervals on one machine are disjoint;
    7. *makespan*: :math:`T \ge f_{iqk} + l_{iqk}` in the last leg;
    8. *loads*: constraints (2) and (3) of :mod:`formulations.order_count` on the sums of :math:`x` per class;
    9. *symmetry*: jobs of one class are numbered by their start on their first machine in the first leg;
    10. *bounds*: :math:`L \le T \le H`.

A mirrored second leg has no variables :math:`x` and :math:`b` of its own: those of the first leg, reversed, stand for
them.  (8) and (10) are redundant; they give the solver the bounds it would otherwise take long to find.  The
optimum is exact for the integer data; with durations and lags rounded down it bounds the true makespan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from ortools.sat.python import cp_model

from formulations.budget import Budget
from formulations.job_plans import JobPlans, PlanOutcome, start_on
from formulations.job_variables import JobVariables, LegVariables, decisions, extracted, hint_job
from formulations.lattice import Arc, JobClass, arcs
from formulations.order_count import EndRow, add_flow, add_load_bounds
from formulations.search import Report, search

SMALL = 100
"""Stages up to which the solver's linear relaxation holds the whole model."""


class ChunkOrder:
    """The model for some job classes.

    Parameters
    ----------
    jobs : sequence of JobClass
        With integer durations, lags and releases.
    horizon : int
        An upper bound on the makespan of some feasible schedule.
    lower_bound : int
        A proven lower bound.
    """

    def __init__(self, jobs: Sequence[JobClass], horizon: int, lower_bound: int = 0) -> None:
        self.jobs = jobs
        self.model = cp_model.CpModel()
        self.horizon, self.lower_bound = horizon, lower_bound
        self.makespan = self.model.new_int_var(lower_bound, horizon, "makespan")
        self.variables = [[self._job(job, f"job{j}_{i}") for i in range(job.count)] for j, job in enumerate(jobs)]
        self._no_overlap()
        self._end_rows = self._loads()
        self._symmetry()
        self.model.minimize(self.makespan)

    def solve(self, budget: Budget, report: Report) -> PlanOutcome:
        """Search within a budget; `report` hears of every better solution and bound."""
        variables = sorted(
            {v.index: v for own in self.variables for job in own for v in decisions(job)}.values(),
            key=lambda v: v.index,
        )
        small = sum(job.count * len(job.legs) * len(job.machines) for job in self.jobs) <= SMALL
        outcome = search(self.model, variables, budget, report, linearization=2 if small else 1)
        bound = max(self.lower_bound, int(outcome.bound))
        if outcome.values is None:
            return PlanOutcome(None, bound, outcome.status, outcome.work)
        value = {v.index: x for v, x in zip(variables, outcome.values, strict=True)}
        jobs = [[extracted(job, value) for job in own] for own in self.variables]
        return PlanOutcome(jobs, bound, outcome.status, outcome.work)

    def hint(self, plans: JobPlans) -> None:
        """Suggest a plan that is feasible for the integer data, as a value for every variable."""
        finish = 0
        for job, own, times in zip(self.jobs, self.variables, plans, strict=True):
            numbered = sorted(times, key=lambda t: start_on(t, 0, job.machines[0]))
            for variables, job_times in zip(own, numbered, strict=True):
                finish = max(finish, hint_job(self.model, job, variables, job_times))
        self.model.add_hint(self.makespan, min(max(finish, self.lower_bound), self.horizon))
        for row in self._end_rows:
            self.model.add_hint(row.absent, not self._touches(row, plans))

    def _touches(self, row: EndRow, plans: JobPlans) -> bool:
        """Whether a job that the row counts starts (or ends) on its machine."""
        return any(
            (times.paths[0][0] if row.at_start else times.paths[-1][-1]) == row.machine
            for job, own in zip(self.jobs, plans, strict=True)
            if job.release >= row.threshold
            for times in own
        )

    def _job(self, job: JobClass, name: str) -> JobVariables:
        legs: list[LegVariables] = []
        for number in range(len(job.legs)):
            mirror = legs[0] if job.mirrored and number == 1 else None
            legs.append(self._leg(job, number, f"{name}_leg{number}", mirror))
        handover = self.model.new_int_var(int(job.release), self.horizon, f"{name}_handover")
        self._handover(job, legs, handover)
        self._finish(job, legs[-1])
        return JobVariables(job, tuple(legs), handover)

    def _leg(self, job: JobClass, number: int, name: str, mirror: LegVariables | None) -> LegVariables:
        if mirror is None:
            taken = {arc: self.model.new_bool_var(f"{name}_arc{arc[0]:b}_{arc[1]}") for arc in arcs(job.machines)}
            add_flow(self.model, replace(job, count=1), taken)
            before = self._order(job, taken, name)
        else:
            taken = {job.mirror(arc): variable for arc, variable in mirror.taken.items()}
            before = {(m, k): literal for (k, m), literal in mirror.before.items()}
        start, duration, end = self._intervals(job, number, name)
        leg = LegVariables(taken, before, start, duration, end)
        self._durations(job, number, leg)
        self._precedence(job, number, leg)
        return leg

    def _order(
        self, job: JobClass, taken: Mapping[Arc, cp_model.IntVar], name: str
    ) -> dict[tuple[int, int], cp_model.LiteralT]:
        """(2)."""
        before: dict[tuple[int, int], cp_model.LiteralT] = {}
        for k, m in combinations(sorted(job.machines), 2):
            first = self.model.new_bool_var(f"{name}_before{k}_{m}")
            self.model.add(sum(x for (visited, at), x in taken.items() if at == m and visited >> k & 1) == first)
            self.model.add(sum(x for (visited, at), x in taken.items() if at == k and visited >> m & 1) == 1 - first)
            before[k, m], before[m, k] = first, ~first
        return before

    def _intervals(
        self, job: JobClass, number: int, name: str
    ) -> tuple[dict[int, cp_model.IntVar], dict[int, cp_model.IntVar], dict[int, cp_model.IntVar]]:
        start, duration, end = {}, {}, {}
        for k in job.machines:
            choices = sorted({int(d) for (_, at), d in job.legs[number].duration.items() if at == k})
            domain = cp_model.Domain.from_values(choices)
            start[k] = self.model.new_int_var(int(job.release), self.horizon, f"{name}_start{k}")
            duration[k] = self.model.new_int_var_from_domain(domain, f"{name}_duration{k}")
            end[k] = self.model.new_int_var(int(job.release), self.horizon, f"{name}_end{k}")
        return start, duration, end

    def _durations(self, job: JobClass, number: int, leg: LegVariables) -> None:
        """(3)."""
        for k in job.machines:
            choices = [(int(d), leg.taken[arc]) for arc, d in job.legs[number].duration.items() if arc[1] == k]
            self.model.add(leg.duration[k] == sum(d * taken for d, taken in choices))

    def _precedence(self, job: JobClass, number: int, leg: LegVariables) -> None:
        """(4)."""
        for (k, m), before in leg.before.items():
            lag = int(job.legs[number].lag[k])
            self.model.add(leg.start[m] >= leg.end[k] + lag).only_enforce_if(before)

    def _handover(self, job: JobClass, legs: Sequence[LegVariables], handover: cp_model.IntVar) -> None:
        """(5)."""
        for k in job.machines:
            self.model.add(handover >= legs[0].end[k] + int(job.legs[0].lag[k]))
            for later in legs[1:]:
                self.model.add(later.start[k] >= handover)

    def _finish(self, job: JobClass, leg: LegVariables) -> None:
        """(7)."""
        for k in job.machines:
            self.model.add(self.makespan >= leg.end[k] + int(job.legs[-1].lag[k]))

    def _no_overlap(self) -> None:
        """(6)."""
        intervals: dict[int, list[cp_model.IntervalVar]] = {}
        for own in self.variables:
            for variables in own:
                for leg in variables.legs:
                    for k, start in leg.start.items():
                        interval = self.model.new_interval_var(start, leg.duration[k], leg.end[k], f"on{k}")
                        intervals.setdefault(k, []).append(interval)
        for on_machine in intervals.values():
            self.model.add_no_overlap(on_machine)

    def _loads(self) -> list[EndRow]:
        """(8)."""
        counts = []
        for job, own in zip(self.jobs, self.variables, strict=True):
            num_layers = len(job.layers(job.load))
            counts.append(
                [
                    {arc: cp_model.LinearExpr.sum([v.legs[q].taken[arc] for v in own]) for arc in arcs(job.machines)}
                    for q in range(num_layers)
                ]
            )
        return add_load_bounds(self.model, self.jobs, counts, self.makespan)

    def _symmetry(self) -> None:
        """(9)."""
        for job, own in zip(self.jobs, self.variables, strict=True):
            for one, following in pairwise(own):
                first = job.machines[0]
                self.model.add(one.legs[0].start[first] <= following.legs[0].start[first])
