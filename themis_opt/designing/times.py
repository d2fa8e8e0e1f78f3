"""How long a workload takes as a function of the bandwidths: in the fixed order, with free orders, and simulated.

What NPUs do one after the other is a *part* of a workload: one collective, or a whole instance whose exchanges may
overlap.  In the fixed order a part takes as long as its busiest dimension; with free orders the fluid relaxation over
all orders takes that place, which no schedule of the model beats.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pydantic import ValidationError

from formulations.allocation import Group, Piece
from formulations.fluid import fluid_bound, least_lag, optimal_weights
from formulations.lattice import Arc, JobClass
from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.designing.problem import DesignNetwork, DesignProblem, DesignWorkload, checked, instance_of
from themis_opt.policies.registry import make_policy, specify
from themis_opt.problem.fields import MAX_BANDWIDTH, located
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
        if len(network.dimensions) == len(self.parents):
            values = [float(bandwidths[k]) for k in self.parents]
        else:
            values = [float(value) for value in bandwidths]
        pairs = zip(network.dimensions, values, strict=True)
        dimensions = tuple(dimension.model_copy(update={"bandwidth": value}) for dimension, value in pairs)
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
        """A dimension of each resource in use."""
        return {phase.held(k): k for job in self._bytes for phase in job.phases for k in job.machines}

    def _lag(self, resource: int) -> float:
        return least_lag(self._idle_jobs, 0, resource)

    def _alone(self, resource: int) -> tuple[float, ...]:
        parent = self.parents[self._dimension[resource]]
        return tuple(float(other == parent) for other in range(len(self.network.dimensions)))


def parts_of(problem: DesignProblem) -> tuple[WorkloadPart, ...]:
    """The parts of all workloads.

    Raises InputError if a workload names an instance that there is not, or a dimension, or could outlast the clock.
    """
    return tuple(
        part for number, workload in enumerate(problem.workloads) for part in _parts(problem, number, workload)
    )


def fixed_group(part: WorkloadPart) -> Group:
    """The part in the fixed order, for :mod:`formulations.allocation`."""
    return Group(part.weight, part.fixed_pieces())


def free_group(part: WorkloadPart) -> Group:
    """The part in any order."""
    return Group(part.weight, part.least_pieces(), part.tight_pieces)


def _parts(problem: DesignProblem, number: int, workload: DesignWorkload) -> Iterator[WorkloadPart]:
    network, reference = problem.network, [1e9] * len(problem.network.dimensions)
    if workload.collectives is None:
        instance = instance_of(problem, number, workload)
        pairs = zip(network.at(reference).dimensions, instance.network.dimensions, strict=True)
        renamed = tuple(dimension.model_copy(update={"name": other.name}) for dimension, other in pairs)
        splits = instance.iteration.splits if instance.iteration else ()
        parents = _parents(instance.network.dimension_names, splits)
        instance = instance.varied(network=instance.network.varied(dimensions=renamed))
        yield WorkloadPart(workload.name, workload.weight, network, checked(instance, workload.name), parents)
        return
    fabric = Network(name=network.name, dimensions=tuple(_fabric(network, reference)))
    parents = _parents(network.dimension_names, network.splits)
    for position, entry in enumerate(workload.collectives, start=1):
        name = entry.name or f"{entry.kind}{position}"
        collective = entry.model_dump(mode="json", exclude_unset=True, exclude={"count", "release"})
        label = f"{workload.name}.{name}"
        instance = _instance(label, fabric, collective, f"workloads[{number}].collectives[{position - 1}]")
        yield WorkloadPart(label, workload.weight * entry.count, network, instance, parents)


def _instance(name: str, fabric: Network, collective: Mapping[str, object], field: str) -> Instance:
    try:
        return checked(Instance(name=name, network=fabric, collectives=(collective,)), name)
    except ValidationError as error:
        raise InputError(located(error).rule, field=field) from None


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
    """Phase and arc of every stage of a path."""
    width = len(path) // len(job.phases)
    for number in range(len(job.phases)):
        visited = 0
        for machine in path[number * width : (number + 1) * width]:
            yield number, (visited, machine)
            visited |= 1 << machine
