r"""Interval loads: whether an exact number of jobs fits into a horizon, by prices of machine time at all times.

Sets and data
    One class of exactly n jobs c; a job of the share y of the class holds machine k for :math:`d_{qe} y + o_{qk}` on
    arc :math:`e = (V, k)` of phase q, its result is ready :math:`l_{qk}` later.  A horizon of H ticks after the
    release. Time is cut in intervals b of :math:`\Delta` ticks, of which the part :math:`h_b \in [0, 1]` is before the
    horizon. Cells :math:`u \in 1..U` of sizes: a job of cell u has at least the share :math:`(u - 1) / U` and at most u
    units, of which all jobs together have at least U.
    Ways w of a job: a cell :math:`u_w`, a path in each phase and a start of every stage, with the part
    :math:`a_{wkb} \in [0, 1]` of each interval for which the way holds machine k.

Variables
    - :math:`x_w \ge 0`, how many jobs go that way;
    - :math:`\theta`, the greatest load of a machine in an interval.

Objective
    minimise :math:`\theta`

Constraints
    1. *loads*: :math:`\sum_w a_{wkb} x_w \le h_b \theta` for every machine and interval with :math:`h_b > 0`;
    2. *jobs*: :math:`\sum_w x_w = n`;
    3. *sizes*: :math:`\sum_w u_w x_w \ge U`.

A schedule of the n jobs with a makespan of at most H is a solution with :math:`\theta \le 1`, since a machine serves
one stage at a time.  So **if the minimum is above 1, the makespan of exactly n jobs is more than H**.  The loads of
:mod:`formulations.chunk_count` are (1) with equal weights of all intervals; others see that a machine on which few
jobs begin waits for jobs that come from elsewhere, which are whole jobs with whole first stages, and that chains of few
long jobs leave machines idle in the middle.

For any weights :math:`\lambda_{kb} \ge 0` with :math:`\sum_{k, b} h_b \lambda_{kb} = 1` the least
:math:`\sum_c \sum_{k, b} \lambda_{kb} a_{w_c kb}` over n ways with at least U units is a lower bound on :math:`\theta`
(Lagrangian relaxation of 1).  It is computed by two dynamic programmes: the cheapest way of every cell, through states
of phase, visited set and tick; and the cheapest n cells, by units.  The weights are the duals of the linear programme
over the ways met so far, damped towards the best weights (column generation; M. Lübbecke and J. Desrosiers, 2005,
https://doi.org/10.1287/opre.1050.0234).

Ways depend neither on n nor, apart from their ends, on the horizon.  So those met for one question serve all others,
and the first dynamic programme, which knows the cheapest way to every tick, serves all shorter horizons at once.

The first dynamic programme never overstates a cost: a stage that starts between ticks t and t + 1 is given the cheapest
start there, and a result that is ready :math:`\tau` after its start counts as ready at tick
:math:`\lfloor t + \tau \rfloor`.  A path of a mirrored second phase need not be the reverse of the first.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from time import monotonic

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from ortools.linear_solver import pywraplp

from formulations.lattice import Arc, JobClass, arcs, cheapest_path
from formulations.limits import Limits
from formulations.linear import NO_CYCLING, FloatArray, IntArray

IMPOSSIBLE = 1e30  # the cost of what cannot be; sums of it stay finite
TOLERANCE = 1e-7
"""By how much durations are shortened, horizons extended, and the least load exceeds 1: above rounding errors."""

TINY = 1e-12  # prices below it are rounding of floating point
WORK_PER_VALUE, WORK_PER_WAY, WORK_PER_ROW = 6e-9, 6e-4, 2e-7
"""Seconds of work for a cell, arc and tick; for a way; and for a row in an iteration of the linear programme."""

MAX_LOADS_MACHINES = 7  # machines up to which all values are held, in about 150 MB


INTERVALS, TICKS, UNITS = 50, 8, 256
"""Intervals of a horizon, ticks of each, and cells of sizes: half as many are refuted sooner, and further below."""

DAMPING = 0.5  # weight of the best prices so far in the next ones; any prices give a bound
SPREAD = 10  # ways that are added in each round besides the cheapest, of sizes far apart


@dataclass(frozen=True)
class IntervalOutcome:
    """What is known of a horizon.

    `status`: ``infeasible`` if it is proven too short, ``fits`` if the linear programme cannot tell, or ``unknown``.
    `load`: a lower bound on the greatest load.
    `work`: seconds of work.
    """

    status: str
    load: float
    work: float


def num_cells(job: JobClass, least: JobClass, horizon: float, units: int) -> int:
    """Cells of which a job that passes all its machines ends by the horizon."""

    def passes(cell: int) -> bool:
        layers = job.layers(lambda q, arc: job.phases[q].duration[arc] * cell / units + least.passage(q, arc))
        return job.release + sum(cheapest_path(job.machines, layer) for layer in layers) <= horizon * (1 + TOLERANCE)

    return bisect_left(range(units), True, key=lambda cell: not passes(cell))


class IntervalLoads:
    """The relaxation for all numbers of jobs and all horizons up to a greatest.

    `job`, `least`: as of :class:`formulations.chunk_count.ChunkCount`; `count` of the first is the greatest number of
      jobs.
    `horizon`: the greatest, in the unit of the durations.
    `intervals`, `ticks`: intervals of the horizon, whose loads are limited, and ticks of each, to which results are
      rounded down.
    `units`: cells of any sizes; those that are too large for the horizon are left out.
    `num_ticks`: ticks of the greatest horizon.
    `refuted`, shape (jobs + 1,): by number of jobs, the ticks of the longest horizon that is proven too short.
    """

    def __init__(
        self,
        job: JobClass,
        least: JobClass,
        horizon: float,
        intervals: int = INTERVALS,
        ticks: int = TICKS,
        units: int = UNITS,
    ) -> None:
        self.num_ticks = intervals * ticks
        self.refuted = np.zeros(job.count + 1, dtype=np.int64)
        self._release, self._tick = job.release, (horizon - job.release) / self.num_ticks
        self._units, self._num_cells = units, num_cells(job, least, horizon, units)
        shares = np.arange(self._num_cells) / units
        self._ways = _Ways(job, least, shares, horizon - job.release, intervals, ticks)
        self._programme = _WaysProgramme(self._units, self._ways.shape)
        self._best = np.full(self._ways.shape, 1.0)
        self._round = 0
        if not self._num_cells:
            self.refuted[:] = self.num_ticks

    def horizon(self, ticks: int) -> float:
        """So many ticks as a time."""
        return float(self._release + ticks * self._tick)

    def ticks(self, horizon: float) -> int:
        """The least number of ticks, at most all of them, that last until a time."""
        return min(ceil((horizon - self._release) / self._tick), self.num_ticks)

    def solve(self, count: int, ticks: int, limits: Limits) -> IntervalOutcome:
        """Raise the bound on the greatest load of `count` jobs in so many ticks until it exceeds 1, or cannot.

        What is learnt is kept where limits end it, and serves other questions.
        """
        load, work, start = 0.0, 0.0, monotonic()
        parts = self._parts(ticks)
        self._programme.aim(count, ticks, parts)
        while self.refuted[count] < ticks:
            spent = work if limits.deterministic else monotonic() - start
            if spent >= limits.seconds:
                return IntervalOutcome("unknown", load, work)
            duals, objective, cost = self._programme.solve()
            work += cost + self._ways.work
            if objective <= 1:
                return IntervalOutcome("fits", load, work)
            prices = DAMPING * self._best / (self._best @ parts).sum() + (1 - DAMPING) * duals
            costs = self._ways.price(prices)
            sums, choices = cheapest_cells(costs[:, ticks], self._units, count)
            if sums[-1] > load:
                load, self._best = float(sums[-1]), prices
            self._learn(costs, sums, prices, ticks)
            work += self._add_ways(costs[:, ticks], chosen_cells(choices, self._units), ticks)
        return IntervalOutcome("infeasible", load, work)

    def _parts(self, ticks: int) -> FloatArray:
        """Parts of the intervals that are before a horizon."""
        of_each = self.num_ticks // self._ways.shape[1]
        return np.clip(ticks - np.arange(0, self.num_ticks, of_each), 0, of_each) / of_each

    def _learn(self, costs: FloatArray, sums: FloatArray, prices: FloatArray, ticks: int) -> None:
        """Refute the horizon if its cheapest sums say so, or else the longest shorter one that these prices refute."""
        count = len(sums) - 1
        low, high = int(self.refuted[count]), ticks
        self._refute(sums, prices, ticks)
        while high - low > 1 and self.refuted[count] < ticks:
            middle = (low + high) // 2
            self._refute(cheapest_cells(costs[:, middle], self._units, count)[0], prices, middle)
            low, high = (middle, high) if self.refuted[count] >= middle else (low, middle)

    def _refute(self, sums: FloatArray, prices: FloatArray, ticks: int) -> None:
        """Note the numbers of jobs that do not fit: their cheapest sum is above the price of all that there is."""
        most = (prices @ self._parts(ticks)).sum()
        are_refuted = sums > most * (1 + TOLERANCE) + TINY
        self.refuted[: len(sums)][are_refuted] = np.maximum(self.refuted[: len(sums)][are_refuted], ticks)

    def _add_ways(self, costs: FloatArray, chosen: Sequence[int], ticks: int) -> float:
        """The ways of the cheapest cells, and of some others, which differ from round to round; the work it takes."""
        step = max(len(costs) // SPREAD, 1)
        cells = sorted({*chosen, *range(self._round % step, len(costs), step)})
        self._round += 1
        for cell in cells:
            if costs[cell] < IMPOSSIBLE / 2:
                self._programme.add(*self._ways.usage(cell, ticks), cell + 1)
        return WORK_PER_WAY * len(cells)


def cheapest_cells(costs: FloatArray, units: int, count: int) -> tuple[FloatArray, list[IntArray]]:
    """The least cost of 0 to `count` jobs with all units; and by job and units that are wanted, the cell of the job.

    The first cell has one unit.
    """
    wanted = np.arange(units + 1)
    others = np.maximum(wanted - np.arange(1, len(costs) + 1)[:, None], 0)  # that the other jobs need, by cell of one
    least = np.where(wanted > 0, IMPOSSIBLE, 0.0)  # by units that are wanted, or more
    sums, choices = [least[-1]], []
    for _ in range(count):
        totals = least[others] + costs[:, None]
        choices.append(totals.argmin(axis=0))
        least = totals.min(axis=0)
        sums.append(least[-1])
    return np.array(sums), choices


def chosen_cells(choices: Sequence[IntArray], units: int) -> list[int]:
    """The cells of the jobs that the last of these choices begin with."""
    chosen, wanted = [], units
    for choice in reversed(choices):
        chosen.append(int(choice[wanted]))
        wanted = max(wanted - chosen[-1] - 1, 0)
    return chosen


@dataclass(frozen=True)
class _Stage:
    """An arc of a phase, by size: whole ticks and the rest for which it holds its machine, and ticks to its result."""

    phase: int
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
        self, job: JobClass, least: JobClass, shares: FloatArray, horizon: float, intervals: int, ticks: int
    ) -> None:
        self._num_ticks, self._ticks = intervals * ticks, ticks
        tick = horizon / self._num_ticks * (1 + TOLERANCE)
        self._num_phases, num_machines = len(job.phases), len(job.machines)
        self.shape = (num_machines, intervals)
        self._everything = (1 << num_machines) - 1
        self._stages = [
            self._stage(job, least, shares, tick, phase, arc)
            for phase in range(self._num_phases)
            for arc in arcs(tuple(range(num_machines)))
        ]
        self._from: dict[tuple[int, int], list[_Stage]] = {}
        self._to: dict[tuple[int, int], list[_Stage]] = {}
        for stage in self._stages:
            self._from.setdefault((stage.phase, stage.visited), []).append(stage)
            self._to.setdefault((stage.phase, stage.reached), []).append(stage)
        self._value = np.empty((self._num_phases, 1 << num_machines, len(shares), self._num_ticks + 1))
        self._shifted = np.full((len(shares), 2 * self._num_ticks + 2), IMPOSSIBLE)
        self.work = WORK_PER_VALUE * len(self._stages) * self._value[0, 0].size

    def _stage(self, job: JobClass, least: JobClass, shares: FloatArray, tick: float, phase: int, arc: Arc) -> _Stage:
        """The stage of an arc between machines by their places in the class."""
        visited, machine = arc
        k = job.machines[machine]
        lattice_arc = sum(1 << m for place, m in enumerate(job.machines) if visited >> place & 1), k
        held = (job.phases[phase].duration[lattice_arc] * shares + least.phases[phase].duration[lattice_arc]) / tick
        whole = np.floor(held)
        result = held + least.phases[phase].lag[k] / tick
        is_last = phase == self._num_phases - 1 and visited | 1 << machine == self._everything
        shift = np.ceil(result) if is_last else np.floor(result)
        most = self._num_ticks + 1
        in_ticks = [np.minimum(ticks, most).astype(np.int64) for ticks in (whole, shift)]
        return _Stage(phase, machine, visited, in_ticks[0], held - whole, in_ticks[1])

    def price(self, prices: FloatArray) -> FloatArray:
        """The cheapest way of every cell to every tick: for each state the least cost to have reached it by then."""
        self._set(prices)
        value = self._value
        value.fill(IMPOSSIBLE)
        value[0, 0] = 0.0
        for phase in range(self._num_phases):
            if phase:
                value[phase, 0] = value[phase - 1, self._everything]
            for visited in range(self._everything + 1):
                reached = value[phase, visited]
                np.minimum.accumulate(reached, axis=1, out=reached)  # who is there earlier may wait
                for stage in self._from.get((phase, visited), []):
                    self._extend(reached, value[phase, stage.reached], stage)
        costs: FloatArray = value[-1, -1]
        return costs

    def _set(self, prices: FloatArray) -> None:
        """Prices of each tick, and of all ticks before; never after the last."""
        per_tick = np.repeat(prices / self._ticks, self._ticks, axis=1)
        machines, most = per_tick.shape
        # As wide again as the horizon, so that windows of stages that end after it need no test.
        self._before = np.full((machines, 2 * most + 3), IMPOSSIBLE)
        self._before[:, 0] = 0.0
        np.cumsum(per_tick, axis=1, out=self._before[:, 1 : most + 1])
        self._price = np.zeros((machines, most + 1))
        self._price[:, :most] = per_tick
        self._price_after = np.full((machines, 2 * most + 3), IMPOSSIBLE)
        self._price_after[:, :most] = per_tick

    def _extend(self, value: FloatArray, after: FloatArray, stage: _Stage) -> None:
        """What a stage costs from every tick on, and when its result is there."""
        cost, most = self._costs(stage), self._num_ticks
        np.add(value, cost, out=self._shifted[:, most + 1 :])
        rows = np.arange(len(value))
        # A window that begins so many ticks earlier is the row shifted to later ticks; what is before it never was.
        reached = sliding_window_view(self._shifted, most + 1, axis=1)[rows, most + 1 - stage.shift]
        np.minimum(after, reached, out=after)

    def _costs(self, stage: _Stage) -> FloatArray:
        """Least price of a stage that starts in each tick: at its beginning or end, or such that it ends with one."""
        most, k = self._num_ticks, stage.machine
        # Prices are constant within a tick, so one of both ends of the stage lies on a tick where it is cheapest: row c
        # of a sliding window taken at `whole` is the cumulated price so many ticks after each tick.
        before = self._before[k, : most + 1]
        until = sliding_window_view(self._before[k], most + 1)
        at_begin = until[stage.whole]
        at_begin += stage.rest[:, None] * sliding_window_view(self._price_after[k], most + 1)[stage.whole]
        at_begin -= before
        costs: FloatArray = until[stage.whole + 1] - before - (1 - stage.rest[:, None]) * self._price[k]
        np.minimum(costs, at_begin, out=costs)
        np.minimum(costs[:, :-1], at_begin[:, 1:], out=costs[:, :-1])  # or it begins where the tick ends
        return costs

    def usage(self, cell: int, ticks: int) -> tuple[FloatArray, int]:
        """Parts of the intervals for which the cheapest way of a cell until a tick holds each machine, and its end."""
        edges = np.arange(self.shape[1] + 1) * self._ticks
        usage = np.zeros(self.shape)
        for machine, start, end in self._trace(cell, ticks):
            held = np.minimum(end, edges[1:]) - np.maximum(start, edges[:-1])
            usage[machine] += np.maximum(held, 0) / self._ticks
        value = self._value[-1, -1, cell]
        return usage, int(np.argmax(value <= value[ticks]))  # the first tick at which it is as cheap

    def _trace(self, cell: int, ticks: int) -> list[tuple[int, float, float]]:
        """Machine, start and end of the stages of the cheapest way of a cell until a tick, last one first."""
        stages, phase, visited, tick = [], self._num_phases - 1, self._everything, ticks
        while phase or visited:
            if not visited:
                phase, visited = phase - 1, self._everything
            value = self._value[phase, visited, cell]
            tick = int(np.argmax(value <= value[tick]))
            _, stage, start = min(
                (
                    (self._value[phase, into.visited, cell, tick - into.shift[cell]] + cost, into, start)
                    for into in self._to[phase, visited]
                    if into.shift[cell] <= tick
                    for cost, start in self._starts(into, cell, tick - int(into.shift[cell]))
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
        return [
            (self._price_until(stage.machine, s + duration) - self._price_until(stage.machine, s), s) for s in starts
        ]

    def _price_until(self, machine: int, time: float) -> float:
        tick = int(time)
        rest = time - tick
        return float(self._before[machine, tick] + (rest * self._price_after[machine, tick] if rest else 0.0))


class _WaysProgramme:
    """The linear programme over the ways met so far."""

    MISSING = 3.0
    """What a job costs that goes no way and has all units: more than the loads of the last rounds."""

    def __init__(self, units: int, shape: tuple[int, int]) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString(NO_CYCLING)
        infinity = self._solver.infinity()
        self._load = self._solver.NumVar(0, infinity, "load")
        self._solver.Minimize(self._load)
        self._loads = [[self._solver.Constraint(0, infinity) for _ in range(shape[1])] for _ in range(shape[0])]
        self._jobs, self._units = self._solver.Constraint(1, 1), self._solver.Constraint(1, infinity)
        self._scale, self._ticks, self._parts = units, 0, np.zeros(shape[1])
        self._ends = list[tuple[pywraplp.Variable, int]]()
        self._solver.Objective().SetCoefficient(self._column(units), self.MISSING)

    def _column(self, units: int) -> pywraplp.Variable:
        """(2) and (3) of a way."""
        ways = self._solver.NumVar(0, self._solver.infinity(), "ways")
        self._jobs.SetCoefficient(ways, 1)
        self._units.SetCoefficient(ways, units / self._scale)
        return ways

    def aim(self, count: int, ticks: int, parts: FloatArray) -> None:
        """Set the number of jobs, and the horizon: its part of each interval, and which ways end by then."""
        infinity = self._solver.infinity()
        self._jobs.SetBounds(count, count)
        self._ticks, self._parts = ticks, parts
        for row, part in ((row, float(part)) for rows in self._loads for row, part in zip(rows, parts, strict=True)):
            row.SetCoefficient(self._load, part)
            row.SetLb(0 if part else -infinity)
        for ways, end in self._ends:
            ways.SetUb(infinity if end <= ticks else 0)

    def add(self, usage: FloatArray, end: int, units: int) -> None:
        """One more way, with (1); without what rounding leaves of nothing, which GLOP would call unbounded."""
        ways = self._column(units)
        self._ends.append((ways, end))
        for k, b in zip(*np.nonzero(usage > TINY), strict=True):
            self._loads[k][b].SetCoefficient(ways, -float(usage[k, b]))

    def solve(self) -> tuple[FloatArray, float, float]:
        """Duals of (1), the least load, and the work; equal weights and no load known if the solver gives up.

        The duals are scaled so that the price of all machine time before the horizon is 1.
        """
        status = self._solver.Solve()
        duals, load = np.ones((len(self._loads), len(self._parts))), IMPOSSIBLE
        if status == pywraplp.Solver.OPTIMAL:
            values = np.array([[max(row.dual_value(), 0.0) for row in rows] for rows in self._loads])
            if (values @ self._parts).sum() > TINY:
                duals, load = values, self._solver.Objective().Value()
        duals = duals * (self._parts > 0)
        work = WORK_PER_ROW * duals.size * max(self._solver.iterations(), 1)  # it may give up before the first
        return duals / (duals @ self._parts).sum(), load, work
