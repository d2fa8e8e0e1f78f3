r"""Chunk count: jobs of any sizes, whose number is a decision because each costs something whatever its size.

Sets and data
    Job classes :math:`j` with release :math:`r_j`, machines :math:`M_j` and phases q, cut in :math:`n_j \in 1..N_j`
    jobs of any sizes.  A job of the share y of its class holds machine k for :math:`d_{jqe} y + o_{jqk}` on arc
    :math:`e = (V, k)` of phase q, and its result is ready :math:`l_{jqk}` later.  Thresholds r: the distinct releases;
    :math:`J_r` the classes released at r or later, :math:`K_r` their machines.
    Families f of stages on a machine: *all*, those of the *first* phases, and those of the *last* phases (of classes
    with two); :math:`h_{rfk}` and :math:`t_{rfk}`: least time before and after a stage of the family, for a job of no
    size: a whole first phase before *last*, a whole last phase after *first*, and at least a lag after any.

Variables
    - :math:`n_j`, the number of jobs, seldom more than 8 (docs/law.md, section 6);
    - :math:`x_{jqe} \ge 0`, the fraction of class j that takes arc e;
    - :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries one unit of :math:`x` from the empty set to the full one;
    2. *loads*:
       :math:`T \ge r + h_{rfk} + \sum_{(j, q) \in f} (n_j o_{jqk} + \sum_{e: k(e) = k} d_{jqe} x_{jqe}) + t_{rfk}` for
       every threshold r, machine k and family f of :math:`J_r`;
    3. *chain*: :math:`T \ge r_j +` the cheapest path of a job of the share :math:`1 / n_j`, with all lags.

It bounds every schedule from below: each job has one stage per machine and phase, so a machine is held for :math:`n_j`
times what is fixed, and the largest job has at least the share :math:`1 / n_j`.

For given :math:`n` (1) and (2) are a linear programme, whose bound is a Lagrangian relaxation of (2) as in
:mod:`formulations.fluid` and valid for any weights.  It grows with every :math:`n_j` while (3) falls, so the least T
over all n comes from a bisection: a T is out of reach if the fewest jobs whose chains fit into it have too large loads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ortools.linear_solver import pywraplp

from formulations.lattice import JobClass, cheapest_path
from formulations.linear import LoadProgramme, add_unit_flow

PRECISION = 1e-7  # width, as a fraction of the bound, at which the bisection ends
JobCounts = tuple[int, ...]  # jobs of each class
ClassPhase = tuple[int, int]  # class and phase


@dataclass(frozen=True)
class LoadFamily:
    """One constraint of (2): stages on a machine, and what goes before the first and after the last of them.

    `head`, `tail`: h and t of the family.
    """

    threshold: float
    machine: int
    stages: tuple[ClassPhase, ...]
    head: float
    tail: float


class ChunkCount:
    """Bounds for given and for all numbers of jobs.

    `jobs`: durations are d, of a whole class and without what is fixed.
    `least`: the same classes as jobs of no size: durations are o, whatever the arc.
    `most`: N, the most jobs of each class.
    """

    def __init__(self, jobs: Sequence[JobClass], least: Sequence[JobClass], most: Sequence[int]) -> None:
        self.jobs, self.least, self.most = jobs, least, most
        self._loads: dict[JobCounts, float] = {}

    def bound(self, known: float = 0.0) -> float:
        """Lower bound on the makespan whatever the numbers of jobs, at least `known`, which holds as well."""
        least = (1,) * len(self.jobs)
        low = max(known, *(self.chain(j, count) for j, count in enumerate(self.most)))
        high = max(low, *(self.chain(j, count) for j, count in enumerate(least)), self.loads(least))
        while self._fewest(low) != self._fewest(high):
            if high - low <= PRECISION * high:
                return low
            middle = (low + high) / 2
            if self.loads(self._fewest(middle)) > middle:
                low = middle
            else:
                high = middle
        return max(low, min(high, self.loads(self._fewest(low))))

    def bound_of(self, counts: JobCounts) -> float:
        """Lower bound on the makespan of exactly so many jobs."""
        return max(self.loads(counts), *(self.chain(j, count) for j, count in enumerate(counts)))

    def chain(self, number: int, count: int) -> float:
        """(3)."""
        job, least = self.jobs[number], self.least[number]
        layers = job.layers(lambda q, arc: job.phases[q].duration[arc] / count + least.passage(q, arc))
        return job.release + sum(cheapest_path(job.machines, layer) for layer in layers)

    def _fewest(self, makespan: float) -> JobCounts:
        """The fewest jobs whose chains fit into a makespan that the most fit into."""
        counts = []
        for number, most in enumerate(self.most):
            low, high = 0, most
            while high - low > 1:
                middle = (low + high) // 2
                if self.chain(number, middle) <= makespan:
                    high = middle
                else:
                    low = middle
            counts.append(high)
        return tuple(counts)

    def loads(self, counts: JobCounts) -> float:
        """(1) and (2) for so many jobs."""
        if counts not in self._loads:
            self._loads[counts] = self._lagrangian(counts, self._weights(counts))
        return self._loads[counts]

    def machine_weights(self, counts: JobCounts) -> dict[int, float]:
        """The weights of the loads of all machines in the linear programme (1) and (2), with sum 1."""
        weights = dict.fromkeys((family.machine for family in self.families), 0.0)
        for family, weight in zip(self.families, self._weights(counts), strict=True):
            weights[family.machine] += weight
        return weights

    def few(self, makespan: float) -> JobCounts:
        """The most jobs of each class whose chains are no shorter than a makespan."""
        return tuple(count - 1 for count in self._fewest(makespan))

    def proof(self, counts: JobCounts) -> dict[LoadFamily, float]:
        """The weights of (2) for at least so many jobs."""
        return dict(zip(self.families, self._weights(counts), strict=True))

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
        families = [LoadFamily(threshold, k, every, 0.0, lag)]
        twice = [j for j in users if len(least[j].phases) > 1]
        if twice:
            after = min(least[j].phases[0].lag[k] + self._whole(j, 1) for j in twice)
            families.append(LoadFamily(threshold, k, tuple((j, 0) for j in twice), 0.0, after))
            before, lag = min(self._whole(j, 0) for j in twice), min(least[j].phases[1].lag[k] for j in twice)
            families.append(LoadFamily(threshold, k, tuple((j, 1) for j in twice), before, lag))
        return families

    def _whole(self, number: int, phase: int) -> float:
        """Passage of a whole phase of a job of no size."""
        job = self.least[number]
        return sum(job.passage(phase, (0, k)) for k in job.machines)

    def _constant(self, family: LoadFamily, counts: JobCounts) -> float:
        """What does not depend on variables in (2)."""
        fixed = sum(counts[j] * self.least[j].phases[q].duration[0, family.machine] for j, q in family.stages)
        return family.threshold + family.head + fixed + family.tail

    def _lagrangian(self, counts: JobCounts, weights: Sequence[float]) -> float:
        """A bound for any non-negative weights of (2) with sum 1."""
        prices: dict[tuple[ClassPhase, int], float] = {}
        bound = 0.0
        for family, weight in zip(self.families, weights, strict=True):
            bound += weight * self._constant(family, counts)
            for stage in family.stages:
                prices[stage, family.machine] = prices.get((stage, family.machine), 0.0) + weight
        return bound + sum(self._cheapest(j, prices) for j in range(len(self.jobs)))

    def _cheapest(self, number: int, prices: Mapping[tuple[ClassPhase, int], float]) -> float:
        job = self.jobs[number]
        layers = job.layers(lambda q, arc: prices[(number, q), arc[1]] * job.phases[q].duration[arc])
        return sum(cheapest_path(job.machines, layer) for layer in layers)

    def _weights(self, counts: JobCounts) -> list[float]:
        """Duals of (2) at the optimum of the linear programme, scaled to sum 1; equal weights if it gives up."""
        longest = max(d for job in self.jobs for phase in job.phases for d in phase.duration.values())
        programme, rows = LoadProgramme(longest or 1.0), dict[int, pywraplp.Constraint]()
        flows = [[add_unit_flow(programme.solver, job) for _ in job.layers(job.load)] for job in self.jobs]
        for number, family in enumerate(self.families):
            row = rows[number] = programme.row(self._constant(family, counts))
            for j, q in family.stages:
                job = self.jobs[j]
                folded = job.mirrored and q == 1
                for arc, duration in job.phases[q].duration.items():
                    if arc[1] == family.machine:
                        flow = flows[j][0 if folded else q][job.mirror(arc) if folded else arc]
                        programme.load(row, flow, duration)
        return list(programme.weights(rows)[0].values())
