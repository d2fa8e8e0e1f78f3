r"""Interval loads: whether an exact number of jobs fits into a horizon, by prices of machine time at all times.

Sets and data
    One class of exactly n jobs c; a job of the share y of the class holds machine k for :math:`d_{qe} y + o_{qk}` on
    arc :math:`e = (V, k)` of leg q, its result is ready :math:`l_{qk}` later.  A horizon of H ticks after the release,
    cut in intervals b of :math:`\Delta` ticks.
    Cells :math:`u \in 1..U` of sizes: a job of cell u has at least the share :math:`(u - 1) / U` and at most u units,
    of which all jobs together have at least U.
    Ways w of a job: a cell :math:`u_w`, a path in each leg and a start of every stage, with the part
    :math:`a_{wkb} \in [0, 1]` of each interval for which the way holds machine k.

Variables
    - :math:`x_w \ge 0`, how many jobs go that way;
    - :math:`\theta`, the greatest load of a machine in an interval.

Objective
    minimise :math:`\theta`

Constraints
    1. *loads*: :math:`\sum_w a_{wkb} x_w \le \theta` for every machine and interval;
    2. *jobs*: :math:`\sum_w x_w = n`;
    3. *sizes*: :math:`\sum_w u_w x_w \ge U`.

A schedule of the n jobs with a makespan of at most H is a solution with :math:`\theta \le 1`, since a machine serves
one stage at a time.  So **if the minimum is above 1, the makespan of exactly n jobs is more than H**.  The loads of
:mod:`formulations.chunk_count` are (1) with equal weights of all intervals; others see that a machine on which few
jobs begin waits for jobs that come from elsewhere, which are whole jobs with whole first stages, and that chains of few
long jobs leave machines idle in the middle.

For any weights :math:`\lambda_{kb} \ge 0` with sum 1 the least :math:`\sum_c \sum_{k, b} \lambda_{kb} a_{w_c kb}` over
n ways with at least U units is a lower bound on :math:`\theta` (Lagrangian relaxation of 1).  It is computed by two
dynamic programmes: the cheapest way of every cell, through states of leg, visited set and tick; and the cheapest n
cells, by units.  The weights are the duals of the linear programme over the ways met so far, damped towards the best
weights (column generation; M. Lübbecke and J. Desrosiers, 2005, https://doi.org/10.1287/opre.1050.0234).

The first dynamic programme never overstates a cost: a stage that starts between ticks t and t + 1 is given the cheapest
start there, and a result that is ready :math:`\tau` after its start counts as ready at tick
:math:`\lfloor t + \tau \rfloor`.  A path of a mirrored second leg need not be the reverse of the first.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from formulations.budget import Budget
from formulations.fluid import NO_CYCLING
from formulations.lattice import Arc, JobClass, arcs, cheapest_path

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEVER = 1e30
"""The cost of what cannot be; sums of it stay finite."""

TOLERANCE = 1e-7
"""By how much durations are shortened, horizons extended, and the least load exceeds 1: above rounding errors."""

DAMPING = 0.5
"""Weight of the best prices so far in the next ones; any prices give a bound."""

SPREAD = 10
"""Ways that are added in each round besides the cheapest, of sizes far apart."""

WORK_PER_VALUE, WORK_PER_WAY, WORK_PER_ROW = 6e-9, 6e-4, 2e-7
"""Seconds of work for a cell, arc and tick; for a way; and for a row in an iteration of the linear programme."""

MAX_MACHINES = 7
"""Machines up to which all values are held, in about 150 MB."""


@dataclass(frozen=True)
class IntervalParams:
    """How finely a horizon is looked at.

    All-reduce of 16 MiB on 4D-Ring_FC of the Themis paper, occupying latency, four chunks, November 2026: up to 65.6 us
    are refuted; with half of the units 65.2, half of the ticks 64.8, twice as many intervals of half the ticks 65.8,
    which took four times as long.

    Attributes
    ----------
    intervals, ticks : int
        Intervals of the horizon, whose loads are limited, and ticks of each, to which results are rounded down.
    units : int
        Cells of any sizes; those that are too large for the horizon are left out.
    """

    intervals: int = 50
    ticks: int = 8
    units: int = 256


USUAL = IntervalParams()


@dataclass(frozen=True)
class IntervalOutcome:
    """What is known of a horizon.

    Attributes
    ----------
    status : str
        ``infeasible`` if it is proven too short, ``fits`` if the linear programme cannot tell, or ``unknown``.
    load : number
        A lower bound on the greatest load.
    prices : array, shape (machines, intervals)
        Weights that prove it.
    work : float
        Seconds of work.
    """

    status: str
    load: float
    prices: FloatArray
    work: float


def num_cells(job: JobClass, least: JobClass, horizon: float, units: int) -> int:
    """Cells of which a job that passes all its machines ends by the horizon."""

    def passes(cell: int) -> bool:
        layers = job.layers(lambda q, arc: job.legs[q].duration[arc] * cell / units + least.passage(q, arc))
        return job.release + sum(cheapest_path(job.machines, layer) for layer in layers) <= horizon * (1 + TOLERANCE)

    return bisect_left(range(units), True, key=lambda cell: not passes(cell))


class IntervalLoads:
    """The relaxation for a horizon.

    Parameters
    ----------
    job, least : JobClass
        As of :class:`formulations.chunk_count.ChunkCount`; `count` of the first is the number of jobs.
    horizon : number
        In the unit of the durations.
    params : IntervalParams
        How finely to look.
    """

    def __init__(self, job: JobClass, least: JobClass, horizon: float, params: IntervalParams = USUAL) -> None:
        self._count, self._units = job.count, params.units
        self._num_cells = num_cells(job, least, horizon, params.units)
        shares = np.arange(self._num_cells) / params.units
        self._ways = _Ways(job, least, shares, horizon - job.release, params)

    def solve(self, budget: Budget, prices: FloatArray | None = None) -> IntervalOutcome:
        """Raise the bound on the greatest load until it exceeds 1, cannot, or the budget is spent.

        `prices` are weights to start from, as of an outcome for another horizon.
        """
        best = np.full(self._ways.shape, 1 / np.prod(self._ways.shape)) if prices is None else prices
        if not self._num_cells:
            return IntervalOutcome("infeasible", NEVER, best, 0.0)
        programme = _Programme(self._count, self._units, self._ways.shape)
        prices, load, work, start, number = best, 0.0, 0.0, monotonic(), 0
        while (work if budget.deterministic else monotonic() - start) < budget.seconds:
            costs = self._ways.price(prices)
            least, chosen = cheapest_cells(costs, self._units, self._count)
            if least > load:
                load, best = least, prices
            if load > 1 + TOLERANCE:
                return IntervalOutcome("infeasible", load, best, work)
            self._add_ways(programme, costs, chosen, number)
            duals, objective = programme.solve()
            work = (number + 1) * self._ways.work + programme.work
            if objective <= 1:
                return IntervalOutcome("fits", load, best, work)
            prices, number = DAMPING * best + (1 - DAMPING) * duals, number + 1
        return IntervalOutcome("unknown", load, best, work)

    def _add_ways(self, programme: "_Programme", costs: FloatArray, chosen: Sequence[int], number: int) -> None:
        """The ways of the cheapest cells, and of some others, which differ from round to round."""
        step = max(len(costs) // SPREAD, 1)
        for cell in sorted({*chosen, *range(number % step, len(costs), step)}):
            if costs[cell] < NEVER / 2:
                programme.add(self._ways.usage(cell), cell + 1)


def cheapest_cells(costs: FloatArray, units: int, count: int) -> tuple[float, list[int]]:
    """The least cost of so many jobs with all units, and their cells, the first of which has one unit."""
    wanted = np.arange(units + 1)
    others = np.maximum(wanted - np.arange(1, len(costs) + 1)[:, None], 0)  # that the other jobs need, by cell of one
    least = np.where(wanted > 0, NEVER, 0.0)  # by units that are wanted, or more
    choices = []
    for _ in range(count):
        sums = least[others] + costs[:, None]
        choices.append(sums.argmin(axis=0))
        least = sums.min(axis=0)
    chosen, held = [], units
    for choice in reversed(choices):
        chosen.append(int(choice[held]))
        held = int(others[chosen[-1], held])
    return float(least[-1]), chosen


@dataclass(frozen=True)
class _Stage:
    """An arc of a leg, by size: whole ticks and the rest for which it holds its machine, and ticks to its result."""

    leg: int
    machine: int
    visited: int
    whole: IntArray
    rest: FloatArray
    shift: IntArray

    @property
    def reached(self) -> int:
        return self.visited | 1 << self.machine


class _Ways:
    """The cheapest ways of all cells under given prices."""

    def __init__(
        self, job: JobClass, least: JobClass, shares: FloatArray, horizon: float, params: IntervalParams
    ) -> None:
        self._num_ticks = params.intervals * params.ticks
        self._ticks = params.ticks
        tick = horizon / self._num_ticks * (1 + TOLERANCE)
        self._num_legs, num_machines = len(job.legs), len(job.machines)
        self.shape = (num_machines, params.intervals)
        self._everything = (1 << num_machines) - 1
        self._stages = [
            self._stage(job, least, shares, tick, leg, arc)
            for leg in range(self._num_legs)
            for arc in arcs(tuple(range(num_machines)))
        ]
        self._from: dict[tuple[int, int], list[_Stage]] = {}
        self._to: dict[tuple[int, int], list[_Stage]] = {}
        for stage in self._stages:
            self._from.setdefault((stage.leg, stage.visited), []).append(stage)
            self._to.setdefault((stage.leg, stage.reached), []).append(stage)
        self._value = np.empty((self._num_legs, 1 << num_machines, len(shares), self._num_ticks + 1))
        self._shifted = np.full((len(shares), 2 * self._num_ticks + 2), NEVER)
        self.work = WORK_PER_VALUE * len(self._stages) * self._value[0, 0].size

    def _stage(self, job: JobClass, least: JobClass, shares: FloatArray, tick: float, leg: int, arc: Arc) -> _Stage:
        """The stage of an arc between machines by their places in the class."""
        visited, machine = arc
        k = job.machines[machine]
        own = sum(1 << m for place, m in enumerate(job.machines) if visited >> place & 1), k
        held = (job.legs[leg].duration[own] * shares + least.legs[leg].duration[own]) / tick
        whole = np.floor(held)
        result = held + least.legs[leg].lag[k] / tick
        is_last = leg == self._num_legs - 1 and visited | 1 << machine == self._everything
        shift = np.ceil(result) if is_last else np.floor(result)
        most = self._num_ticks + 1
        in_ticks = [np.minimum(ticks, most).astype(np.int64) for ticks in (whole, shift)]
        return _Stage(leg, machine, visited, in_ticks[0], held - whole, in_ticks[1])

    def price(self, prices: FloatArray) -> FloatArray:
        """The cheapest way of every cell: for each state the least cost to have reached it by each tick."""
        self._set(prices)
        value = self._value
        value.fill(NEVER)
        value[0, 0] = 0.0
        for leg in range(self._num_legs):
            if leg:
                value[leg, 0] = value[leg - 1, self._everything]
            for visited in range(self._everything + 1):
                own = value[leg, visited]
                np.minimum.accumulate(own, axis=1, out=own)
                for stage in self._from.get((leg, visited), []):
                    self._extend(own, value[leg, stage.reached], stage)
        return value[-1, -1, :, -1].copy()

    def _set(self, prices: FloatArray) -> None:
        """Prices of each tick, and of all ticks before; never after the last."""
        per_tick = np.repeat(prices / self._ticks, self._ticks, axis=1)
        machines, most = per_tick.shape
        self._before = np.full((machines, 2 * most + 3), NEVER)
        self._before[:, 0] = 0.0
        np.cumsum(per_tick, axis=1, out=self._before[:, 1 : most + 1])
        self._price = np.zeros((machines, most + 1))
        self._price[:, :most] = per_tick
        self._price_after = np.full((machines, 2 * most + 3), NEVER)
        self._price_after[:, :most] = per_tick

    def _extend(self, value: FloatArray, after: FloatArray, stage: _Stage) -> None:
        """What a stage costs from every tick on, and when its result is there."""
        cost, most = self._costs(stage), self._num_ticks
        np.add(value, cost, out=self._shifted[:, most + 1 :])
        rows = np.arange(len(value))
        reached = sliding_window_view(self._shifted, most + 1, axis=1)[rows, most + 1 - stage.shift]
        np.minimum(after, reached, out=after)

    def _costs(self, stage: _Stage) -> FloatArray:
        """Least price of a stage that starts in each tick: at its beginning or end, or such that it ends with one."""
        most, k = self._num_ticks, stage.machine
        before = self._before[k, : most + 1]
        until = sliding_window_view(self._before[k], most + 1)
        at_begin = until[stage.whole]
        at_begin += stage.rest[:, None] * sliding_window_view(self._price_after[k], most + 1)[stage.whole]
        at_begin -= before
        costs: FloatArray = until[stage.whole + 1] - before - (1 - stage.rest[:, None]) * self._price[k]
        np.minimum(costs, at_begin, out=costs)
        np.minimum(costs[:, :-1], at_begin[:, 1:], out=costs[:, :-1])
        return costs

    def usage(self, cell: int) -> FloatArray:
        """Parts of the intervals for which the cheapest way of a cell holds each machine."""
        edges = np.arange(self.shape[1] + 1) * self._ticks
        usage = np.zeros(self.shape)
        for machine, start, end in self._trace(cell):
            held = np.minimum(end, edges[1:]) - np.maximum(start, edges[:-1])
            usage[machine] += np.maximum(held, 0) / self._ticks
        return usage

    def _trace(self, cell: int) -> list[tuple[int, float, float]]:
        """Machine, start and end of the stages of the cheapest way of a cell, last one first."""
        stages, leg, visited, tick = [], self._num_legs - 1, self._everything, self._num_ticks
        while leg or visited:
            if not visited:
                leg, visited = leg - 1, self._everything
            value = self._value[leg, visited, cell]
            tick = int(np.argmax(value <= value[tick]))
            _, stage, start = min(
                (
                    (self._value[leg, own.visited, cell, tick - own.shift[cell]] + cost, own, start)
                    for own in self._to[leg, visited]
                    if own.shift[cell] <= tick
                    for cost, start in self._starts(own, cell, tick - int(own.shift[cell]))
                ),
                key=lambda way: way[0],
            )
            stages.append((stage.machine, start, start + stage.whole[cell] + stage.rest[cell]))
            visited, tick = stage.visited, tick - int(stage.shift[cell])
        return stages

    def _starts(self, stage: _Stage, cell: int, tick: int) -> list[tuple[float, float]]:
        """Prices and starts of a stage of :meth:`_costs`."""
        duration = stage.whole[cell] + stage.rest[cell]
        starts = (tick, tick + 1 - stage.rest[cell], tick + 1.0)
        return [(self._price_between(stage.machine, s, s + duration), s) for s in starts]

    def _price_between(self, machine: int, start: float, end: float) -> float:
        return self._price_until(machine, end) - self._price_until(machine, start)

    def _price_until(self, machine: int, time: float) -> float:
        tick = int(time)
        rest = time - tick
        return float(self._before[machine, tick] + (rest * self._price_after[machine, tick] if rest else 0.0))


class _Programme:
    """The linear programme over the ways met so far."""

    MISSING = 3.0
    """What a job costs that goes no way and has all units: more than the loads of the last rounds."""

    def __init__(self, count: int, units: int, shape: tuple[int, int]) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString(NO_CYCLING)
        infinity = self._solver.infinity()
        load = self._solver.NumVar(0, infinity, "load")
        self._solver.Minimize(load)
        self._loads = [[self._solver.Constraint(0, infinity) for _ in range(shape[1])] for _ in range(shape[0])]
        for row in (row for own in self._loads for row in own):
            row.SetCoefficient(load, 1)
        self._jobs, self._units = self._solver.Constraint(count, count), self._solver.Constraint(1, infinity)
        self._scale, self.work = units, 0.0
        self._solver.Objective().SetCoefficient(self._column(units), self.MISSING)

    def _column(self, units: int) -> pywraplp.Variable:
        """(2) and (3) of a way."""
        ways = self._solver.NumVar(0, self._solver.infinity(), "ways")
        self._jobs.SetCoefficient(ways, 1)
        self._units.SetCoefficient(ways, units / self._scale)
        return ways

    def add(self, usage: FloatArray, units: int) -> None:
        """One more way, with (1)."""
        self.work += WORK_PER_WAY
        ways = self._column(units)
        for k, b in zip(*np.nonzero(usage), strict=True):
            self._loads[k][b].SetCoefficient(ways, -float(usage[k, b]))

    def solve(self) -> tuple[FloatArray, float]:
        """Duals of (1) with sum 1 and the least load; equal weights and no load known if the solver gives up."""
        shape = len(self._loads), len(self._loads[0])
        status = self._solver.Solve()
        self.work += WORK_PER_ROW * np.prod(shape) * self._solver.iterations()
        if status == pywraplp.Solver.OPTIMAL:
            duals = np.array([[max(row.dual_value(), 0.0) for row in own] for own in self._loads])
            if duals.sum():
                return duals / duals.sum(), self._solver.Objective().Value()
        return np.full(shape, 1 / np.prod(shape)), NEVER
