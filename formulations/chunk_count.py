r"""Chunk count: jobs of any sizes, whose number is a decision because each costs something whatever its size.

Sets and data
    Job classes :math:`j` with release :math:`r_j`, machines :math:`M_j` and phases q, cut in :math:`n_j \in 1..N_j`
    jobs of any sizes.  A job of the share y of its class holds machine k for :math:`d_{jqe} y + o_{jqk}` on arc
    :math:`e = (V, k)` of phase q, and its result is ready :math:`l_{jqk}` later.  Thresholds r: the distinct releases;
    :math:`J_r` the classes released at r or later, :math:`K_r` their machines.
    Families f of stages on a machine: *all*, those of the *first* phases, and those of the *last* phases (of classes
    with two); :math:`h_{rfk}` and :math:`t_{rfk}`: least time before and after a stage of the family, for a job of no
    size: a whole first phase before *last*, a whole last phase after *first*, and at least a lag after any.
    Head :math:`h_{rk}`: least time from start to result of a first stage on another machine, for a job of no size; tail
    :math:`t_{rk}` likewise of a last stage.

Variables
    - :math:`n_j`, the number of jobs, seldom more than 8 (docs/law.md, section 6);
    - :math:`x_{jqe} \ge 0`, the fraction of class j that takes arc e;
    - :math:`y_{rk}, z_{rk} \in [0, 1]`: no job of :math:`J_r` begins, or ends, on k;
    - :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries one unit of :math:`x` from the empty set to the full one;
    2. *loads*:
       :math:`T \ge r + h_{rfk} + \sum_{(j, q) \in f} (n_j o_{jqk} + \sum_{e: k(e) = k} d_{jqe} x_{jqe}) + t_{rfk}` for
       every threshold r, machine k and family f of :math:`J_r`, where for *all* stages :math:`h_{rfk} = y_{rk} h_{rk}`
       and :math:`z_{rk} t_{rk}` is added to the tail;
    3. *ends*: :math:`\sum_k y_{rk} \ge |K_r| - \sum_{j \in J_r} n_j`, and the same for z;
    4. *chain*: :math:`T \ge r_j +` the cheapest path of a job of the share :math:`1 / n_j`, with all lags.

It bounds every schedule from below: each job has one stage per machine and phase, so a machine is held for :math:`n_j`
times what is fixed; n jobs begin on at most n machines, and where none begins, the first stage waits for one elsewhere;
and the largest job has at least the share :math:`1 / n_j`.

For given :math:`n` (1) to (3) are a linear programme, whose bound is a Lagrangian relaxation of (2) as in
:mod:`formulations.fluid` and valid for any weights.  Without (3) it grows with every :math:`n_j` while (4) falls, so
the least T over all n comes from a bisection: a T is out of reach if the fewest jobs whose chains fit into it have too
large loads.  (3) falls with the number of jobs; it says something of fewer than there are machines, which are looked at
one by one where there is one class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ortools.linear_solver import pywraplp

from formulations.lattice import JobClass, cheapest_path
from formulations.linear import add_unit_flow, optimal_row_weights

PRECISION = 1e-7  # width, as a fraction of the bound, at which the bisection ends
JobCounts = tuple[int, ...]  # jobs of each class
ClassPhase = tuple[int, int]  # class and phase


@dataclass(frozen=True)
class LoadFamily:
    """One constraint of (2): stages on a machine, and what goes before the first and after the last of them.

    `head`, `tail`: h and t of the family, whatever happens.
    `is_all`: whether it holds all stages.
    `waiting`, `following`: what is then added where no job begins, or ends, on the machine.
    """

    threshold: float
    machine: int
    stages: tuple[ClassPhase, ...]
    head: float
    tail: float
    is_all: bool = False
    waiting: float = 0.0
    following: float = 0.0


class ChunkCount:
    """Bounds for given and for all numbers of jobs.

    `jobs`: durations are d, of a whole class and without what is fixed.
    `least`: the same classes as jobs of no size: durations are o, whatever the arc.
    `most`: N, the most jobs of each class.
    """

    def __init__(self, jobs: Sequence[JobClass], least: Sequence[JobClass], most: Sequence[int]) -> None:
        self.jobs, self.least, self.most = jobs, least, most
        self._loads: dict[tuple[JobCounts, bool], float] = {}

    def bound(self, known: float = 0.0) -> float:
        """Lower bound on the makespan whatever the numbers of jobs, at least `known`, which holds as well."""
        if len(self.jobs) > 1:
            return self._bisected(known, (1,) * len(self.jobs))
        many, most = len(self.jobs[0].machines), self.most[0]
        bounds = [self.bound_of((count,)) for count in range(1, min(many, most + 1))]
        if most >= many:
            bounds.append(self._bisected(known, (many,)))
        return max(known, min(bounds))

    def _bisected(self, known: float, least: JobCounts) -> float:
        """The bound without (3), which does not grow with the numbers of jobs, for at least so many jobs."""
        low = max(known, *(self.chain(j, count) for j, count in enumerate(self.most)))
        high = max(low, *(self.chain(j, count) for j, count in enumerate(least)), self.loads(least, ends=False))
        while self._fewest(low, least) != self._fewest(high, least):
            if high - low <= PRECISION * high:
                return low
            middle = (low + high) / 2
            if self.loads(self._fewest(middle, least), ends=False) > middle:
                low = middle
            else:
                high = middle
        return max(low, min(high, self.loads(self._fewest(low, least), ends=False)))

    def bound_of(self, counts: JobCounts) -> float:
        """Lower bound on the makespan of exactly so many jobs."""
        return max(self.loads(counts), *(self.chain(j, count) for j, count in enumerate(counts)))

    def chain(self, number: int, count: int) -> float:
        """(4)."""
        job, least = self.jobs[number], self.least[number]
        layers = job.layers(lambda q, arc: job.phases[q].duration[arc] / count + least.passage(q, arc))
        return job.release + sum(cheapest_path(job.machines, layer) for layer in layers)

    def _fewest(self, makespan: float, least: JobCounts) -> JobCounts:
        """The fewest jobs, of at least so many, whose chains fit into a makespan that the most fit into."""
        counts = []
        for number, (few, most) in enumerate(zip(least, self.most, strict=True)):
            low, high = few - 1, most
            while high - low > 1:
                middle = (low + high) // 2
                if self.chain(number, middle) <= makespan:
                    high = middle
                else:
                    low = middle
            counts.append(high)
        return tuple(counts)

    def loads(self, counts: JobCounts, *, ends: bool = True) -> float:
        """(1) and (2) for so many jobs, and (3) where `ends` says so."""
        if (counts, ends) not in self._loads:
            self._loads[counts, ends] = self._lagrangian(counts, self._weights(counts, ends), ends)
        return self._loads[counts, ends]

    def machine_weights(self, counts: JobCounts) -> dict[int, float]:
        """The weights of the loads of all machines in the linear programme (1) and (2), with sum 1."""
        weights = dict.fromkeys((family.machine for family in self.families), 0.0)
        for family, weight in zip(self.families, self._weights(counts, False), strict=True):
            weights[family.machine] += weight
        return weights

    def few(self, makespan: float) -> JobCounts:
        """The most jobs of each class whose chains are no shorter than a makespan."""
        return tuple(count - 1 for count in self._fewest(makespan, (1,) * len(self.jobs)))

    def proof(self, counts: JobCounts) -> dict[LoadFamily, float]:
        """The weights of (2), without (3), for at least so many jobs."""
        return dict(zip(self.families, self._weights(counts, False), strict=True))

    @cached_property
    def families(self) -> tuple[LoadFamily, ...]:
        """The constraints (2)."""
        families: list[LoadFamily] = []
        for threshold in sorted({job.release for job in self.jobs}):
            users = [j for j, job in enumerate(self.jobs) if job.release >= threshold]
            for k in sorted({k for j in users for k in self.jobs[j].machines}):
                families += self._on_machine(threshold, k, [j for j in users if k in self.jobs[j].machines])
        return tuple(families)

    def _on_machine(self, threshold: float, k: int, users: Sequence[int]) -> list[LoadFamily]:
        least = self.least
        every = tuple((j, q) for j in users for q in range(len(least[j].phases)))
        lag = min(least[j].phases[-1].lag[k] for j in users)
        waiting, following = (min(self._elsewhere(j, phase, k) for j in users) for phase in (0, -1))
        families = [LoadFamily(threshold, k, every, 0.0, lag, True, waiting, following)]
        twice = [j for j in users if len(least[j].phases) > 1]
        if twice:
            after = min(least[j].phases[0].lag[k] + self._whole(j, 1) for j in twice)
            families.append(LoadFamily(threshold, k, tuple((j, 0) for j in twice), 0.0, after))
            before, lag = min(self._whole(j, 0) for j in twice), min(least[j].phases[1].lag[k] for j in twice)
            families.append(LoadFamily(threshold, k, tuple((j, 1) for j in twice), before, lag))
        return families

    def _elsewhere(self, number: int, phase: int, k: int) -> float:
        """Least passage of a stage on another machine, of a job of no size."""
        job = self.least[number]
        return min((job.passage(phase, (0, other)) for other in job.machines if other != k), default=0.0)

    def _whole(self, number: int, phase: int) -> float:
        """Passage of a whole phase of a job of no size."""
        job = self.least[number]
        return sum(job.passage(phase, (0, k)) for k in job.machines)

    def _constant(self, family: LoadFamily, counts: JobCounts) -> float:
        """What does not depend on variables in (2)."""
        fixed = sum(counts[j] * self.least[j].phases[q].duration[0, family.machine] for j, q in family.stages)
        return family.threshold + family.head + fixed + family.tail

    def _num_without_end(self, threshold: float, counts: JobCounts) -> int:
        """Machines on which no job begins, at least: the right side of (3)."""
        users = [j for j, job in enumerate(self.jobs) if job.release >= threshold]
        machines = {k for j in users for k in self.jobs[j].machines}
        return max(len(machines) - sum(counts[j] for j in users), 0)

    def _lagrangian(self, counts: JobCounts, weights: Sequence[float], with_ends: bool) -> float:
        """A bound for any non-negative weights of (2) with sum 1."""
        prices: dict[tuple[ClassPhase, int], float] = {}
        ends: dict[float, tuple[list[float], list[float]]] = {}
        bound = 0.0
        for family, weight in zip(self.families, weights, strict=True):
            bound += weight * self._constant(family, counts)
            for stage in family.stages:
                prices[stage, family.machine] = prices.get((stage, family.machine), 0.0) + weight
            if family.is_all:
                begins, finishes = ends.setdefault(family.threshold, ([], []))
                begins.append(weight * family.waiting)
                finishes.append(weight * family.following)
        for threshold, pair in ends.items():
            number = self._num_without_end(threshold, counts) if with_ends else 0
            bound += sum(sum(sorted(times)[:number]) for times in pair)
        return bound + sum(self._cheapest(j, prices) for j in range(len(self.jobs)))

    def _cheapest(self, number: int, prices: Mapping[tuple[ClassPhase, int], float]) -> float:
        job = self.jobs[number]
        layers = job.layers(lambda q, arc: prices[(number, q), arc[1]] * job.phases[q].duration[arc])
        return sum(cheapest_path(job.machines, layer) for layer in layers)

    def _weights(self, counts: JobCounts, with_ends: bool) -> list[float]:
        """Duals of (2) at the optimum of the linear programme, scaled to sum 1; equal weights if it gives up."""
        programme = _CountProgramme(self.jobs, self.families)
        rows = [programme.add_load(family, self._constant(family, counts)) for family in self.families]
        for threshold in {family.threshold for family in self.families}:
            programme.add_ends(threshold, self._num_without_end(threshold, counts) if with_ends else 0)
        return programme.weights(rows)


class _CountProgramme:
    """The linear programme (1) to (3) for given numbers of jobs."""

    def __init__(self, jobs: Sequence[JobClass], families: Sequence[LoadFamily]) -> None:
        self._jobs = jobs
        self._scale = max(d for job in jobs for phase in job.phases for d in phase.duration.values()) or 1.0
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._makespan = self._solver.NumVar(0, self._solver.infinity(), "makespan")
        self._solver.Minimize(self._makespan)
        self._flow = [[add_unit_flow(self._solver, job, "flow") for _ in job.layers(job.load)] for job in jobs]
        self._ends: dict[tuple[float, str], list[pywraplp.Variable]] = {}

    def add_load(self, family: LoadFamily, constant: float) -> pywraplp.Constraint:
        """(2)."""
        row = self._solver.Constraint(constant / self._scale, self._solver.infinity())
        row.SetCoefficient(self._makespan, 1)
        for j, q in family.stages:
            job = self._jobs[j]
            folded = job.mirrored and q == 1
            flows = self._flow[j][0 if folded else q]
            for arc, duration in job.phases[q].duration.items():
                if arc[1] == family.machine:
                    flow = flows[job.mirror(arc) if folded else arc]
                    row.SetCoefficient(flow, row.GetCoefficient(flow) - duration / self._scale)
        if family.is_all:
            for side, time in (("begin", family.waiting), ("end", family.following)):
                absent = self._solver.NumVar(0, 1, f"no_{side}_{family.machine}")
                self._ends.setdefault((family.threshold, side), []).append(absent)
                row.SetCoefficient(absent, -time / self._scale)
        return row

    def add_ends(self, threshold: float, number: int) -> None:
        """(3)."""
        for side in ("begin", "end"):
            row = self._solver.Constraint(number, self._solver.infinity())
            for absent in self._ends[threshold, side]:
                row.SetCoefficient(absent, 1)

    def weights(self, rows: Sequence[pywraplp.Constraint]) -> list[float]:
        """Duals of (2), scaled to sum 1."""
        weights, _ = optimal_row_weights(self._solver, dict(enumerate(rows)))
        return list(weights.values())
