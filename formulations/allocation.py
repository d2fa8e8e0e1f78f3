r"""Allocation of bandwidth: the rates of machines that make the weighted times of groups of jobs least.

Sets and data
    Machines :math:`k` with rates between :math:`l_k` and :math:`u_k`, of some of them multiples of a unit :math:`q_k`;
    groups :math:`g` of weight :math:`w_g \ge 0`; pieces :math:`i` of the time of a group, with work :math:`p_i`,
    shares :math:`\mu_i \ge 0` of the machines and a constant :math:`c_i`; rows :math:`r` of linear constraints.

Variables
    :math:`b_k`, the rate of machine k; :math:`T_g`, the time of group g.

Objective
    minimise :math:`\sum_g w_g T_g`

Constraints
    1. :math:`T_g \ge p_i / (\mu_i b) + c_i` for every piece of group g;
    2. :math:`\sum_k a_{rk} b_k \le, \ge` or :math:`= h_r` for every row;
    3. :math:`l_k \le b_k \le u_k`, and :math:`b_k / q_k` whole where there is a unit.

A time is convex in the rates, since a piece is the reciprocal of a linear function.  The load of one machine is a
piece: all work that no order spares it, at its rate.  With free orders the fluid relaxation
(:mod:`formulations.fluid`) has one piece for every weighting :math:`\lambda` of the machines.  With
:math:`\mu_k = \lambda_k / b_k` its Lagrangian is the cheapest paths under arc costs :math:`\mu_k p`, over
:math:`\mu b`, and as a function of b a piece.  So the pieces of a group are computed as they are needed, from the duals
of its relaxation at the rates of the moment.

Method: cutting planes (J. Kelley, 1960, https://doi.org/10.1137/0108053).  A piece with :math:`s = \mu b^0` at rates
:math:`b^0` is at least its tangent :math:`p (2 / s - \mu b / s^2) + c` everywhere.  Each round solves the programme
with the tangents so far, by GLOP, or by SCIP where there are units; its optimum is a lower bound, its rates are
tried, and the pieces that they violate get a tangent there.

The bound returned does not rest on GLOP's tolerances: for any multipliers of (1), scaled to the weights, and of (2),
the least value of the Lagrangian over the box (3) is one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.linear import FloatArray

Sense = Literal["<=", ">=", "=="]

# Parameters of GLOP, whose usual tolerances of 1e-8 would end above the gap that is asked for
PRECISE = "primal_feasibility_tolerance: 1e-11 dual_feasibility_tolerance: 1e-11 max_number_of_iterations: 100000"
# Where pieces get tangents before anything is solved, as multiples of their sum at the centre
FIRST_TANGENTS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0, 2.0)
# Most programmes that are solved, and for cheaper rates: 4 to 6 machines take 15 to 60 until the gap is closed
MAX_PROGRAMMES, MAX_PRICE_PROGRAMMES = 500, 50
# Relative gap between objective and bound at which to stop, and within which objectives are equal
CLOSED_GAP, AS_GOOD = 1e-10, 1e-9

WORTH = 1e-3  # cheaper rates must save this share of the price: more than rates do that are only off by `AS_GOOD`
LEAST_SHARE = 1e-9
"""Rates below this share of the largest possible one are not tried, since their times have no tangents."""

LEAST_SUM = 1e-4  # no tangent is laid at a smaller multiple of it: steeper ones are too much for the solver


class Piece(NamedTuple):
    """One lower bound on the time of a group: `work` over the weighted sum of the rates, plus `fixed`."""

    work: float
    shares: tuple[float, ...]
    fixed: float = 0.0

    def sum_at(self, rates: FloatArray) -> float:
        """Weighted sum of some rates."""
        return float(np.dot(self.shares, rates))

    def at(self, rates: FloatArray) -> float:
        """Its value at some rates."""
        return self.work / self.sum_at(rates) + self.fixed


@dataclass(frozen=True)
class Group:
    """Jobs whose time counts as one.

    `weight`: of its time in the objective.
    `pieces`: known lower bounds on its time.
    `refine`: from rates to the pieces that are tight there; None if `pieces` are all.
    """

    weight: float
    pieces: tuple[Piece, ...]
    refine: Callable[[FloatArray], Sequence[Piece]] | None = None


@dataclass(frozen=True)
class LinearRow:
    """A linear constraint on the rates."""

    coefficients: tuple[float, ...]
    sense: Sense
    limit: float

    @property
    def scale(self) -> float:
        """Its largest coefficient: solvers count in it."""
        return max(abs(a) for a in self.coefficients)


@dataclass(frozen=True)
class AllocationData:
    """Data of the programme: rates in one unit, times in another.

    `least`, `most`: box of the rates; `most` is finite.
    `units`: 0 for machines whose rate is no multiple of anything.
    """

    groups: tuple[Group, ...]
    rows: tuple[LinearRow, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    units: tuple[float, ...]


@dataclass(frozen=True)
class Allocation:
    """The best rates.

    `rates`, shape (machines,).
    `objective`: weighted sum of the times at these rates.
    `bound`: no rates within the constraints have a smaller one.
    `row_prices`: for each row, what the objective loses per unit by which its limit grows.
    `rate_prices`: for each machine, what the objective loses per unit of rate that it is given for nothing.
    `widest`, shape (machines,): rates that are as good, from before cheaper ones were sought.
    """

    rates: FloatArray
    objective: float
    bound: float
    row_prices: tuple[float, ...]
    rate_prices: tuple[float, ...]
    widest: FloatArray


class Infeasible(ArithmeticError):
    """No rates obey the constraints."""


def extreme_rates(data: AllocationData) -> list[FloatArray]:
    """For each machine, rates within the constraints at which its rate is least, and at which it is largest.

    Raises Infeasible if there are none.
    """
    return [_cheapest_rates(data, sign * row) for row in np.eye(len(data.most)) for sign in (1, -1)]


def _cheapest_rates(data: AllocationData, prices: FloatArray) -> FloatArray:
    """Rates within the constraints whose sum, weighted by prices, is least.

    Raises Infeasible if there are none.
    """
    solver = _solver(data)
    rates = _add_rates(solver, data, max(data.most))
    scale = float(np.abs(prices).max()) or 1.0
    solver.Minimize(sum(float(price) / scale * rate for price, rate in zip(prices, rates, strict=True)))
    return _solved(solver, rates, data)


def allocate(data: AllocationData, prices: FloatArray) -> Allocation:
    """Find the best rates, and of equally good ones the cheapest.

    Raises Infeasible if no rates obey the constraints.

    `prices`, shape (machines,): of a unit of each rate.
    """
    centre = np.mean(extreme_rates(data), axis=0)
    floor = LEAST_SHARE * max(data.most)
    master = _Master(data, centre, floor)
    for number, group in enumerate(data.groups):
        for piece, factor in product(group.pieces, FIRST_TANGENTS):
            master.touch(number, piece, piece.sum_at(master.start) * factor)
    best, objective, bound, rounds, tried = centre, math.inf, 0.0, 0, np.empty(0)
    while rounds < MAX_PROGRAMMES and objective > bound * (1 + CLOSED_GAP):
        rounds, before = rounds + 1, tried
        tried, relaxed = master.solve()
        if np.array_equal(tried, before) and relaxed <= bound * (1 + CLOSED_GAP):
            break  # all that its tolerances let the solver see
        bound = max(bound, relaxed)
        value = master.cut(tried)
        if value < objective:
            best, objective = tried, value
    shadow_prices, widest = master.shadow_prices(), best
    cheapest = master.cheapest(prices, objective, AS_GOOD, MAX_PRICE_PROGRAMMES)
    if cheapest is not None and prices @ cheapest < prices @ best * (1 - WORTH):
        best, objective = cheapest, master.value(cheapest)
    return Allocation(best, objective, min(bound, objective), *shadow_prices, widest)


def _solver(data: AllocationData) -> pywraplp.Solver:
    solver = pywraplp.Solver.CreateSolver("SCIP" if any(data.units) else "GLOP")
    if not any(data.units):
        solver.SetSolverSpecificParametersAsString(PRECISE)
    return solver


def _add_rates(
    solver: pywraplp.Solver, data: AllocationData, scale: float, floor: float = 0.0
) -> list[pywraplp.LinearExpr]:
    """(2) and (3), with rates in units of `scale`; the rows come first among the constraints."""
    rates: list[pywraplp.LinearExpr] = []
    for k, (least, most, unit) in enumerate(zip(data.least, data.most, data.units, strict=True)):
        if unit:
            count = solver.IntVar(math.ceil(least / unit - 1e-9), math.floor(most / unit + 1e-9), f"count{k}")
            rates.append(count * (unit / scale))
        else:
            rates.append(solver.NumVar(min(max(least, floor), most) / scale, most / scale, f"rate{k}"))
    for row in data.rows:
        total = sum(a / row.scale * rate for a, rate in zip(row.coefficients, rates, strict=True) if a)
        limit = row.limit / scale / row.scale
        solver.Add({"<=": total <= limit, ">=": total >= limit, "==": total == limit}[row.sense])
    return rates


def _solved(solver: pywraplp.Solver, rates: Sequence[pywraplp.LinearExpr], data: AllocationData) -> FloatArray:
    status = solver.Solve()
    if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        raise Infeasible
    values, units = np.array([rate.solution_value() for rate in rates]) * max(data.most), np.array(data.units)
    are_whole = units > 0
    values[are_whole] = np.round(values[are_whole] / units[are_whole]) * units[are_whole]
    return np.clip(values, data.least, data.most)


@dataclass
class _Tangent:
    """(1) of one piece at one point: the time of the group is at least `height` minus the slopes times the rates."""

    group: int
    height: float
    slopes: FloatArray


class _Master:
    """The programme with the tangents so far; rates are counted in the largest of them, times in those at the start."""

    def __init__(self, data: AllocationData, start: FloatArray, floor: float) -> None:
        self.data, self.floor, self.start = data, floor, np.maximum(start, floor)
        self.pieces = [list(group.pieces) for group in data.groups]
        self.tangents: list[_Tangent] = []
        self.rate_scale, self.time_scale = max(data.most), self.value(self.start)
        self.solver = _solver(data)
        self.rates = _add_rates(self.solver, data, self.rate_scale, floor)
        self.times = [self.solver.NumVar(0, self.solver.infinity(), f"time{g}") for g in range(len(data.groups))]
        self.solver.Minimize(sum(group.weight * time for group, time in zip(data.groups, self.times, strict=True)))
        self.prices: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def value(self, rates: FloatArray) -> float:
        """The objective at some rates, as far as the pieces say."""
        pairs = zip(self.data.groups, self.pieces, strict=True)
        return sum(group.weight * max(piece.at(rates) for piece in known) for group, known in pairs)

    def solve(self) -> tuple[FloatArray, float]:
        """The best rates for the tangents so far, and the bound that they prove."""
        rates = _solved(self.solver, self.rates, self.data)
        if any(self.data.units):
            return rates, self.solver.Objective().BestBound() * self.time_scale
        duals = np.array([row.dual_value() for row in self.solver.constraints()])
        num_rows = len(self.data.rows)
        of_tangents = self._scaled(duals[num_rows:].clip(min=0))
        of_rows = duals[:num_rows] * self.time_scale / self.rate_scale
        of_rows = of_rows / np.array([row.scale for row in self.data.rows])
        slopes = of_tangents @ np.array([tangent.slopes for tangent in self.tangents])
        self.prices = tuple((-of_rows).tolist()), tuple(slopes.tolist())
        return rates, self._lagrangian(of_tangents, of_rows, slopes)

    def _lagrangian(self, of_tangents: FloatArray, of_rows: FloatArray, slopes: FloatArray) -> float:
        """Least value over the box, a bound for any multipliers of the right signs."""
        bound = float(of_tangents @ np.array([tangent.height for tangent in self.tangents]))
        reduced = -slopes
        for multiplier, row in zip(of_rows, self.data.rows, strict=True):
            sign = {"<=": min(multiplier, 0.0), ">=": max(multiplier, 0.0), "==": multiplier}[row.sense]
            bound += sign * row.limit
            reduced = reduced - sign * np.array(row.coefficients)
        return bound + float(np.minimum(reduced * np.array(self.data.least), reduced * np.array(self.data.most)).sum())

    def _scaled(self, of_tangents: FloatArray) -> FloatArray:
        """Multipliers whose sum over each group is its weight, so that its time drops out."""
        group = np.array([tangent.group for tangent in self.tangents])
        total = np.bincount(group, of_tangents, len(self.data.groups))
        weight = np.array([group.weight for group in self.data.groups])
        factor = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
        scaled: FloatArray = of_tangents * factor[group]
        return scaled

    def cut(self, rates: FloatArray) -> float:
        """The objective at some rates, with a tangent there of the piece that decides about each group."""
        rates = np.maximum(rates, self.floor)
        for number, group in enumerate(self.data.groups):
            if group.refine is not None:
                self.pieces[number] += group.refine(rates)
            piece = max(self.pieces[number], key=lambda one: one.at(rates))
            self.touch(number, piece, max(piece.sum_at(rates), LEAST_SUM * piece.sum_at(self.start)))
        return self.value(rates)

    def cheapest(self, prices: FloatArray, objective: float, as_good: float, rounds: int) -> FloatArray | None:
        """The cheapest rates that are as good; None if so many rounds do not suffice."""
        total = sum(group.weight * time for group, time in zip(self.data.groups, self.times, strict=True))
        self.solver.Add(total <= objective * (1 + as_good / 2) / self.time_scale)
        scale = float(prices.max()) or 1.0
        self.solver.Minimize(sum(float(p) / scale * rate for p, rate in zip(prices, self.rates, strict=True)))
        rates = np.empty(0)
        for _ in range(rounds):
            before = rates
            try:
                rates = _solved(self.solver, self.rates, self.data)
            except Infeasible:
                return None
            if np.array_equal(rates, before):
                return None
            if self.cut(rates) <= objective * (1 + as_good):
                return rates
        return None

    def touch(self, number: int, piece: Piece, total: float) -> None:
        """Add the tangent where the weighted sum of the rates is `total`."""
        slopes = piece.work * np.array(piece.shares) / total**2
        self._add(_Tangent(number, 2 * piece.work / total + piece.fixed, slopes))

    def _add(self, tangent: _Tangent) -> None:
        self.tangents.append(tangent)
        slopes = tangent.slopes * (self.rate_scale / self.time_scale)
        total_slope = sum(float(s) * rate for s, rate in zip(slopes, self.rates, strict=True) if s)
        self.solver.Add(self.times[tangent.group] + total_slope >= tangent.height / self.time_scale)

    def shadow_prices(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Of rows and of rates, at the last optimum of the linear programme; with units at that of its relaxation."""
        if self.prices is not None:
            return self.prices
        relaxed = _Master(replace(self.data, units=(0.0,) * len(self.data.units)), self.start, self.floor)
        for tangent in self.tangents:
            relaxed._add(tangent)
        relaxed.solve()
        return relaxed.shadow_prices()
