"""Designing a network: the bandwidths that make its workloads fastest, with a proof that none do better.

Three readings of how long a workload takes:

*fixed*
    every chunk visits the dimensions in the fixed order, so that a collective takes as long as its busiest dimension
    (W. Won et al., *LIBRA*, ISPASS 2024, https://doi.org/10.1109/ISPASS61541.2024.00028);
*free*
    the fluid relaxation over all orders, which every schedule of the model is at least as long as;
*simulated*
    the makespan of a policy, with launches, packets and latency.

The bound of *free* and *simulated* holds for every schedule of the model on every network within the constraints.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from formulations.allocation import (
    Allocation,
    AllocationData,
    Infeasible,
    LinearRow,
    allocate,
    cheapest_rates,
    extreme_rates,
)
from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_bandwidth, nanoseconds
from themis_opt.designing.problem import DOLLARS_PER, DesignProblem, load_problem
from themis_opt.designing.times import WorkloadPart, fixed_group, free_group, parts_of
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule

Reading = Literal["fixed", "free", "simulated"]
READINGS: tuple[Reading, ...] = get_args(Reading)

FIXED_POLICY, FREE_POLICY = "baseline", "hourglass"
"""What simulates an answer: the fixed order, and the policy for any order."""

BANDWIDTH_BUDGET, MONEY_BUDGET = "budget: bandwidth", "budget: money"


@dataclass(frozen=True)
class SearchParams:
    """How far the simulated reading looks around the best allocation for free orders.

    `evaluations`: most allocations that are simulated.
    `first_step`, `last_step`: share of the way towards an extreme allocation that is tried at first, and at which the
      search ends.
    """

    evaluations: int = 200
    first_step: float = 0.1
    last_step: float = 0.001


@dataclass(frozen=True, eq=False)
class Design:
    """Bandwidths for a network.

    Attributes
    ----------
    problem : DesignProblem
        What was asked.
    reading : str
        In which time is counted.
    policy : str
        What simulates.
    bandwidths : float64 array, shape (dimensions,)
        Bytes per second.
    bound : float
        Picoseconds: no allocation within the constraints is faster in this reading; those of *free* and *simulated*
        are the same, and hold for every schedule of the model.
    allocation : Allocation
        The solution of the programme behind it, with its shadow prices.
    """

    problem: DesignProblem
    reading: Reading
    policy: str
    bandwidths: FloatArray
    bound: float
    allocation: Allocation
    parts: tuple[WorkloadPart, ...]

    @property
    def time(self) -> float:
        """Weighted picoseconds of all workloads, in the reading of the design."""
        return self.times[self.reading]

    @property
    def gap(self) -> float:
        """How far the time may be from the best possible, as a fraction of that."""
        return max(self.time / self.bound - 1, 0.0)

    @cached_property
    def times(self) -> dict[Reading, float]:
        """Weighted picoseconds of all workloads in every reading."""
        return {
            "fixed": sum(part.weight * part.fixed_time(self.bandwidths) for part in self.parts),
            "free": sum(part.weight * part.fluid_time(self.bandwidths) for part in self.parts),
            "simulated": sum(part.weight * s.makespan for part, s in zip(self.parts, self.schedules, strict=True)),
        }

    @cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """What the policy makes of each part."""
        return tuple(part.schedule(self.bandwidths, self.policy) for part in self.parts)

    @property
    def money(self) -> float:
        """Dollars for the whole network."""
        return float(np.dot(_dollars(self.problem), self.bandwidths))

    @cached_property
    def utilisation(self) -> FloatArray:
        """Share of the simulated time for which each dimension sends at its full bandwidth, shape (dimensions,)."""
        sent = np.zeros(len(self.bandwidths))
        for part, schedule in zip(self.parts, self.schedules, strict=True):
            sizes = np.bincount(schedule.plan.stage_dimensions, schedule.costs.sent, len(part.parents))
            np.add.at(sent, list(part.parents), part.weight * sizes)
        return sent / self.bandwidths * PICOSECONDS_PER_SECOND / self.times["simulated"]

    @property
    def dimension_prices(self) -> tuple[float, ...]:
        """Picoseconds that one more GB/s would save on each dimension if it cost nothing."""
        return tuple(price * DOLLARS_PER for price in self.allocation.rate_prices)

    @property
    def constraint_prices(self) -> dict[str, float]:
        """Picoseconds saved by one more GB/s, or one more dollar, in every constraint."""
        texts = (text for text, _ in _rows(self.problem))
        pairs = zip(texts, self.allocation.row_prices, strict=True)
        return {text: price if text == MONEY_BUDGET else price * DOLLARS_PER for text, price in pairs}

    @property
    def provisioning(self) -> tuple[tuple[str, float], ...]:
        """How each dimension but the first stands beside the one before it, and by what factor (Themis, section 6.3).

        *Just enough* is the bandwidth of the one before over its size: chunks have shrunk by that.  An
        *over-provisioned* dimension has more, which only other orders than the fixed one can use; an
        *under-provisioned* one has less, and no order can fill both.
        """
        pairs = pairwise(zip(self.problem.network.dimensions, self.bandwidths.tolist(), strict=True))
        return tuple(_provisioning(outer * before.size / inner) for (before, inner), (_, outer) in pairs)

    def instances(self) -> dict[str, Instance]:
        """The parts of the workloads on the designed network, by name."""
        return {part.name: part.at(self.bandwidths) for part in self.parts}

    def rows(self) -> list[dict[str, Any]]:
        """One row per dimension, innermost first; times are in nanoseconds, bandwidths in bytes per second."""
        network, dollars = self.problem.network, _dollars(self.problem)
        enough = (("-", 1.0), *self.provisioning)
        return [
            {
                "dimension": name,
                "kind": dimension.kind.value,
                "size": dimension.size,
                "bandwidth": bandwidth,
                "links": round(bandwidth / dimension.links.rate) if dimension.links else None,
                "money": bandwidth * price,
                "utilisation": utilisation,
                "saved_ns_per_gb_per_s": nanoseconds(saved),
                "provisioned": word,
                "provisioned_factor": factor,
            }
            for name, dimension, bandwidth, price, utilisation, saved, (word, factor) in zip(
                network.dimension_names,
                network.dimensions,
                self.bandwidths.tolist(),
                dollars.tolist(),
                self.utilisation.tolist(),
                self.dimension_prices,
                enough,
                strict=True,
            )
        ]

    def summary(self) -> dict[str, Any]:
        """One row for the whole; times are in nanoseconds."""
        return {
            "reading": self.reading,
            "time_ns": nanoseconds(self.time),
            "bound_ns": nanoseconds(self.bound),
            "gap": self.gap,
            "fixed_ns": nanoseconds(self.times["fixed"]),
            "free_ns": nanoseconds(self.times["free"]),
            "simulated_ns": nanoseconds(self.times["simulated"]),
            "policy": self.policy,
            "bandwidth": float(self.bandwidths.sum()),
            "money": self.money,
        }

    def document(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        prices = [{"constraint": text, "saved_ns": nanoseconds(p)} for text, p in self.constraint_prices.items()]
        return self.summary() | {"dimensions": self.rows(), "constraints": prices}


def design(
    problem: DesignProblem | str | Path,
    reading: Reading = "free",
    *,
    policy: str | None = None,
    params: SearchParams | None = None,
) -> Design:
    """Find the bandwidths of a network.

    Parameters
    ----------
    problem : DesignProblem, str or path
        The problem, its file, or the name of a shipped one.
    reading : {"free", "fixed", "simulated"}
        What is minimised: the fluid bound over all orders, the busiest dimension in the fixed order, or the makespan
        of a policy.
    policy : str, optional
        What simulates; ``hourglass`` by default, in the fixed order ``baseline``.
    params : SearchParams, optional
        How far the simulated reading searches.

    Of equally good bandwidths the cheapest are taken.

    Raises
    ------
    InputError
        If the problem breaks a rule, has no solution, or leaves a bandwidth without limit.
    """
    if not isinstance(problem, DesignProblem):
        problem = load_problem(problem)
    if reading not in READINGS:
        raise InputError(f"must be one of {', '.join(READINGS)}", field="reading", value=reading)
    parts = parts_of(problem)
    policy = policy or (FIXED_POLICY if reading == "fixed" else FREE_POLICY)
    in_order = _allocation(problem, parts, fixed_group)
    if reading == "fixed":
        return Design(problem, reading, policy, in_order.rates, in_order.bound, in_order, parts)
    allocation = _allocation(problem, parts, free_group)
    rates = allocation.rates
    bound = min(allocation.bound, sum(part.weight * part.fluid_time(rates) for part in parts))
    if reading == "simulated":
        rates = _refined(problem, parts, (rates, allocation.widest, in_order.rates), policy, params or SearchParams())
    return Design(problem, reading, policy, rates, bound, allocation, parts)


def pareto(
    problem: DesignProblem, points: int, reading: Reading = "free", *, policy: str | None = None
) -> list[Design]:
    """The best designs for several budgets, from an eighth of the largest, or the least that is possible, upwards.

    The budget is that of money where the problem states prices, else that of bandwidth.

    Raises
    ------
    InputError
        As :func:`design`, or if there are less than two points.
    """
    if points < 2:
        raise InputError("must be at least 2", field="pareto", value=points)
    kind = "money" if _dollars(problem).any() else "bandwidth"
    whole = design(problem, reading, policy=policy)
    per_unit = _dollars(problem) if kind == "money" else np.ones(len(whole.bandwidths))
    largest = float(per_unit @ whole.bandwidths)
    least = float(per_unit @ cheapest_rates(_data(problem, ()), per_unit))
    start = min(max(least * (1 + 1e-6), largest / 8), largest)  # above the least, so that rounding leaves it possible
    budgets = np.geomspace(start, largest, points)[:-1].tolist()
    cheaper = (problem.varied(budget=problem.budget.model_copy(update={kind: value})) for value in budgets)
    return [*(design(variant, reading, policy=policy) for variant in cheaper), whole]


def _provisioning(factor: float) -> tuple[str, float]:
    if abs(factor - 1) <= 0.01:
        return "just enough", factor
    return ("over-provisioned" if factor > 1 else "under-provisioned"), factor


def _allocation(
    problem: DesignProblem, parts: Iterable[WorkloadPart], group: Callable[[WorkloadPart], Any]
) -> Allocation:
    try:
        return allocate(_data(problem, tuple(group(part) for part in parts)), _dollars(problem))
    except Infeasible:
        raise InputError("no bandwidths obey all constraints", field="constraints") from None


def _dollars(problem: DesignProblem) -> FloatArray:
    """Dollars for each byte per second of every dimension, for all NPUs."""
    dimensions = problem.network.dimensions
    npus = math.prod(dimension.size for dimension in dimensions)
    return np.array(
        [dimension.price.per_bandwidth(dimension.kind, dimension.size) * npus / DOLLARS_PER for dimension in dimensions]
    )


def _rows(problem: DesignProblem) -> list[tuple[str, LinearRow]]:
    """The linear constraints with their texts, budgets last."""
    rows = [(row.text, LinearRow(row.coefficients, row.sense, row.limit)) for row in problem.rows]
    if problem.budget.bandwidth is not None:
        ones = (1.0,) * len(problem.network.dimensions)
        rows.append((BANDWIDTH_BUDGET, LinearRow(ones, "<=", problem.budget.bandwidth)))
    if problem.budget.money is not None:
        rows.append((MONEY_BUDGET, LinearRow(tuple(_dollars(problem).tolist()), "<=", problem.budget.money)))
    return rows


def _data(problem: DesignProblem, groups: tuple[Any, ...]) -> AllocationData:
    dimensions, rows = problem.network.dimensions, tuple(row for _, row in _rows(problem))
    least, most, units = [], [], []
    for dimension in dimensions:
        links = dimension.links
        fixed = dimension.bandwidth if dimension.is_fixed else None
        least.append(fixed or (links.least * links.rate if links else dimension.least))
        most.append(fixed or (links.most * links.rate if links else dimension.most or math.inf))
        units.append(links.rate if links else 0.0)
    limits = tightened(least, most, rows)
    for name, needed, limit in zip(problem.network.dimension_names, least, limits, strict=True):
        if limit == math.inf:
            raise InputError("nothing limits its bandwidth: give it 'most' or 'links', or a budget", field=name)
        if limit <= 0:
            raise InputError("the constraints leave it no bandwidth", field=name)
        if limit < needed * (1 - 1e-9):  # which sums of floating-point numbers may lose
            left = f"{name} needs {format_bandwidth(needed)}, and they leave it {format_bandwidth(limit)}"
            raise InputError(f"no bandwidths obey all constraints: {left}", field="constraints")
    return AllocationData(groups, rows, tuple(least), tuple(limits), tuple(units))


def tightened(least: Sequence[float], most: Sequence[float], rows: Sequence[LinearRow]) -> list[float]:
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


def _refined(
    problem: DesignProblem,
    parts: Sequence[WorkloadPart],
    starts: Sequence[FloatArray],
    policy: str,
    params: SearchParams,
) -> FloatArray:
    """Pattern search: steps towards extreme allocations, or by whole links, as long as the simulated time falls."""
    data = _data(problem, ())

    def time(rates: FloatArray) -> float:
        return sum(part.weight * part.schedule(rates, policy).makespan for part in parts)

    corners, step, left = [*extreme_rates(data), *starts], params.first_step, params.evaluations - len(starts)
    shortest, best = min(((time(rates), rates) for rates in starts), key=lambda pair: pair[0])
    while step >= params.last_step and left > 0:
        tried = list(_around(data, best, corners, step))[:left]
        left -= len(tried)
        times = [time(rates) for rates in tried]
        if times and min(times) < shortest:
            shortest, best = min(times), tried[int(np.argmin(times))]
        elif any(data.units):
            break
        else:
            step /= 3
    return best


def _around(
    data: AllocationData, rates: FloatArray, corners: Iterable[FloatArray], step: float
) -> Iterable[FloatArray]:
    """Allocations near one: on the way to the corners, or with one link more or less and one elsewhere in exchange."""
    if not any(data.units):
        for corner in corners:
            moved = rates + step * (corner - rates)
            if moved.min() > 0 and not np.array_equal(moved, rates):
                yield moved
        return
    moves = [sign * unit * np.eye(len(rates))[k] for k, unit in enumerate(data.units) if unit for sign in (1, -1)]
    for one in [np.zeros(len(rates)), *moves]:
        for other in moves:
            if obeys(data, rates + one + other) and np.any(one + other):
                yield rates + one + other


def obeys(data: AllocationData, rates: FloatArray) -> bool:
    """Whether rates are within all limits and constraints, up to rounding."""
    slack = 1e-9 * max(data.most)
    if (rates < np.array(data.least) - slack).any() or (rates > np.array(data.most) + slack).any():
        return False
    excess = [float(np.dot(row.coefficients, rates)) - row.limit for row in data.rows]
    signs = {"<=": lambda e: e <= slack, ">=": lambda e: e >= -slack, "==": lambda e: abs(e) <= slack}
    return all(signs[row.sense](e) for row, e in zip(data.rows, excess, strict=True))
