"""Translation between instances and the job classes of the formulations, both ways; rounding lives here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from formulations.job_plans import JobPlans, JobTimes
from formulations.lattice import JobClass, JobPhase, arcs
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.cost import (
    bytes_sent,
    fixed_lag,
    fixed_occupancy,
    occupancy,
    rails_offset,
    spread,
    variable_occupancy,
)
from themis_opt.schedules.plan import Chunks, Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from themis_opt.base.arrays import FloatArray, IntArray
    from themis_opt.problem.exchanges import Exchange
    from themis_opt.problem.instance import Instance
    from themis_opt.problem.phases import Phase
    from themis_opt.schedules.schedule import Schedule

# What the arcs of a job class hold: exact occupations, their linear lower bound, or bytes sent
Measure = Literal["occupancy", "fluid", "bytes"]
# Ticks into which a makespan or an iteration time is divided: rounding hides less than a gap that is proven
RESOLUTION = 2**22


def job_class(
    instance: Instance, exchange: Exchange, size: int, measure: Measure = "occupancy", count: int = 1
) -> JobClass:
    """Chunks of `size` bytes of one collective operation, in picoseconds (or bytes)."""
    phases = tuple(_job_phase(instance, phase, exchange.span, size, measure) for phase in exchange.kind.rule.phases)
    mirrored = exchange.kind.rule.mirrors and instance.ag_order == "reverse"
    return JobClass(exchange.span, phases, count, exchange.release, mirrored)


def without_fixed(job: JobClass, least: JobClass) -> JobClass:
    """A job class without what its stages cost whatever they send: the durations of `least`, its jobs of no size."""
    phases = tuple(
        replace(phase, duration={arc: duration - one.duration[arc] for arc, duration in phase.duration.items()})
        for phase, one in zip(job.phases, least.phases, strict=True)
    )
    return replace(job, phases=phases)


def _job_phase(instance: Instance, phase: Phase, span: tuple[int, ...], size: int, measure: Measure) -> JobPhase:
    every = list(arcs(span))
    machine = np.array([k for _, k in every])
    values = _measured(instance, phase, machine, np.array(size), _divisors(instance.fabric.sizes, phase, span), measure)
    held = {} if instance.ports.is_plain else {k: int(instance.ports.resource[phase, k]) for k in span}
    return JobPhase(
        duration=dict(zip(every, values.tolist(), strict=True)),
        lag={k: int(fixed_lag(instance, phase, k)) for k in span},
        resource=held,
    )


def occupancies(instance: Instance, exchange: Exchange, sizes: IntArray) -> IntArray:
    """Picoseconds that chunks of one collective hold a dimension, in every state they can be in.

    They have the shape (sizes, phases, 2**dimensions, dimensions), by mask of the dimensions of the span already
    visited in the phase, and the next dimension; 0 where that is visited already.
    """
    span, phases = exchange.span, exchange.kind.rule.phases
    table = np.zeros((len(sizes), len(phases), 2 ** len(span), len(span)), dtype=np.int64)
    visited, local = _local_arcs(len(span))
    machine = np.array(span)[local]
    for number, phase in enumerate(phases):
        divisors = _divisors(instance.fabric.sizes, phase, span)
        table[:, number, visited, local] = occupancy(instance, phase, machine, sizes[:, None], divisors)
    return table


def resources_and_lags(instance: Instance, exchanges: Sequence[Exchange]) -> tuple[IntArray, IntArray]:
    """What stages hold, and picoseconds from then to their results: by exchange, phase and place in the span."""
    resources = [instance.ports.resource[np.ix_(e.kind.rule.phases, e.span)] for e in exchanges]
    lags = [np.array([fixed_lag(instance, q, np.array(e.span)) for q in e.kind.rule.phases]) for e in exchanges]
    return stacked(resources), stacked(lags)


def stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays one after the other, filled up with zeros to the largest of their shapes."""
    shape = np.max([array.shape for array in arrays], axis=0)
    whole = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for part, array in zip(whole, arrays, strict=True):
        part[tuple(map(slice, array.shape))] = array
    return whole


