r"""Dispatch tree: whether an exact number of jobs of any sizes fits into a horizon, by what comes first and last.

Sets and data
    One class of exactly n jobs c; a job of the share y of the class holds machine k for :math:`d_{qe} y + o_{qk}` on
    arc :math:`e = (V, k)` of phase q, its result is ready :math:`l_{qk}` later.  A horizon H after the release.
    A **selection** says in which order each job visits its machines and each machine serves its stages.  With the
    shares it determines the earliest start of every stage, and the latest end with which all results are there by H.

Nodes
    A node is a pair of sets of stages, given with their paths and their order on each machine: a *head* P, and a *tail*
    S, whose stages come after all others of their job and machine.  It stands for the selections, with shares, whose
    *middle*, the other stages,

    1. starts after P: the earliest start of none of them is before that of a stage of P;
    2. ends before S: the latest end of none of them is after that of a stage of S.

    The root has neither.  The children of a node add to P a stage that follows it or, in turn, to S one that precedes
    it.  Every selection of a node is one of a child as well: of that with the stage of the middle that starts earliest,
    or ends latest.  So **if every branch ends in a node without any selection, the makespan of exactly n jobs is more
    than H**; and where no middle is left, the selection is a plan.

Variables
    of a node: shares :math:`y_c \ge 0`; starts of the stages of P, and those of S, counted backwards from H to their
    ends.

Constraints
    3. *sizes*: :math:`\sum_c y_c = 1`;
    4. *heads and tails*: a stage of P starts when the result of the job and the machine are there, and the last one
       added not before the others; and the same backwards for S.  So the middle of machine k starts no earlier than
       :math:`h_k`, the later of the end of its head and the latest start in P; and :math:`t_k` likewise backwards;
    5. *loads*: for weights :math:`\lambda_k \ge 0` with sum 1,
       :math:`\sum_k \lambda_k (h_k + \sum_c o_{ck} + t_k) + \sum_c y_c D_c(\lambda) \le H`, where :math:`o_{ck}` is
       what is fixed in the middle of c, and :math:`D_c(\lambda)` the cheapest way of c through its middle with the
       costs :math:`\lambda_k d_{qe}`; a machine without middle counts H;
    6. *chains*: the head of a job, its shortest middle, and its tail one after the other take at most H.

Given P and S, the left sides are convex in :math:`y`, maxima of sums along paths.  So they are replaced by their linear
pieces at the shares met (J. E. Kelley, *The cutting-plane method for solving convex programs*, 1960,
https://doi.org/10.1137/0108053): the shares of the greatest slack of all pieces so far are those of a linear programme
with n variables, solved by the dual simplex method.  A node is **refuted** where that slack is negative, by multipliers
of the pieces that are checked; it stands where a point fulfils all constraints, and where some rounds cannot tell.

The weights of (5) are duals of the loads (:mod:`formulations.chunk_count`), and their parts for all sets of machines.
What a job saves on one machine by its way it costs on others, and with these weights nearly as much: so H less the
load is what the machines may idle, weighted, and hardly any heads and tails idle so little.

Nodes are told apart by their paths and orders alone, so one that is met again, since the same stages came in another
order, is skipped, by a key of 128 bits.  Jobs are numbered as they appear.  Stages that are the first of their job and
of their machine start at 0: they come before all others, in the order of machines; likewise backwards where there are
no lags.  A path of a mirrored second phase need not be the reverse of the first, which only makes the bound lower.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from formulations.job_plans import JobTimes
from formulations.lattice import JobClass
from formulations.linear import FloatArray, IntArray

MAX_TREE_MACHINES = 6  # machines up to which what is between all pairs of states is held, in some 10 MB
MAX_ROWS = 400  # linear pieces of one node; where there were more, it stands
SHARE_SLACK = 0.5
"""How much a share must be above 0 for each horizon of slack, so that shares of much slack are not at the border."""


class DispatchTree(NamedTuple):
    """The data, with a horizon of 1.

    States of a job are numbered by phase and set of machines visited in it; side 0 goes forward from the first one,
    side 1 backward from the last one.

    `after`, shape (2, states, machines): by side the state that a stage on a machine leads to, -1 where there is none.
    `rate`, `fixed`, `lag_before`, `lag_after`, shape (2, states, machines): of that stage, as seen from its side.
    `left`, shape (states, states, machines): what is fixed between two states.
    `chain_rate`, `chain_fixed`, shape (states, states): the shortest way between two states; the second is -1 where
      there is none.
    `weight`, shape (weights, machines).
    `price`, shape (weights, states, states): the cheapest way between two states.
    """

    after: IntArray
    rate: FloatArray
    fixed: FloatArray
    lag_before: FloatArray
    lag_after: FloatArray
    left: FloatArray
    chain_rate: FloatArray
    chain_fixed: FloatArray
    weight: FloatArray
    price: FloatArray
    most_lag: float


class TreeSearch(NamedTuple):
    """Where the search is; levels count the stages of head and tail together.

    `placed`, shape (2,): how many stages head and tail have.
    `job`, `machine`, `origin`, `target`, shape (2, stages): in the order in which they were added, with the states
      before and after as seen from their side.
    `state`, shape (2, jobs): how far each side has come.
    `served`, shape (2, machines): how many stages.
    `begin`, shape (2, stages).
    `cause`, `of_begin`, shape (2, stages): the stage that a stage waits for, -1 if none, and whether for its begin and
      not for its end.
    `wait`, shape (2, stages): for how long after that.
    `last_of`, `last_on`, shapes (2, jobs), (2, machines): the last stage, -1 if there is none.
    `ready`, `free`, shapes (2, jobs), (2, machines): when it has its result, and when its machine is free.
    `latest`, shape (2,): the stage that begins latest, -1 if there is none.
    `latest_begin`, shape (2,).
    `left`, shape (machines,): what is fixed in the middle.
    `rows`, `limits`, shapes (levels, rows, jobs), (levels, rows): linear pieces: all shares but the last, and the
      slack, have at most the limit.
    `num_rows`, `active`, shapes (levels,), (levels, jobs): the rows that hold with equality at the point.
    `inverse`, shape (levels, jobs, jobs): of the matrix of the active rows.
    `multiplier`, `point`, `share`, shape (levels, jobs): duals of active rows, the solution, and shares that fulfil all
      constraints where there is time to find them.
    `option`, `num_begun`, shape (levels,): the next child, and how many jobs have appeared.
    `opening`, shape (levels, 2): the least machine on which a job may begin at 0.
    `row`, `step`, shapes (jobs + 1,), (jobs,).
    `label`, shape (jobs,).
    `memo`, shape (entries, 2): keys of nodes that were met.
    `nodes`, shape (1,): how many have been looked at.
    """

    placed: IntArray
    job: IntArray
    machine: IntArray
    origin: IntArray
    target: IntArray
    state: IntArray
    served: IntArray
    begin: FloatArray
    cause: IntArray
    of_begin: IntArray
    wait: FloatArray
    last_of: IntArray
    last_on: IntArray
    ready: FloatArray
    free: FloatArray
    latest: IntArray
    latest_begin: FloatArray
    left: FloatArray
    rows: FloatArray
    limits: FloatArray
    num_rows: IntArray
    active: IntArray
    inverse: FloatArray
    multiplier: FloatArray
    point: FloatArray
    share: FloatArray
    option: IntArray
    num_begun: IntArray
    opening: IntArray
    row: FloatArray
    step: FloatArray
    label: IntArray
    memo: IntArray
    nodes: IntArray


class JobStates:
    """The data of a class for all horizons.

    `job`, `least`: as of :class:`formulations.chunk_count.ChunkCount`.
    `weights`: of the loads of the machines, in the order of the class.
    """

    def __init__(self, job: JobClass, least: JobClass, weights: Sequence[float]) -> None:
        self._job, self._least = job, least
        self._num_machines, self._num_phases = len(job.machines), len(job.phases)
        self._full = (1 << self._num_machines) - 1
        self.num_states = self._num_phases << self._num_machines
        shape = (self.num_states, self._num_machines)
        self._after, self._before = np.full(shape, -1), np.full(shape, -1)
        self._rate, self._fixed, self._lag = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for origin, k, target in self._stages():
            self._after[origin, k], self._before[target, k] = target, origin
            self._measure(origin, k)
        self._weight = _parts_of(np.array(weights))
        self._find_ways()

    def tree(self, horizon: float) -> DispatchTree:
        """The data for a horizon."""
        span = horizon - self._job.release
        origins = np.maximum(self._before, 0), np.arange(self._num_machines)
        lag, none = self._lag / span, np.zeros_like(self._lag)
        return DispatchTree(
            after=np.array([self._after, self._before]),
            rate=np.array([self._rate, self._rate[origins]]) / span,
            fixed=np.array([self._fixed, self._fixed[origins]]) / span,
            lag_before=np.array([none, lag[origins]]),
            lag_after=np.array([lag, none]),
            left=self._left / span,
            chain_rate=self._chain_rate / span,
            chain_fixed=np.where(self._chain_fixed < 0, -1.0, self._chain_fixed / span),
            weight=self._weight,
            price=self._price / span,
            most_lag=float(lag.max()),
        )

    def search(self, count: int, entries: int) -> TreeSearch:
        """The begin of a search for so many jobs, with so many entries of the memo, a power of two."""
        return _begin(count, self._num_machines, self._num_phases, self.num_states, entries)

    def plans(self, search: TreeSearch, horizon: float) -> tuple[list[JobTimes], list[float]]:
        """The plans of jobs whose stages are all in heads and tails, with whole starts, and their shares."""
        share, span = search.share[int(search.placed.sum())], horizon - self._job.release
        stages: list[list[tuple[int, int, float]]] = [[] for _ in share]
        for i in range(int(search.placed[0])):
            job, k, origin = (int(array[0, i]) for array in (search.job, search.machine, search.origin))
            stages[job].append((origin, k, self._job.release + span * search.begin[0, i]))
        for i in range(int(search.placed[1])):
            job, k, origin = (int(array[1, i]) for array in (search.job, search.machine, search.target))
            held = self._fixed[origin, k] + self._rate[origin, k] * share[job]
            stages[job].append((origin, k, horizon - span * search.begin[1, i] - held))
        return [self._times(sorted(stages_of_job)) for stages_of_job in stages], [
            max(float(part), 0.0) for part in share
        ]

    def _times(self, stages: Sequence[tuple[int, int, float]]) -> JobTimes:
        """State before, machine and start of all stages of a job, in order."""
        size = self._num_machines
        phases = [stages[i : i + size] for i in range(0, len(stages), size)]
        paths = tuple(tuple(self._job.machines[k] for _, k, _ in phase) for phase in phases)
        return JobTimes(paths, tuple(tuple(int(start) for _, _, start in phase) for phase in phases))

    def _stages(self) -> Iterator[tuple[int, int, int]]:
        """State before, machine and state after of all stages; all machines of a phase are none of the next one."""
        for phase in range(self._num_phases):
            for visited in range(self._full):
                for k in range(self._num_machines):
                    if not visited >> k & 1:
                        target = visited | 1 << k
                        ends = target == self._full and phase + 1 < self._num_phases
                        origin, begin = (phase << self._num_machines) + visited, phase << self._num_machines
                        yield origin, k, begin + (self._full + 1 if ends else target)

    def _measure(self, origin: int, k: int) -> None:
        """What the stage on machine k from a state takes."""
        phase, visited = divmod(origin, self._full + 1)
        machines = self._job.machines
        arc = sum(1 << m for place, m in enumerate(machines) if visited >> place & 1), machines[k]
        self._rate[origin, k] = self._job.phases[phase].duration[arc]
        self._fixed[origin, k] = self._least.phases[phase].duration[arc]
        self._lag[origin, k] = self._least.phases[phase].lag[machines[k]]

    def _find_ways(self) -> None:
        """What is between any two states, from the second back to the first."""
        size, weights = self.num_states, len(self._weight)
        self._chain_rate, self._chain_fixed = np.zeros((size, size)), np.full((size, size), -1.0)
        self._left, self._price = np.zeros((size, size, self._num_machines)), np.zeros((weights, size, size))
        follow: dict[int, list[tuple[int, int]]] = {}
        for origin, k, target in self._stages():
            follow.setdefault(origin, []).append((k, target))
        for end in range(size):
            self._chain_fixed[end, end] = 0.0
            for origin in range(end - 1, -1, -1):
                ways = [(k, target) for k, target in follow.get(origin, []) if self._chain_fixed[target, end] >= 0]
                if ways:
                    self._add_way(origin, end, ways)

    def _add_way(self, origin: int, end: int, ways: Sequence[tuple[int, int]]) -> None:
        """The best of the ways from a state, by their first machine and the state after it."""
        k, target = ways[0]
        fixed = self._fixed[origin, k]
        self._left[origin, end] = self._left[target, end]
        self._left[origin, end, k] += fixed
        self._chain_fixed[origin, end] = fixed + self._lag[origin, k] + self._chain_fixed[target, end]
        self._chain_rate[origin, end] = min(self._rate[origin, k] + self._chain_rate[t, end] for k, t in ways)
        prices = [self._weight[:, k] * self._rate[origin, k] + self._price[:, t, end] for k, t in ways]
        self._price[:, origin, end] = np.min(prices, axis=0)


def _parts_of(weights: FloatArray) -> FloatArray:
    """The weights of all sets of machines, each with sum 1, and single machines."""
    sets = (np.arange(1, 1 << len(weights))[:, None] >> np.arange(len(weights)) & 1) * weights
    return np.unique(
        np.vstack([sets[sets.sum(axis=1) > 0] / sets.sum(axis=1)[sets.sum(axis=1) > 0, None], np.eye(len(weights))]),
        axis=0,
    )


def _begin(count: int, machines: int, phases: int, states: int, entries: int) -> TreeSearch:
    """Nothing dispatched; the rows of all levels begin with those of (3)."""
    stages = count * machines * phases
    levels, whole = stages + 2, np.int64
    rows, limits = np.zeros((levels, MAX_ROWS, count)), np.zeros((levels, MAX_ROWS))
    rows[:, np.arange(count - 1), np.arange(count - 1)] = -1.0
    rows[:, : count - 1, -1] = SHARE_SLACK
    rows[:, count - 1, -1] = limits[:, count - 1] = 1.0
    rows[:, count, : count - 1] = limits[:, count] = 1.0
    of_sides = {"placed": 2, "served": (2, machines), "last_of": (2, count), "last_on": (2, machines), "latest": 2}
    of_stages = dict.fromkeys(("job", "machine", "origin", "target", "cause", "of_begin"), (2, stages))
    of_levels = {"active": (levels, count), "option": levels, "num_begun": levels, "opening": (levels, 2)}
    wholes = of_sides | of_stages | of_levels | {"label": count, "memo": (entries, 2), "nodes": 1}
    times = {"begin": (2, stages), "wait": (2, stages), "ready": (2, count), "free": (2, machines), "latest_begin": 2}
    times |= {"left": machines, "inverse": (levels, count, count), "row": count + 1, "step": count}
    times |= {"multiplier": (levels, count), "point": (levels, count)}
    arrays: dict[str, Any] = {name: np.zeros(shape, whole) for name, shape in wholes.items()}
    arrays |= {name: np.zeros(shape) for name, shape in times.items()}
    arrays["state"] = np.repeat([[0], [states - 1]], count, axis=1)
    return TreeSearch(
        **arrays,
        rows=rows,
        limits=limits,
        num_rows=np.full(levels, count + 1),
        share=np.full((levels, count), 1 / count),
    )
