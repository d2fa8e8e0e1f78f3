r"""Order counts: how many equal jobs take each arc, an integer flow.

Sets and data
    Job classes :math:`j` of :math:`C_j` equal jobs with release :math:`r_j`; arc :math:`e` of layer :math:`q`
    holds resource k for the integer :math:`d_{jqek}`.  Thresholds r: the distinct releases.
    Least lag :math:`a_{rk}` on resource k of the classes released at or after r.  Head :math:`h_{rk}`:
    least time from start to result of a *first* stage on another resource, over those classes that hold k;
    tail :math:`t_{rk}` likewise of a *last* stage.

Variables
    :math:`x_{jqe} \in \{0..C_j\}`, jobs of class j that take arc e; :math:`y_{rk}` = 1 if none of them starts on k,
    :math:`z_{rk}` = 1 if none of them ends on k; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries :math:`C_j` units of flow from the empty set to the full one;
    2. :math:`y_{rk} + \sum` (flow on first arcs of k) :math:`\ge 1`, and the same for :math:`z_{rk}` and last arcs;
    3. :math:`T \ge r + h_{rk} y_{rk} + \sum d_{jqek} x_{jqe} + a_{rk} + t_{rk} z_{rk}`, the sum over classes
       released at or after r and all arcs.

It bounds every schedule of equal jobs from below: where no job starts on a resource, its first stage there waits
for a first stage elsewhere, and where none ends there, a last stage elsewhere follows its last stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from formulations.fluid import least_lag, rows
from formulations.lattice import Arc, JobClass
from formulations.limits import Limits

ArcCounts = Sequence[Sequence[Mapping[Arc, cp_model.LinearExprT]]]  # per class and layer, how many jobs take each arc


@dataclass(frozen=True)
class EndRow:
    """An indicator of (2): `absent` = 1 if no job released at or after `threshold` starts (or ends) on `resource`."""

    absent: cp_model.IntVar
    threshold: float
    resource: int
    at_start: bool


@dataclass(frozen=True)
class _ResourceEnds:
    """Data of one row of (3): expressions for jobs that start and end on the resource, head and tail."""

    starting: cp_model.LinearExprT
    ending: cp_model.LinearExprT
    head: int
    tail: int


def order_count_bound(jobs: Sequence[JobClass], limits: Limits) -> int:
    """Lower bound on the makespan of equal jobs with integer durations, in their unit."""
    model = cp_model.CpModel()
    model.name = "order count"
    counts = [
        [
            {arc: model.new_int_var(0, job.count, f"count_{j}_{q}_{arc[0]:b}_{arc[1]}") for arc in layer}
            for q, layer in enumerate(job.layers(job.load))
        ]
        for j, job in enumerate(jobs)
    ]
    for job, layers in zip(jobs, counts, strict=True):
        for layer in layers:
            add_flow(model, job, layer)
    horizon = sum(job.count * _longest(job) for job in jobs) + max(int(job.release) for job in jobs)
    makespan = model.new_int_var(0, horizon, "makespan")
    add_load_bounds(model, jobs, counts, makespan)
    model.minimize(makespan)
    solver = limits.solver()
    solver.parameters.symmetry_level = 0  # with it some bounds rise by a tick at each step
    solver.solve(model)
    return int(solver.best_objective_bound)


def _longest(job: JobClass) -> int:
    return (
        int(sum(max(phase.duration.values()) + max(phase.lag.values()) for phase in job.phases)) * len(job.machines) * 2
    )


def add_flow(model: cp_model.CpModel, job: JobClass, layer: Mapping[Arc, cp_model.LinearExprT]) -> None:
    """(1) `count` units flow from the empty set to the full one."""
    balance: dict[int, list[cp_model.LinearExprT]] = {}
    for (visited, machine), flow in layer.items():
        balance.setdefault(visited, []).append(-flow)
        balance.setdefault(visited | 1 << machine, []).append(flow)
    for node, flows in balance.items():
        supply = (node == job.everything) - (node == 0)
        model.add(sum(flows) == supply * job.count)


def add_load_bounds(
    model: cp_model.CpModel, jobs: Sequence[JobClass], counts: ArcCounts, makespan: cp_model.IntVar
) -> list[EndRow]:
    """(2) and (3) for every threshold and resource; returns the indicators."""
    indicators = []
    for threshold, k in rows(jobs):
        chosen = [i for i, job in enumerate(jobs) if job.release >= threshold and k in job.resources]
        users, used = [jobs[i] for i in chosen], [counts[i] for i in chosen]
        ends = _ends(users, used, k)
        no_start = model.new_bool_var(f"none_starts_{threshold}_{k}")
        no_end = model.new_bool_var(f"none_ends_{threshold}_{k}")
        model.add(ends.starting + no_start >= 1)
        model.add(ends.ending + no_end >= 1)
        lag = int(least_lag(users, threshold, k))
        load = _load(users, used, k)
        model.add(makespan >= int(threshold) + ends.head * no_start + load + lag + ends.tail * no_end)
        indicators += [EndRow(no_start, threshold, k, True), EndRow(no_end, threshold, k, False)]
    return indicators


def _load(users: Sequence[JobClass], counts: ArcCounts, resource: int) -> cp_model.LinearExprT:
    terms = [
        int(duration) * layer[arc]
        for job, layers in zip(users, counts, strict=True)
        for durations, layer in zip(job.loads()[resource], layers, strict=True)
        for arc, duration in durations.items()
    ]
    return cp_model.LinearExpr.sum(terms)


def _ends(users: Sequence[JobClass], counts: ArcCounts, resource: int) -> _ResourceEnds:
    starting, ending, heads, tails = [], [], [], []
    for job, layers in zip(users, counts, strict=True):
        for k in job.machines:
            first = layers[0][0, k]  # jobs whose first stage is on the machine
            last = first if job.mirrored else layers[-1][job.last_arc(k)]
            if job.phases[0].held(k) == resource:
                starting.append(first)
            else:
                heads.append(job.passage(0, (0, k)))
            if job.phases[-1].held(k) == resource:
                ending.append(last)
            else:
                tails.append(job.passage(-1, job.last_arc(k)))
    whole = cp_model.LinearExpr.sum
    return _ResourceEnds(whole(starting), whole(ending), int(min(heads, default=0)), int(min(tails, default=0)))
