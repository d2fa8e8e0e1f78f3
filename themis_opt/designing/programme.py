"""What designs of dimensions and of graphs share: the programme of :mod:`formulations.allocation`, and its prices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.allocation import Allocation, AllocationData, Group, Infeasible, LinearRow, allocate
from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_bandwidth, nanoseconds
from themis_opt.designing.problem import DOLLARS_PER, MONEY_BUDGET, AnyDesignProblem

NO_SOLUTION = "no bandwidths obey all constraints"


@dataclass(frozen=True, eq=False)
class AnyDesign:
    """Bandwidths for a network.

    Attributes
    ----------
    problem : DesignProblem or GraphDesignProblem
        What was asked.
    bound : float
        Picoseconds: no bandwidths within the constraints are faster.
    allocation : Allocation
        The solution of the programme behind it, with its shadow prices.
    """

    problem: AnyDesignProblem
    bound: float
    allocation: Allocation

    @property
    def time(self) -> float:
        """Picoseconds of what is minimised."""
        raise NotImplementedError

    @property
    def values(self) -> Sequence[float]:
        """Bytes per second of every rate that has a name."""
        raise NotImplementedError

    @property
    def gap(self) -> float:
        """How far the time may be from the best possible, as a fraction of that."""
        return self.time / self.bound - 1

    @property
    def money(self) -> float:
        """Dollars for the whole network."""
        return float(sum(r.dollars * value for r, value in zip(self.problem.rates, self.values, strict=False)))

    @property
    def dimension_prices(self) -> tuple[float, ...]:
        """Picoseconds that one more GB/s would save on each dimension or group if it cost nothing."""
        return tuple(price * DOLLARS_PER for price in self.allocation.rate_prices[: len(self.problem.names)])

    @property
    def constraint_prices(self) -> dict[str, float]:
        """Picoseconds saved by one more GB/s, or one more dollar, in every constraint."""
        pairs = zip(self.problem.rows, self.allocation.row_prices, strict=True)
        return {text: price if text == MONEY_BUDGET else price * DOLLARS_PER for text, price in pairs}

    def price_rows(self) -> list[dict[str, Any]]:
        """The same as rows; times are in nanoseconds."""
        return [{"constraint": text, "saved_ns": nanoseconds(p)} for text, p in self.constraint_prices.items()]


def allocated(problem: AnyDesignProblem, groups: tuple[Group, ...]) -> Allocation:
    """The best rates, of equally good ones the cheapest. Raises InputError if there are none."""
    try:
        return allocate(programme_of(problem, groups), np.array([rate.dollars for rate in problem.rates]))
    except Infeasible:
        raise InputError(NO_SOLUTION, field="constraints") from None


def programme_of(problem: AnyDesignProblem, groups: tuple[Group, ...] = ()) -> AllocationData:
    """The data of the programme.

    Raises InputError if nothing limits a bandwidth, or constraints leave one less than it needs.
    """
    rows, least = tuple(problem.rows.values()), tuple(rate.least for rate in problem.rates)
    limits = _tightened(least, [rate.most for rate in problem.rates], rows)
    for rate, limit in zip(problem.rates, limits, strict=True):
        if limit == math.inf:
            raise InputError(f"nothing limits its bandwidth: {problem.remedy}, or a budget", field=rate.name)
        if limit <= 0:
            raise InputError("the constraints leave it no bandwidth", field=rate.name)
        if limit < rate.least * (1 - 1e-9):  # which sums of floating-point numbers may lose
            left = f"{rate.name} needs {format_bandwidth(rate.least)}, and they leave it {format_bandwidth(limit)}"
            raise InputError(f"{NO_SOLUTION}: {left}", field="constraints")
    return AllocationData(groups, rows, least, tuple(limits), tuple(rate.unit for rate in problem.rates))


def _tightened(least: Sequence[float], most: Sequence[float], rows: Sequence[LinearRow]) -> list[float]:
    """The largest rates that rows allow, one row at a time, as often as they change something."""
    limits = list(most)
    for _ in range(len(limits) + 1):
        for row in rows:
            for sign in {"<=": (1,), ">=": (-1,), "==": (1, -1)}[row.sense]:
                _tighten(least, limits, [sign * a for a in row.coefficients], sign * row.limit)
    return limits


def _tighten(least: Sequence[float], limits: list[float], coefficients: Sequence[float], limit: float) -> None:
    """Lower limits by one row: the sum of coefficients times rates is at most `limit`."""
    smallest = [a * least[k] if a > 0 else a * limits[k] if a else 0.0 for k, a in enumerate(coefficients)]
    for k, a in enumerate(coefficients):
        if a > 0:
            others = sum(value for other, value in enumerate(smallest) if other != k)
            limits[k] = min(limits[k], max((limit - others) / a, 0.0))


def obeys(data: AllocationData, rates: FloatArray) -> bool:
    """Whether rates are within all limits and constraints, up to rounding."""
    slack = 1e-9 * max(data.most)
    if (rates < np.array(data.least) - slack).any() or (rates > np.array(data.most) + slack).any():
        return False
    excess = [float(np.dot(row.coefficients, rates)) - row.limit for row in data.rows]
    signs = {"<=": lambda e: e <= slack, ">=": lambda e: e >= -slack, "==": lambda e: abs(e) <= slack}
    return all(signs[row.sense](e) for row, e in zip(data.rows, excess, strict=True))
