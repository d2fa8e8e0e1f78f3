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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from formulations.allocation import (
    Allocation,
    AllocationData,
    Group,
    Infeasible,
    LinearRow,
    Piece,
    allocate,
    extreme_rates,
)
from formulations.fluid import fluid_bound, least_lag, optimal_weights
from formulations.lattice import Arc, JobClass
from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError, check_choice
from themis_opt.base.units import (
    PICOSECONDS_PER_SECOND,
    format_bandwidth,
    format_percent,
    format_short_time,
    nanoseconds,
)
from themis_opt.designing.problem import (
    DOLLARS_PER,
    MONEY_BUDGET,
    DesignNetwork,
    DesignProblem,
    checked,
    instance_of,
    load_problem,
)
from themis_opt.policies.registry import make_policy, specify
from themis_opt.problem.fields import MAX_BANDWIDTH, ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import Split
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.plan import fixed_path
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.lowering import job_class


@dataclass(frozen=True, eq=False)
class WorkloadPart:
    """What a workload does at one time, and how often."""

    name: str  # of the workload and of what is done
    weight: float  # of its time: the weight of the workload times how often it does this
    network: DesignNetwork
    instance: Instance  # on some bandwidths
    parents: tuple[int, ...]  # for each dimension of its fabric, the dimension of the network to be designed

    def at(self, bandwidths: Sequence[float] | FloatArray) -> Instance:
        """The instance with the network that has these bandwidths, in bytes per second."""
        network = self.instance.network
        is_split = len(network.dimensions) < len(self.parents)  # else a dimension for each part
        pairs = zip(network.dimensions, range(len(bandwidths)) if is_split else self.parents, strict=True)
        dimensions = tuple(one.model_copy(update={"bandwidth": float(bandwidths[k])}) for one, k in pairs)
        return self.instance.varied(network=network.varied(dimensions=dimensions))

    def fixed_pieces(self) -> tuple[Piece, ...]:
        """The load of each resource in the fixed order, and its lag."""
        work, fixed = defaultdict[int, float](float), defaultdict[int, float](float)
        for exchange, wire, idle in zip(self.instance.exchanges, self._bytes, self._idle_jobs, strict=True):
            for number, arc in _fixed_arcs(wire, fixed_path(exchange)):
                resource = wire.phases[number].held(arc[1])
                work[resource] += wire.phases[number].duration[arc]
                fixed[resource] += idle.phases[number].duration[arc]
        loads = (Piece(work[r], self._alone(r), fixed[r] + self._lag(r)) for r in sorted(work) if work[r])
        return (*loads, self._compute)

    def least_pieces(self) -> tuple[Piece, ...]:
        """The load of each resource that no order spares it, and its lag."""
        pieces = []
        for r in sorted(self._dimension):
            work = sum(job.least_price({r: 1.0}) for job in self._bytes)
            fixed = sum(job.least_price({r: 1.0}) for job in self._idle_jobs)
            pieces.append(Piece(work, self._alone(r), fixed + self._lag(r)))
        return (*pieces, self._compute)

    def tight_pieces(self, bandwidths: FloatArray) -> list[Piece]:
        """The piece that the duals of the fluid relaxation give at some bandwidths."""
        jobs = self._jobs(bandwidths)
        parents = {r: self.parents[k] for r, k in self._dimension.items()}
        prices = {r: weight / bandwidths[parents[r]] for (_, r), weight in optimal_weights(jobs).items() if weight > 0}
        shares = [0.0] * len(self.network.dimensions)
        for r, price in prices.items():
            shares[parents[r]] += price
        work = sum(job.least_price(prices) for job in self._bytes)
        return [Piece(work, tuple(shares), min(self._lag(r) for r in prices))]

    def fixed_time(self, bandwidths: FloatArray) -> float:
        """Picoseconds in the fixed order."""
        return max(piece.at(bandwidths) for piece in self.fixed_pieces())

    def fluid_time(self, bandwidths: FloatArray) -> float:
        """Picoseconds that no schedule with these bandwidths beats."""
        return max(fluid_bound(self._jobs(bandwidths)), self._compute.fixed)

    def schedule(self, bandwidths: FloatArray, policy: str) -> Schedule:
        """What a policy, by its specification, makes of these bandwidths."""
        instance = self.at(bandwidths)
        schedule = simulate(instance, make_policy(specify(policy, instance))(instance))
        validate(schedule)
        return schedule

    @cached_property
    def _compute(self) -> Piece:
        """The tasks of an iteration, which are serial."""
        return Piece(0.0, (1.0,) * len(self.network.dimensions), float(self.instance.compute))

    @cached_property
    def _bytes(self) -> tuple[JobClass, ...]:
        """The exchanges with the time their bytes take at one byte per second."""
        return tuple(
            _combined(slow, fast, lambda k, long, short: long - short)
            for slow, fast in zip(self._jobs_at(1.0), self._jobs_at(MAX_BANDWIDTH), strict=True)
        )

    @cached_property
    def _idle_jobs(self) -> tuple[JobClass, ...]:
        """The exchanges with the time that no bandwidth shortens: launches, sums, latency that occupies."""
        return tuple(
            _combined(fast, work, lambda k, short, bytes_alone: max(short - bytes_alone / MAX_BANDWIDTH, 0.0))
            for fast, work in zip(self._jobs_at(MAX_BANDWIDTH), self._bytes, strict=True)
        )

    def _jobs_at(self, bandwidth: float) -> tuple[JobClass, ...]:
        instance = self.at([bandwidth] * len(self.network.dimensions))
        jobs = (job_class(instance, exchange, exchange.size, "fluid") for exchange in instance.exchanges)
        return tuple(replace(job, release=0) for job in jobs)

    def _jobs(self, bandwidths: FloatArray) -> list[JobClass]:
        rates = [float(bandwidths[parent]) for parent in self.parents]
        pairs = zip(self._bytes, self._idle_jobs, strict=True)
        return [_combined(wire, idle, lambda k, work, fixed: work / rates[k] + fixed) for wire, idle in pairs]

    @cached_property
    def _dimension(self) -> Mapping[int, int]:
        return {phase.held(k): k for job in self._bytes for phase in job.phases for k in job.machines}

    def _lag(self, resource: int) -> float:
        return least_lag(self._idle_jobs, 0, resource)

    def _alone(self, resource: int) -> tuple[float, ...]:
        parent = self.parents[self._dimension[resource]]
        return tuple(float(other == parent) for other in range(len(self.network.dimensions)))


