r"""Sized order: whether an exact number of jobs of any sizes fits into a horizon, a constraint programme.

Sets and data
    As in :mod:`formulations.chunk_count`: classes :math:`j`, here of exactly :math:`n_j` jobs i; a job of the share y
    of its class holds machine k for :math:`d_{jqe} y + o_{jqk}` on arc :math:`e = (V, k)` of phase q, its result is
    ready :math:`l_{jqk}` later.  A horizon H, all times in ticks, and a number U of units of size.

Variables
    - :math:`Y_i \in 0..U`, units of size; :math:`x_{iqe} \in \{0, 1\}`, job i takes arc e in phase q, with
      :math:`Z_{iqe} \in 0..U` units; :math:`b_{iqkl}`, job i visits k before l in phase q;
    - :math:`s_{iqk}, p_{iqk}, f_{iqk} \in 0..H`, start, duration and end of the stage on k, an interval;
    - :math:`g_i`, when the first phase of job i has all results.

Constraints
    1. *sizes*: :math:`U - n_j + 1 \le \sum_{i \in j} Y_i \le U`, and :math:`Y_i \ge Y_{i+1}` within a class;
    2. *path*: in each phase, one unit of :math:`x` and :math:`Y_i` units of :math:`Z \le U x` flow from the empty set
       to the full one;
    3. *order*: :math:`b` as in :mod:`formulations.chunk_order`;
    4. *duration*: :math:`U (p_{iqk} - \lfloor o \rfloor) \ge \sum_V \lfloor d_{(V,k)} \rfloor Z_{iq(V,k)} - U + 1`;
    5. *precedence* and *handover* as in :mod:`formulations.chunk_order`, with :math:`\lfloor l \rfloor`;
    6. *no overlap*: the intervals on one machine are disjoint;
    7. *makespan*: :math:`H \ge f_{iqk} + \lfloor l_{iqk} \rfloor` in the last phase;
    8. *chain*: :math:`r + \sum_{q, k} (p_{iqk} + \lfloor l_{iqk} \rfloor) \le H` for every job;
    9. *loads*: :math:`\sum_{i, q} p_{iqk}` on every machine is at most H less the earliest release and the least last
       lag.

Every schedule of exactly these numbers of jobs with a makespan of at most H ticks fulfils it, with every time rounded
down and :math:`Y_i = \lfloor U y_i \rfloor` for shares that fall:
:math:`\lfloor a + b \rfloor \ge \lfloor a \rfloor + \lfloor b \rfloor`, and each floor of a size loses less than a
unit.  So **if it has no solution, the makespan of exactly these numbers of jobs is more than H**.  A solution is a plan
whose times and sizes are for others to make exact.  (8) and (9) are redundant.  There is no objective: CP-SAT refutes a
horizon that it cannot reach as the bound of a minimisation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Event

from ortools.sat.python import cp_model

from formulations.cp_sat import search
from formulations.job_model import (
    JobVariables,
    PhaseVariables,
    add_handover,
    add_path,
    add_precedence,
    decisions,
    extracted,
)
from formulations.job_plans import JobPlans
from formulations.lattice import Arc, JobClass
from formulations.limits import SECONDS_PER_WORK, Limits


@dataclass(frozen=True)
class SizedOutcome:
    """What is known of a horizon.

    Attributes
    ----------
    status : str
        ``infeasible`` if it is proven too short, ``optimal`` or ``feasible`` with a plan, ``interrupted`` or
        ``unknown``.
    jobs : JobPlans or None
        Paths and starts in ticks.
    shares : sequence of sequence of float, or None
        Per class, the shares of the jobs.
    work : float
        Deterministic time of the solver.
    """

    status: str
    jobs: JobPlans | None
    shares: Sequence[Sequence[float]] | None
    work: float


class SizedOrder:
    """The model for a horizon.

    Parameters
    ----------
    jobs, least : sequence of JobClass
        As of :class:`formulations.chunk_count.ChunkCount`; `count` of the first is the number of jobs.
    horizon : number
        In the unit of the durations.
    resolution : int
        Ticks of the horizon.
    units : int
        Units of size of each class.
    """

    def __init__(
        self,
        jobs: Sequence[JobClass],
        least: Sequence[JobClass],
        horizon: float,
        resolution: int,
        units: int,
    ) -> None:
        self._tick = horizon / resolution
        self._horizon, self._units = resolution, units
        self._rates = [self._in_ticks(job) for job in jobs]
        self._fixed = [self._in_ticks(job) for job in least]
        self.model = cp_model.CpModel()
        self.model.name = "sized order"
        self._sizes: list[list[cp_model.IntVar]] = []
        self._jobs: list[list[JobVariables]] = []
        for j, job in enumerate(self._rates):
            self._add_sizes(j, job.count)
            self._jobs.append([self._add_job(j, i) for i in range(job.count)])
        self._no_overlap()
        self._add_loads()

    def solve(self, limits: Limits, stop: Event | None = None) -> SizedOutcome:
        """Search for a solution, or for the proof that there is none, within limits or until `stop` is set."""
        held = [v for sizes in self._sizes for v in sizes]
        held += [v for jobs in self._jobs for job in jobs for v in decisions(job)]
        variables = list({v.index: v for v in held}.values())
        outcome = search(
            self.model,
            variables,
            limits,
            lambda objective, bound: None,
            pace=SECONDS_PER_WORK["sized_order"],
            stop=stop,
        )
        if outcome.values is None:
            return SizedOutcome(outcome.status, None, None, outcome.work)
        value = {v.index: x for v, x in zip(variables, outcome.values, strict=True)}
        jobs = [[extracted(job, value) for job in jobs_of_class] for jobs_of_class in self._jobs]
        shares = [[value[size.index] / self._units for size in sizes] for sizes in self._sizes]
        return SizedOutcome(outcome.status, jobs, shares, outcome.work)

    def _in_ticks(self, job: JobClass) -> JobClass:
        """The class with whole ticks: never longer than it is."""
        phases = tuple(
            replace(
                phase,
                duration={arc: int(duration / self._tick) for arc, duration in phase.duration.items()},
                lag={k: int(lag / self._tick) for k, lag in phase.lag.items()},
            )
            for phase in job.phases
        )
        return replace(job, phases=phases, release=int(job.release / self._tick))

    def _add_sizes(self, j: int, count: int) -> None:
        """(1)."""
        sizes = [self.model.new_int_var(0, self._units, f"size{j}_{i}") for i in range(count)]
        self.model.add_linear_constraint(sum(sizes), self._units - count + 1, self._units)
        for larger, smaller in pairwise(sizes):
            self.model.add(larger >= smaller)
        self._sizes.append(sizes)

    def _add_job(self, j: int, i: int) -> JobVariables:
        job, name = self._fixed[j], f"job{j}_{i}"
        phases: list[PhaseVariables] = []
        for number in range(len(job.phases)):
            mirror = phases[0] if job.mirrored and number == 1 else None
            phases.append(self._add_phase(j, i, number, mirror, f"{name}_phase{number}"))
        handover = self.model.new_int_var(int(job.release), self._horizon, f"{name}_handover")
        add_handover(self.model, job, phases, handover)
        for k, end in phases[-1].end.items():
            self.model.add(end + int(job.phases[-1].lag[k]) <= self._horizon)  # (7)
        self._add_chain(job, phases)
        return JobVariables(job, tuple(phases), handover)

    def _add_chain(self, job: JobClass, phases: Sequence[PhaseVariables]) -> None:
        """(8)."""
        held = sum(duration for phase in phases for duration in phase.duration.values())
        lags = sum(int(lag) for phase in job.phases for lag in phase.lag.values())
        self.model.add(int(job.release) + held + lags <= self._horizon)

    def _add_phase(self, j: int, i: int, number: int, mirror: PhaseVariables | None, name: str) -> PhaseVariables:
        job = self._fixed[j]
        taken, before = add_path(self.model, job, name, mirror)
        sent = self._add_units(job, self._sizes[j][i], taken, name)
        start, duration, end = {}, {}, {}
        for k in job.machines:
            start[k] = self.model.new_int_var(int(job.release), self._horizon, f"{name}_start{k}")
            duration[k] = self.model.new_int_var(0, self._horizon, f"{name}_duration{k}")
            end[k] = self.model.new_int_var(int(job.release), self._horizon, f"{name}_end{k}")
            self._add_duration(j, number, k, sent, duration[k])
        phase = PhaseVariables(taken, before, start, duration, end)
        add_precedence(self.model, job, number, phase)
        return phase

    def _add_units(
        self, job: JobClass, size: cp_model.IntVar, taken: Mapping[Arc, cp_model.IntVar], name: str
    ) -> dict[Arc, cp_model.IntVar]:
        """(2), the units."""
        sent: dict[Arc, cp_model.IntVar] = {}
        balance: dict[int, list[cp_model.LinearExprT]] = {}
        for (visited, k), x in taken.items():
            units = self.model.new_int_var(0, self._units, f"{name}_units{visited:b}_{k}")
            self.model.add(units <= self._units * x)
            balance.setdefault(visited, []).append(-units)
            balance.setdefault(visited | 1 << k, []).append(units)
            sent[visited, k] = units
        for node, flows in balance.items():
            supply = (node == job.everything) - (node == 0)
            self.model.add(sum(flows) == supply * size)
        return sent

    def _add_duration(
        self, j: int, number: int, k: int, sent: Mapping[Arc, cp_model.IntVar], duration: cp_model.IntVar
    ) -> None:
        """(4)."""
        rate, fixed = self._rates[j].phases[number].duration, int(self._fixed[j].phases[number].duration[0, k])
        work = sum(int(rate[arc]) * units for arc, units in sent.items() if arc[1] == k)
        self.model.add(self._units * (duration - fixed) >= work - (self._units - 1))

    def _stages(self) -> dict[int, list[tuple[cp_model.IntVar, cp_model.IntVar, cp_model.IntVar]]]:
        """Start, duration and end of all stages of each machine."""
        stages: dict[int, list[tuple[cp_model.IntVar, cp_model.IntVar, cp_model.IntVar]]] = {}
        for jobs in self._jobs:
            for phase in (phase for job in jobs for phase in job.phases):
                for k, start in phase.start.items():
                    stages.setdefault(k, []).append((start, phase.duration[k], phase.end[k]))
        return stages

    def _no_overlap(self) -> None:
        """(6)."""
        for k, stages in self._stages().items():
            self.model.add_no_overlap([self.model.new_interval_var(*stage, f"on{k}") for stage in stages])

    def _add_loads(self) -> None:
        """(9)."""
        for k, stages in self._stages().items():
            users = [job for job in self._fixed if k in job.machines]
            earliest = min(int(job.release) for job in users)
            lag = min(int(job.phases[-1].lag[k]) for job in users)
            self.model.add(sum(duration for _, duration, _ in stages) <= self._horizon - earliest - lag)
