"""Ports: what every NPU or link of a dimension sends and receives in a stage, counted message by message.

Where wires join neighbours only (ring, line, grid), each link is a port in either direction, with its part of the
bandwidth of the dimension; on a ring a message to an NPU further away crosses the links between.  Elsewhere an NPU has
one port with all of the bandwidth, which sends and receives at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.cost import path_divisors, wire_bytes
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import Data, Phase
from themis_opt.problem.wiring import algorithm_rule, blocks_sent
from themis_opt.schedules.messages import stage_ways
from themis_opt.schedules.schedule import Schedule

MAX_COUNTED_NPUS = 256
"""Above it, messages of a dimension would take long to count; the cost model says what its busiest port carries."""


class Port(NamedTuple):
    """The link from an NPU to its neighbour, or all that an NPU sends (no target) or receives (no source)."""

    source: int | None
    target: int | None

    @property
    def direction(self) -> str:
        """Whether what an NPU receives is counted, or what it sends."""
        return "received" if self.source is None else "sent"

    def __str__(self) -> str:
        if self.source is None:
            return f"NPU {self.target} receives"
        return f"NPU {self.source} sends" + ("" if self.target is None else f" to NPU {self.target}")


@dataclass(frozen=True)
class BusiestPort:
    """The port that is closest to its bandwidth."""

    dimension: str  # name of its dimension, joined by a plus where several share it; NPUs are numbered along it
    port: str
    direction: str  # whether its bytes are `sent` or `received`
    bytes: float  # what passes it until the makespan, or in an iteration, compressed and with headers
    bandwidth: float  # its part of that of the dimension, in bytes per second
    share: float  # of the makespan that its bytes take at its bandwidth


def busiest_port(schedule: Schedule) -> BusiestPort:
    """The port of all dimensions whose bytes take the largest share of the makespan; dimensions may share one."""
    members = defaultdict(list)
    for k in np.unique(schedule.plan.stage_dimensions).tolist():
        members[schedule.instance.links[k]].append(k)
    bytes_by_stage = _bytes_of_a_block(schedule)
    ports = (_busiest_of_link(schedule, dimensions, bytes_by_stage) for dimensions in members.values())
    return max(ports, key=lambda port: port.share)


def _bytes_of_a_block(schedule: Schedule) -> FloatArray:
    """Bytes of one block of every stage on the wire, shape (stages,)."""
    instance, dimensions = schedule.instance, schedule.plan.stage_dimensions
    chunks = zip(schedule.launched, schedule.plan.chunks, strict=True)
    blocks = [(c.sizes[:, None] / path_divisors(instance, e.kind, c.paths)).ravel() for e, c in chunks]
    compression = np.array([dimension.compression for dimension in instance.fabric.dimensions])
    return wire_bytes(instance, dimensions, np.concatenate(blocks) / compression[dimensions], whole_packets=False)


def _busiest_of_link(schedule: Schedule, members: Sequence[int], bytes_by_stage: FloatArray) -> BusiestPort:
    fabric, phases = schedule.instance.fabric, schedule.plan.phases(schedule.instance)
    carried, seconds = defaultdict[Port, float](float), defaultdict[Port, float](float)
    for k in members:
        visits = schedule.plan.stage_dimensions == k
        for phase in np.unique(phases[visits]).tolist():
            size = float(bytes_by_stage[visits & (phases == phase)].sum())
            for port, blocks in _blocks_or_largest(Phase(phase), fabric.dimensions[k]).items():
                carried[port] += float(blocks) * size / _ports_of_npu(fabric.dimensions[k], port)
                seconds[port] += float(blocks) * size / fabric.bandwidths[k]
    busiest = max(seconds, key=seconds.__getitem__)
    return BusiestPort(
        dimension="+".join(fabric.dimension_names[k] for k in members),
        port=str(busiest),
        direction=busiest.direction,
        bytes=carried[busiest],
        bandwidth=max(fabric.bandwidths[k] / _ports_of_npu(fabric.dimensions[k], busiest) for k in members),
        share=seconds[busiest] * PICOSECONDS_PER_SECOND / max(schedule.makespan, 1),
    )


def _ports_of_npu(dimension: Dimension, port: Port) -> int:
    """Ports over which the bandwidth of an NPU is divided: its links, where each of them is one."""
    links = algorithm_rule(dimension, Phase.ALL_TO_ALL).links
    return 1 if links is None or None in port else links(dimension.size)


def _blocks_or_largest(phase: Phase, dimension: Dimension) -> Mapping[Port, Fraction]:
    if dimension.size <= MAX_COUNTED_NPUS or (dimension.in_network and phase.rule.in_network):
        return port_blocks(phase, dimension, dimension.size)
    receives = phase.rule.rooted and phase.rule.data is Data.GROW
    port = Port(None, 0) if receives else Port(0, None)
    return {port: Fraction(blocks_sent(dimension, phase))}


@lru_cache(maxsize=256)
def port_blocks(phase: Phase, dimension: Dimension, size: int) -> Mapping[Port, Fraction]:
    """Blocks at every port in a stage, over the port's part of the bandwidth.

    `size`: NPUs along the dimension, instead of its size.
    """
    if dimension.in_network and phase.rule.in_network:
        sent, received = (size, 1) if phase.rule.data is Data.SHRINK else (1, size - 1)
        return {Port(0, None): Fraction(sent), Port(None, 0): Fraction(received)}  # alike at every NPU
    links = algorithm_rule(dimension, phase).links
    parts, count, port = (1, _at_npus, _npu) if links is None else (links(size), _on_links, _link)
    if dimension.kind.rule.is_ring:
        count, port = _on_ring, _next_link
    blocks: dict[Port, Fraction] = defaultdict(Fraction)
    for share, pattern in stage_ways(phase, dimension.kind, dimension.basic_algorithm, size):
        halves = np.zeros(1, dtype=np.int64)
        for step in pattern:
            halves = halves + count(step.source.ravel(), step.target.ravel(), size)
        for place in np.flatnonzero(halves).tolist():
            blocks[port(place, size)] += share * parts * Fraction(int(halves[place]), 2)
    return blocks


def _at_npus(source: IntArray, target: IntArray, size: int) -> IntArray:
    """Halves of blocks that every NPU sends, then of those that it receives."""
    return 2 * np.concatenate([np.bincount(ends, minlength=size) for ends in (source, target)])


def _npu(place: int, size: int) -> Port:
    return Port(place, None) if place < size else Port(None, place - size)


def _on_links(source: IntArray, target: IntArray, size: int) -> IntArray:
    """Halves of blocks between all pairs of NPUs."""
    return 2 * np.bincount(source * size + target, minlength=size**2)


def _on_ring(source: IntArray, target: IntArray, size: int) -> IntArray:
    """Halves of blocks on links to the next NPUs, then to those before, by the shorter way or one by either."""
    halves = np.zeros(2 * size, dtype=np.int64)
    for hop in (1, -1):
        left = (target - source) * hop % size
        goes = 2 * left <= size
        place, left, count = source[goes], left[goes], np.where(2 * left[goes] < size, 2.0, 1.0)
        while len(left):
            ports = place + size * (hop < 0)
            halves += np.bincount(ports, weights=count, minlength=2 * size).astype(np.int64)
            goes = left > 1
            place, left, count = (place[goes] + hop) % size, left[goes] - 1, count[goes]
    return halves


def _next_link(place: int, size: int) -> Port:
    return Port(place, (place + 1) % size) if place < size else Port(place - size, (place - 1) % size)


def _link(place: int, size: int) -> Port:
    return Port(*divmod(place, size))