def parts_of(problem: DesignProblem) -> Iterator[WorkloadPart]:
    """The parts of all workloads.

    Raises InputError if a workload names an instance that there is not, or a dimension, or could outlast the clock.
    """
    network, reference = problem.network, [1e9] * len(problem.network.dimensions)
    for number, workload in enumerate(problem.workloads):
        if workload.collectives is None:
            instance = instance_of(problem, number, workload)
            pairs = zip(network.at(reference).dimensions, instance.network.dimensions, strict=True)
            renamed = tuple(dimension.model_copy(update={"name": other.name}) for dimension, other in pairs)
            splits = instance.iteration.splits if instance.iteration else ()
            parents = _parents(instance.network.dimension_names, splits)
            instance = instance.varied(network=instance.network.varied(dimensions=renamed))
            yield WorkloadPart(workload.name, workload.weight, network, checked(instance, workload.name), parents)
            continue
        fabric = Network(name=network.name, dimensions=tuple(_fabric(network, reference)))
        parents = _parents(network.dimension_names, network.splits)
        for position, entry in enumerate(workload.collectives, start=1):
            label = f"{workload.name}.{entry.name or f'{entry.kind}{position}'}"
            collective = entry.model_dump(mode="json", exclude_unset=True, exclude={"count", "release"})
            try:
                instance = checked(Instance(name=label, network=fabric, collectives=(collective,)), label)
            except ModelError as error:
                field = f"workloads[{number}].collectives[{position - 1}]"
                raise InputError(error.rule, field=field) from None
            yield WorkloadPart(label, workload.weight * entry.count, network, instance, parents)