class OccupancyParts(NamedTuple):
    """What the picoseconds consist of for which chunks of any sizes hold a dimension.

    On rails, where they are concave in the bytes, they are those of the line that touches where chunks are equal.

    `rate`, `packets`, shape (phases, 2**dimensions, dimensions): picoseconds without headers, and packets, for each
      byte of the chunk, indexed as :func:`occupancies`.
    `fixed`, shape (phases, 2**dimensions, dimensions): picoseconds whatever is sent.
    `header`, shape (dimensions,): picoseconds for each packet.
    """

    rate: FloatArray
    packets: FloatArray
    fixed: IntArray
    header: FloatArray


def occupancy_parts(instance: Instance, exchange: Exchange) -> OccupancyParts:
    """What the :func:`occupancies` of one collective consist of."""
    span, phases = exchange.span, exchange.kind.rule.phases
    visited, local = _local_arcs(len(span))
    machine = np.array(span)[local]
    framing = [instance.fabric.dimensions[k].packet for k in span]
    payload = np.array([packet.payload if packet else math.inf for packet in framing])
    bandwidth = np.array([instance.fabric.bandwidths[k] for k in span])
    header = np.array([packet.header if packet else 0.0 for packet in framing]) * PICOSECONDS_PER_SECOND / bandwidth
    rate = np.zeros((len(phases), 2 ** len(span), len(span)))
    packets, fixed = np.zeros_like(rate), np.zeros(rate.shape, dtype=np.int64)
    equal = exchange.size / exchange.chunks
    for number, phase in enumerate(phases):
        sent = bytes_sent(instance, phase, machine, np.array(1.0), _divisors(instance.fabric.sizes, phase, span))
        packets[number, visited, local] = sent / payload[local]
        offset = rails_offset(instance, phase, machine, sent * equal)
        whole = (variable_occupancy(instance, phase, machine, sent * equal, whole_packets=False) - offset) / equal
        rate[number, visited, local] = whole - packets[number, visited, local] * header[local]
        fixed[number, visited, local] = fixed_occupancy(instance, phase, machine) + np.rint(offset).astype(np.int64)
    return OccupancyParts(rate, packets, fixed, header)


def chunk_overhead(instance: Instance) -> float:
    """Picoseconds that the most chunks hold some dimension whatever they send: launches, latency, headers, rails."""
    loads = np.zeros(len(instance.fabric.dimensions))
    for exchange in instance.exchanges:
        span, parts = list(exchange.span), occupancy_parts(instance, exchange)
        loads[span] += exchange.chunks * (parts.fixed.max(axis=1).sum(axis=0) + len(parts.fixed) * parts.header)
    return float(loads.max())


def _measured(
    instance: Instance, phase: Phase, machine: IntArray, size: IntArray, divisors: IntArray, measure: Measure
) -> FloatArray | IntArray:
    if measure == "occupancy":
        return occupancy(instance, phase, machine, size, divisors)
    sent = bytes_sent(instance, phase, machine, size, divisors)
    if measure == "bytes":
        return sent
    variable = variable_occupancy(instance, phase, machine, sent, whole_packets=False)
    return variable + fixed_occupancy(instance, phase, machine)


@lru_cache(maxsize=16)
def _local_arcs(num_dimensions: int) -> tuple[IntArray, IntArray]:
    """The arcs of a lattice: mask of what is visited, and next dimension."""
    every = np.array(list(arcs(tuple(range(num_dimensions)))))
    return every[:, 0], every[:, 1]


@lru_cache(maxsize=64)
def _divisors(sizes: tuple[int, ...], phase: Phase, span: tuple[int, ...]) -> IntArray:
    """The divisors of :func:`~themis_opt.problem.cost.bytes_sent` for the arcs of a span; `sizes` of all dimensions."""
    sizes_of_arcs = [sizes[machine] for _, machine in arcs(span)]
    reached = [math.prod(sizes[k] for k in span if (mask | 1 << machine) >> k & 1) for mask, machine in arcs(span)]
    return spread(phase, np.array(sizes_of_arcs), np.array(reached), math.prod(sizes[k] for k in span)).divisor