def _fabric(network: DesignNetwork, bandwidths: Sequence[float]) -> Iterator[Dimension]:
    """The dimensions, and the parts of those that are split."""
    splits = {split.dimension: split for split in network.splits}
    for name, dimension in zip(network.dimension_names, network.at(bandwidths).dimensions, strict=True):
        split = splits.get(name)
        parts = [(name, dimension.size)] if split is None else list(zip(split.names, split.sizes, strict=True))
        yield from (dimension.replace(name=part, size=size) for part, size in parts)


def _parents(names: Sequence[str], splits: Sequence[Split]) -> tuple[int, ...]:
    parts = {split.dimension: len(split.sizes) for split in splits}
    return tuple(k for k, name in enumerate(names) for _ in range(parts.get(name, 1)))


def _combined(one: JobClass, other: JobClass, value: Callable[[int, float, float], float]) -> JobClass:
    """A class whose durations are made of those of two, arc by arc."""
    phases = tuple(
        replace(first, duration={arc: value(arc[1], d, second.duration[arc]) for arc, d in first.duration.items()})
        for first, second in zip(one.phases, other.phases, strict=True)
    )
    return replace(one, phases=phases)


def _fixed_arcs(job: JobClass, path: Sequence[int]) -> Iterator[tuple[int, Arc]]:
    width = len(path) // len(job.phases)
    for number in range(len(job.phases)):
        visited = 0
        for machine in path[number * width : (number + 1) * width]:
            yield number, (visited, machine)
            visited |= 1 << machine


Reading = Literal["fixed", "free", "simulated"]
READINGS: tuple[Reading, ...] = get_args(Reading)

FIXED_POLICY, FREE_POLICY = "baseline", "hourglass"
"""What simulates an answer: the fixed order, and the policy for any order."""


FIRST_STEP, LAST_STEP = 0.1, 0.001
"""Share of the way towards an extreme allocation that the simulated reading tries at first, and at which it ends."""


@dataclass(frozen=True, eq=False)
class Design:
    """Bandwidths for a network of dimensions.

    Attributes
    ----------
    problem : DesignProblem
        What was asked.
    bound : float
        Picoseconds: no allocation within the constraints is faster in this reading; those of *free* and *simulated*
        are the same, and hold for every schedule of the model.
    allocation : Allocation
        The solution of the programme behind it, with its shadow prices.
    reading : str
        In which time is counted.
    policy : str
        What simulates.
    bandwidths : float64 array, shape (dimensions,)
        Bytes per second.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.design("libra.resnet-50_4d.sum500", "fixed").reading
    'fixed'
    """

    problem: DesignProblem
    bound: float
    allocation: Allocation
    reading: Reading
    policy: str
    bandwidths: FloatArray
    parts: tuple[WorkloadPart, ...]

    @property
    def time(self) -> float:
        """Weighted picoseconds of all workloads, in the reading of the design."""
        return self.times[self.reading]

    @property
    def gap(self) -> float:
        """How far the time may be from the best possible, as a fraction of that."""
        return self.time / self.bound - 1

    @property
    def money(self) -> float:
        """Dollars for the whole network."""
        return float(sum(r.dollars * value for r, value in zip(self.problem.rates, self.bandwidths, strict=True)))

    @property
    def constraint_prices(self) -> dict[str, float]:
        """Picoseconds saved by one more GB/s, or one more dollar, in every constraint."""
        pairs = zip(self.problem.rows, self.allocation.row_prices, strict=True)
        return {text: price if text == MONEY_BUDGET else price * DOLLARS_PER for text, price in pairs}

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

    @cached_property
    def utilisation(self) -> FloatArray:
        """Share of the simulated time for which each dimension sends at its full bandwidth, shape (dimensions,)."""
        sent = np.zeros(len(self.bandwidths))
        for part, schedule in zip(self.parts, self.schedules, strict=True):
            sizes = np.bincount(schedule.plan.stage_dimensions, schedule.costs.sent, len(part.parents))
            np.add.at(sent, list(part.parents), part.weight * sizes)
        return sent / self.bandwidths * PICOSECONDS_PER_SECOND / self.times["simulated"]

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
        dimensions = zip(self.problem.rates, self.problem.network.dimensions, self.bandwidths.tolist(), strict=True)
        provisioned = (("-", 1.0), *self.provisioning)
        figures = zip(self.utilisation.tolist(), self.allocation.rate_prices, provisioned, strict=True)
        return [
            {
                "dimension": rate.name,
                "kind": dimension.kind.value,
                "size": dimension.size,
                "bandwidth": bandwidth,
                "links": round(bandwidth / rate.unit) if rate.unit else None,
                "money": bandwidth * rate.dollars,
                "utilisation": utilisation,
                "saved_ns_per_gb_per_s": nanoseconds(saved * DOLLARS_PER),
                "provisioned": word,
                "provisioned_factor": factor,
            }
            for (rate, dimension, bandwidth), (utilisation, saved, (word, factor)) in zip(
                dimensions, figures, strict=True
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
    problem: DesignProblem | str | Path, reading: Reading = "free", *, policy: str | None = None, evaluations: int = 200
) -> Design:
    """Find the bandwidths of a network, of equally good ones the cheapest.

    Parameters
    ----------
    problem : DesignProblem, str or path
        The problem, its file, or the name of a shipped one.
    reading : {"free", "fixed", "simulated"}
        What is minimised: the fluid bound over all orders, the busiest dimension in the fixed order, or the makespan
        of a policy.
    policy : str, optional
        What simulates; ``hourglass`` by default, in the fixed order ``baseline``.
    evaluations : int
        Most allocations that the simulated reading tries around the best one for free orders.

    Raises
    ------
    InputError
        If the problem breaks a rule, has no solution, or leaves a bandwidth without limit.

    Examples
    --------
    >>> design("libra.resnet-50_4d.sum500", "fixed").reading
    'fixed'
    """
    if not isinstance(problem, DesignProblem):
        problem = load_problem(problem)
    check_choice(reading, READINGS, "reading")
    parts = tuple(parts_of(problem))
    policy = policy or (FIXED_POLICY if reading == "fixed" else FREE_POLICY)
    in_order = allocated(problem, tuple(Group(part.weight, part.fixed_pieces()) for part in parts))
    if reading == "fixed":
        return Design(problem, in_order.bound, in_order, reading, policy, in_order.rates, parts)
    groups = tuple(Group(part.weight, part.least_pieces(), part.tight_pieces) for part in parts)
    allocation = allocated(problem, groups)
    rates = allocation.rates
    bound = min(allocation.bound, sum(part.weight * part.fluid_time(rates) for part in parts))
    if reading == "simulated":
        rates = _refined(problem, parts, (rates, allocation.widest, in_order.rates), policy, evaluations)
    return Design(problem, bound, allocation, reading, policy, rates, parts)


def _provisioning(factor: float) -> tuple[str, float]:
    if abs(factor - 1) <= 0.01:
        return "just enough", factor
    return ("over-provisioned" if factor > 1 else "under-provisioned"), factor


def _refined(
    problem: DesignProblem, parts: Sequence[WorkloadPart], starts: Sequence[FloatArray], policy: str, evaluations: int
) -> FloatArray:
    """Pattern search: steps towards extreme allocations, or by whole links, as long as the simulated time falls."""
    data = programme_of(problem)

    def time(rates: FloatArray) -> float:
        return sum(part.weight * part.schedule(rates, policy).makespan for part in parts)

    corners, step, left = [*extreme_rates(data), *starts], FIRST_STEP, evaluations - len(starts)
    shortest, best = min(((time(rates), rates) for rates in starts), key=lambda pair: pair[0])
    while step >= LAST_STEP and left > 0:
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


def on_design(designs: Sequence[Design]) -> tuple[str, ...]:
    """What free orders make of a design for the fixed one, and where more bandwidth would help most, in sentences."""
    best = min(designs, key=lambda answer: answer.time)
    dearest = max(best.rows(), key=lambda row: row["saved_ns_per_gb_per_s"])
    proven = f"no bandwidths are more than {format_percent(1 - best.bound / best.time)} faster, which is proven"
    sentences = [f"The best design takes {format_short_time(best.time)} ({best.reading} order); {proven}."]
    if dearest["saved_ns_per_gb_per_s"] > 0:
        sentences.append(f"One more GB/s helps most on {dearest['dimension']}.")
    return tuple(sentences)


NO_SOLUTION = "no bandwidths obey all constraints"


def allocated(problem: DesignProblem, groups: tuple[Group, ...]) -> Allocation:
    """The best rates, of equally good ones the cheapest. Raises InputError if there are none."""
    try:
        return allocate(programme_of(problem, groups), np.array([rate.dollars for rate in problem.rates]))
    except Infeasible:
        raise InputError(NO_SOLUTION, field="constraints") from None


def programme_of(problem: DesignProblem, groups: tuple[Group, ...] = ()) -> AllocationData:
    """The data of the programme.

    Raises InputError if nothing limits a bandwidth, or constraints leave one less than it needs.
    """
    rows, least = tuple(problem.rows.values()), tuple(rate.least for rate in problem.rates)
    limits = _tightened(least, [rate.most for rate in problem.rates], rows)
    for rate, limit in zip(problem.rates, limits, strict=True):
        if limit == math.inf:
            raise InputError("nothing limits its bandwidth: give it 'most' or 'links', or a budget", field=rate.name)
        if limit <= 0:
            raise InputError("the constraints leave it no bandwidth", field=rate.name)
        if limit < rate.least * (1 - 1e-9):  # which sums of floating-point numbers may lose
            left = f"{rate.name} needs {format_bandwidth(rate.least)}, and they leave it {format_bandwidth(limit)}"
            raise InputError(f"{NO_SOLUTION}: {left}", field="constraints")
    return AllocationData(groups, rows, least, tuple(limits), tuple(rate.unit for rate in problem.rates))


def _tightened(least: Sequence[float], most: Sequence[float], rows: Sequence[LinearRow]) -> list[float]:
    """The largest rates that rows allow, one row at a time, as often as they change something."""
    limits, signs = list(most), {"<=": (1,), ">=": (-1,), "==": (1, -1)}
    repeated = [*rows] * (len(limits) + 1)
    for row, sign in ((one, sign) for one in repeated for sign in signs[one.sense]):
        coefficients = [sign * a for a in row.coefficients]
        smallest = [a * least[k] if a > 0 else a * limits[k] if a else 0.0 for k, a in enumerate(coefficients)]
        for k, a in enumerate(coefficients):
            if a > 0:
                others = sum(value for other, value in enumerate(smallest) if other != k)
                limits[k] = min(limits[k], max((sign * row.limit - others) / a, 0.0))
    return limits


def obeys(data: AllocationData, rates: FloatArray) -> bool:
    """Whether rates are within all limits and constraints, up to rounding."""
    slack = 1e-9 * max(data.most)
    if (rates < np.array(data.least) - slack).any() or (rates > np.array(data.most) + slack).any():
        return False
    excess = [float(np.dot(row.coefficients, rates)) - row.limit for row in data.rows]
    signs = {"<=": lambda e: e <= slack, ">=": lambda e: e >= -slack, "==": lambda e: abs(e) <= slack}
    return all(signs[row.sense](e) for row, e in zip(data.rows, excess, strict=True))