@dataclass(frozen=True)
class ChunkOrderData:
    """Job classes in whole ticks, and which chunk every job stands for."""

    tick: int  # picoseconds of one tick; durations, lags and releases are rounded down to ticks
    jobs: tuple[JobClass, ...]  # chunks of one collective and equal size form a class
    members: tuple[tuple[int, tuple[int, ...]], ...]  # indices of the chunks in each class
    sizes: tuple[IntArray, ...]


def in_ticks(schedule: Schedule, resolution: int = RESOLUTION) -> ChunkOrderData:
    """The chunks of a schedule as jobs, its makespan divided into so many ticks."""
    tick = max(1, schedule.makespan // resolution)
    return chunk_order_data(schedule.instance, tuple(c.sizes for c in schedule.plan.chunks), tick)


def chunk_order_data(instance: Instance, sizes: Sequence[IntArray], tick: int) -> ChunkOrderData:
    """Prepare :mod:`formulations.chunk_order` for chunks of given sizes (bytes, one array per collective)."""
    jobs, members = [], []
    for number, chunk_sizes in enumerate(sizes):
        for size in np.unique(chunk_sizes).tolist():
            chosen = tuple(np.flatnonzero(chunk_sizes == size).tolist())
            jobs.append(rounded_down(job_class(instance, instance.exchanges[number], size, count=len(chosen)), tick))
            members.append((number, chosen))
    return ChunkOrderData(tick, tuple(jobs), tuple(members), tuple(sizes))


def rounded_down(job: JobClass, tick: int) -> JobClass:
    """The class in whole ticks: never longer than it is."""
    phases = tuple(
        replace(
            phase,
            duration={arc: int(d) // tick for arc, d in phase.duration.items()},
            lag={k: int(lag) // tick for k, lag in phase.lag.items()},
        )
        for phase in job.phases
    )
    return JobClass(job.machines, phases, job.count, int(job.release) // tick, job.mirrored)


def job_plans(data: ChunkOrderData, schedule: Schedule) -> JobPlans:
    """A schedule as a plan of the jobs; starts are rounded down, which keeps it feasible for the rounded data."""
    plan, instance = schedule.plan, schedule.instance
    result = []
    for collective, chunks in data.members:
        num_phases = len(instance.exchanges[collective].kind.rule.phases)
        paths, first = plan.chunks[collective].paths, plan.offsets[collective]
        starts = schedule.start[first : first + paths.size].reshape(paths.shape) // data.tick
        result.append([job_times(paths[c], starts[c], num_phases) for c in chunks])
    return result


def job_times(path: IntArray, starts: IntArray, num_phases: int) -> JobTimes:
    """The path of a chunk and its starts, phase by phase."""
    return JobTimes(*(tuple(tuple(part.tolist()) for part in np.split(whole, num_phases)) for whole in (path, starts)))


def enforced_plan(instance: Instance, data: ChunkOrderData, jobs: JobPlans) -> Plan:
    """The paths and sequences of a solution; its times are for the simulator to find."""
    lengths = [len(exchange.kind.rule.phases) * len(exchange.span) for exchange in instance.exchanges]
    paths = [np.zeros((len(s), length), dtype=np.int64) for s, length in zip(data.sizes, lengths, strict=True)]
    starts = [np.zeros_like(p) for p in paths]
    for (collective, chunks), job in zip(data.members, jobs, strict=True):
        for chunk, times in zip(chunks, job, strict=True):
            paths[collective][chunk] = [k for phase_path in times.paths for k in phase_path]
            starts[collective][chunk] = [s for phase_starts in times.starts for s in phase_starts]
    plan = Plan(tuple(Chunks(s, p) for s, p in zip(data.sizes, paths, strict=True)))
    return plan.in_order_of(instance, np.concatenate([s.ravel() for s in starts]))


def num_arcs(schedule: Schedule) -> int:
    """Arcs of the subset lattices of all phases of all chunks."""
    pairs = zip(schedule.plan.chunks, schedule.launched, strict=True)
    return sum(launch.paths.size * 2 ** (len(exchange.span) - 1) for launch, exchange in pairs)
