"""Verification on data: a schedule, run on the arrays of virtual NPUs, has to end with the right numbers.

:mod:`themis_opt.schedules.validation` checks times.  Here every chunk is a tensor with one axis per dimension of its
collective and one random element per block, every NPU holds such a tensor, and the stages move them by the
basic algorithms of :mod:`themis_opt.schedules.verification`, in the order in which they start.  Where a dimension
weights what it adds (:mod:`themis_opt.schedules.adasum`), the numbers have to be those of the definition.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.units import format_bandwidth, format_short_size, format_short_time
from themis_opt.problem.cost import path_divisors, stage_phases
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension
from themis_opt.problem.phases import Blocks, CollectiveKind, Data, Phase
from themis_opt.problem.wiring import algorithm_rule, blocks_sent, steps
from themis_opt.schedules import adasum
from themis_opt.schedules.messages import Messages, Pattern, stage_ways
from themis_opt.schedules.port_traffic import BusiestPort, busiest_port, port_blocks
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import shape


class Traffic(NamedTuple):
    """Steps of a stage, and blocks at its busiest port, over the part of the bandwidth that the port has."""

    num_steps: int
    num_blocks: int | Fraction


def move(state: Blocks, axis: int, phase: Phase, dimension: Dimension) -> tuple[Blocks, Traffic]:
    """Run one stage on all NPUs.

    Returns the new state, and what one NPU sent.

    `state`, shape (NPUs along each dimension, blocks along each dimension): what every NPU holds.
    `axis`: position of the dimension among the axes.
    `phase`: where data grow it needs one block along the axis, else one per NPU.
    `dimension`: its algorithm, and whether its switch reduces and multicasts; the size comes from `state`.
    """
    num_axes = state.ndim // 2
    pair = (axis, num_axes + axis)
    paired = np.moveaxis(state, pair, (0, 1))
    others = math.prod(state.shape[:num_axes]) // len(paired)
    held = paired.copy().reshape(*paired.shape[:2], -1)
    after, traffic = _exchange(held, Phase(phase), dimension, others)
    moved = np.moveaxis(after.reshape(*after.shape[:2], *paired.shape[2:]), (0, 1), pair)
    return moved, Traffic(traffic.num_steps, traffic.num_blocks * (held.shape[2] // others))


def _exchange(held: Blocks, phase: Phase, dimension: Dimension, others: int) -> tuple[Blocks, Traffic]:
    """A stage on an array of shape (NPUs, blocks, all the rest), which it may overwrite; traffic for a rest of one."""
    size, rule, algorithm = len(held), phase.rule, dimension.basic_algorithm
    if dimension.in_network and rule.in_network:
        return _through_switch(held, rule.data), Traffic(1, max(port_blocks(phase, dimension, size).values()))
    ways = stage_ways(phase, dimension.kind, algorithm, size)
    num_steps = max(way.pattern.num_steps for way in ways)
    num_blocks = max(port_blocks(phase, dimension, size).values())
    if algorithm is Algorithm.ADASUM and rule.reduces:
        scalars = sum(range(1, num_steps + 1))  # at level l products are all-reduced in l steps more
        return _reduced_by_pairs(held, ways[0].pattern, others), Traffic(num_steps + scalars, num_blocks)
    results = [_moved(held.copy(), phase, way.pattern) for way in ways]
    return _agreed(results), Traffic(num_steps, num_blocks)


def _through_switch(held: Blocks, data: Data) -> Blocks:
    """Send all to the switch, which returns to each NPU the sum of its block, or copies every block to all."""
    if data is Data.SHRINK:
        summed: Blocks = held.sum(axis=0, dtype=held.dtype)[:, None]
        return summed
    return np.repeat(held[None, :, 0], len(held), axis=0)


def _agreed(results: Sequence[Blocks]) -> Blocks:
    """What NPUs hold when parts of blocks went different ways, each of which was tried on the whole: zeros if wrong."""
    first, *others = results
    return np.where(np.logical_and.reduce([first == other for other in others]), first, 0) if others else first


def _moved(held: Blocks, phase: Phase, pattern: Pattern) -> Blocks:
    """What NPUs hold after messages; what was never received is zero."""
    rule, npus = phase.rule, np.arange(len(held))
    if rule.data is Data.STAY and not rule.shifts:
        return _exchanged(held, pattern)
    if rule.data is Data.GROW:
        gathered = np.zeros((len(held), len(held), held.shape[2]), dtype=held.dtype)
        gathered[npus, npus] = held[:, 0]
        held = gathered
    for source, target, block, _ in pattern:
        packets = held[source, block]
        if rule.reduces:
            np.add.at(held, (target, block), packets)  # an NPU may hear of a block from several at once
        else:
            held[target, block] = packets
    return held[npus, npus][:, None] if rule.data is Data.SHRINK else held


def _exchanged(sent: Blocks, pattern: Pattern) -> Blocks:
    """Blocks that arrived where they were meant to, each stored as the block of the NPU it comes from.

    Every block is in one place at a time: `place` says where, by its origin and its target, -1 if it was lost since an
    NPU sent it on that did not have it.
    """
    npus = np.arange(len(sent))
    place: IntArray = np.repeat(npus[:, None], len(sent), axis=1)
    for source, target, block, origin in pattern:
        place[origin, block] = np.where(place[origin, block] == source, target, -1)
    received = np.where((place == npus)[:, :, None], sent, 0)
    return received.swapaxes(0, 1)


def _reduced_by_pairs(sums: Blocks, pattern: Pattern, others: int) -> Blocks:
    """The messages of halving with the rule of Adasum."""
    npus = np.arange(len(sums))
    for step in pattern:
        rank, peer, block = _by_target(step, len(sums))
        here, packet, distance = sums[rank, block], sums[peer, block], int(abs(peer - rank)[0, 0])
        is_near = (rank < peer)[:, :, None]
        pair = np.where(is_near, here, packet), np.where(is_near, packet, here)
        sums[rank, block] = adasum.level(*pair, distance, others)
    return sums[npus, npus][:, None]


def _by_target(step: Messages, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Targets, sources and blocks of messages, shape (NPUs, blocks): every NPU receives as many."""
    order = np.lexsort((step.block.ravel(), step.target.ravel()))
    rank, peer, block = (ends.ravel()[order].reshape(size, -1) for ends in (step.target, step.source, step.block))
    return rank, peer, block


# Above it a collective is tried on smaller dimensions: one array holds the square of it in blocks
MAX_VIRTUAL_NPUS = 4096
# The same of one ring, line or grid, whose NPUs pass on the blocks of an all-to-all one by one in as many steps
MAX_RELAYING_NPUS = 256


@dataclass(frozen=True)
class VerifyReport:
    """What was run."""

    num_npus: int  # virtual NPUs of the largest collective
    num_paths: int
    reduced: bool  # whether some collective was run on smaller dimensions than it has
    sizes: tuple[tuple[int, ...], ...]  # per collective, virtual NPUs along each dimension it spans, innermost first
    busiest_port: BusiestPort  # of the network as it is


class _Chunk(NamedTuple):
    """A chunk that stands for all that move alike; `order` lists the positions of its path by start."""

    exchange: Exchange
    chunk: int
    path: IntArray
    order: IntArray


_Groups = dict[tuple[CollectiveKind, tuple[int, ...]], dict[bytes, _Chunk]]


def verify(schedule: Schedule, seed: int = 0) -> VerifyReport:
    """Run a schedule on random data and check every block of every NPU, and what each stage sends.

    Chunks of collectives of one kind and span, with one path and order of starts, move their data alike: one of
    them is run.  A collective of more than :data:`MAX_VIRTUAL_NPUS` NPUs runs with
    the same algorithms on dimensions of 2 or 3 NPUs.

    Parameters
    ----------
    schedule : Schedule
        Times of all stages.
    seed : int
        Seed of the data.

    Raises
    ------
    InvalidSchedule
        With the rule ``data``, if an NPU ends with a wrong block, if a stage finds data scattered that it needs
        whole or the reverse, or if it sends other bytes or takes other steps than the cost model counts; with the
        rule ``port``, if more bytes pass a port until the makespan than its bandwidth allows.

    Examples
    --------
    >>> import themis_opt
    >>> schedule = themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    >>> print(type(themis_opt.verify(schedule)).__name__)
    VerifyReport
    """
    malformed = shape(schedule) or _malformed_path(schedule)
    if malformed:
        raise InvalidSchedule("data", malformed)
    groups = _distinct_chunks(schedule)
    for chunks in groups.values():
        _run(schedule.instance, list(chunks.values()), seed)
    return _report(schedule, sum(map(len, groups.values())), _checked_port(schedule))


def _checked_port(schedule: Schedule) -> BusiestPort:
    """The busiest port, if it keeps to its bandwidth."""
    port = busiest_port(schedule)
    if port.share > 1 + 1e-9:  # sums of bytes in floating point are surely closer
        carried = f"{format_short_size(port.bytes)} within {format_short_time(schedule.makespan)}"
        allowed = format_bandwidth(port.bandwidth)
        raise InvalidSchedule("port", f"{port.port} {carried} on {port.dimension}, more than the {allowed} it has")
    return port


def _malformed_path(schedule: Schedule) -> str | None:
    """What keeps the paths from being run at all."""
    for exchange, chunks in zip(schedule.launched, schedule.plan.chunks, strict=True):
        num_stages, num_phases = chunks.paths.shape[1], len(exchange.kind.rule.phases)
        if num_stages % num_phases:
            return f"chunks of {exchange.name} have {num_stages} stages, which do not split in {num_phases} phases"
        outside = np.flatnonzero(~np.isin(chunks.paths, exchange.span).all(axis=1))
        if len(outside):
            return f"{exchange.name} chunk {outside[0]} leaves the dimensions of its collective"
    return None


def _distinct_chunks(schedule: Schedule) -> _Groups:
    """By kind and span, the first chunk of every path and order of starts in the last whole iteration."""
    groups: _Groups = {}
    plan, last = schedule.plan, max(schedule.num_iterations - 2, 0)
    starts = schedule.start.reshape(schedule.num_iterations, -1)[last]
    pairs = zip(plan.launched(schedule.instance), plan.chunks, strict=True)
    for number, (exchange, chunks) in enumerate(pairs):
        group = groups.setdefault((exchange.kind, exchange.span), {})
        start = starts[plan.offsets[number] : plan.offsets[number + 1]].reshape(chunks.paths.shape)
        orders = np.argsort(start, axis=1, kind="stable")
        for chunk, (path, order) in enumerate(zip(chunks.paths, orders, strict=True)):
            group.setdefault(path.tobytes() + order.tobytes(), _Chunk(exchange, chunk, path, order))
    return groups


def _run(instance: Instance, chunks: list[_Chunk], seed: int) -> None:
    """Run chunks of one kind and span."""
    trial = DataTrial.of(instance, chunks[0].exchange, seed)
    for chunk in chunks:
        problem = _problem(trial, chunk)
        if problem:
            raise InvalidSchedule("data", f"{chunk.exchange.name} chunk {chunk.chunk}: {problem}")


def _problem(trial: "DataTrial", chunk: _Chunk) -> str | None:
    """The first stage that goes wrong, or the first wrong block in the end."""
    phases, charged = stage_phases(trial.exchange.kind, len(chunk.path)), trial.charged(chunk.path)
    state = trial.initial
    for position in chunk.order.tolist():
        k, phase = int(chunk.path[position]), Phase(phases[position])
        axis = trial.exchange.span.index(k)
        where = f"{phase.name.lower()} on {trial.instance.fabric.dimension_names[k]}"
        held, size = state.shape[len(trial.exchange.span) + axis], trial.dimension(k).size
        if held != (1 if phase.rule.data is Data.GROW else size):
            return f"{where} finds {held} of {size} blocks along it on every NPU"
        state, traffic = move(state, axis, phase, trial.dimension(k))
        if traffic != charged[position]:
            return f"{where} takes every NPU {_words(traffic)}, the cost model counts {_words(charged[position])}"
    return _wrong_block(state, trial.expected_along(chunk.path))


def _words(traffic: Traffic) -> str:
    return f"{traffic.num_blocks} blocks in {traffic.num_steps} step(s)"


def _wrong_block(state: Blocks, expected: Blocks) -> str | None:
    """The first block that differs, by the coordinates of its NPU and of the block."""
    num_axes = state.ndim // 2
    state = state[tuple(slice(npus) for npus in expected.shape[:num_axes])]
    if state.shape != expected.shape:
        held, needed = state.shape[num_axes:], expected.shape[num_axes:]
        return f"NPU {(0,) * num_axes} ends with {held} blocks along its dimensions, must hold {needed}"
    differs = ~np.isclose(state, expected, rtol=1e-9) if state.dtype == np.float64 else state != expected
    if not differs.any():
        return None
    place = [int(i) for i in np.unravel_index(np.argmax(differs), differs.shape)]
    return f"NPU {tuple(place[:num_axes])} ends with a wrong block {tuple(place[num_axes:])}"


def _report(schedule: Schedule, num_paths: int, port: BusiestPort) -> VerifyReport:
    instance, spans = schedule.instance, [exchange.span for exchange in schedule.launched]
    sizes = tuple(virtual_sizes(instance, span) for span in spans)
    real = tuple(tuple(instance.fabric.sizes[k] for k in span) for span in spans)
    return VerifyReport(max(map(math.prod, sizes)), num_paths, sizes != real, sizes, port)


@dataclass(frozen=True, eq=False)
class DataTrial:
    """A collective on virtual NPUs.

    `instance`: the real one with virtual sizes along its span, and without compression.
    `exchange`: what is run; every other of this kind on this span is tried alike.
    `initial`, `expected`, shape (NPUs along each dimension, blocks along each dimension): what the NPUs hold before and
      must hold after; only the first NPU if no other must hold anything.  Where a dimension combines pairs
      (:mod:`themis_opt.schedules.adasum`) they are numbers with fractions, and what they must hold depends on the order
      of the dimensions: see :meth:`expected_along`.
    """

    instance: Instance
    exchange: Exchange
    initial: Blocks
    expected: Blocks

    @classmethod
    def of(cls, instance: Instance, exchange: Exchange, seed: int) -> Self:
        """The trial of a collective operation, on random data."""
        sizes = virtual_sizes(instance, exchange.span)
        num_npus = math.prod(sizes)
        rule = CollectiveKind(exchange.kind).rule
        num_blocks = 1 if rule.phases[0].rule.data is Data.GROW else num_npus
        generator = np.random.default_rng(seed)
        initial: Blocks = generator.integers(2**32, size=(num_npus, num_blocks), dtype=np.uint32)
        if _combines(instance, exchange):
            initial = generator.standard_normal((num_npus, num_blocks)) + 0.5
        resized = _resized(instance.group((exchange,)), dict(zip(exchange.span, sizes, strict=True)))
        tensors = (_as_tensor(matrix, sizes) for matrix in (initial, rule.outcome(initial, sizes)))
        return cls(resized, exchange, *tensors)

    def expected_along(self, path: IntArray) -> Blocks:
        """What the NPUs must hold after a path."""
        if not _combines(self.instance, self.exchange):
            return self.expected
        scatter_path = path[: len(path) // len(self.exchange.kind.rule.phases)]
        pairwise = [self.dimension(k).algorithm is Algorithm.ADASUM for k in scatter_path]
        total = adasum.outcome(self.initial, [self.exchange.span.index(k) for k in scatter_path], pairwise)
        sizes = self.initial.shape[: len(scatter_path)]
        reduced = np.zeros((math.prod(sizes), total.size))
        reduced[0] = total.ravel()
        return _as_tensor(self.exchange.kind.rule.outcome(reduced, sizes), sizes)

    def dimension(self, number: int) -> Dimension:
        """A dimension, in its virtual size."""
        return self.instance.fabric.dimensions[number]

    def charged(self, path: IntArray) -> list[Traffic]:
        """What the cost model counts for each stage of a path, when a block is one byte."""
        num_npus = math.prod(self.dimension(k).size for k in self.exchange.span)
        blocks = num_npus // path_divisors(self.instance, self.exchange.kind, path[None])[0]
        stages = zip(
            path, map(Phase, stage_phases(self.exchange.kind, len(path)).tolist()), blocks.tolist(), strict=True
        )
        return [
            Traffic(steps(self.dimension(k), phase), size * blocks_sent(self.dimension(k), phase))
            for k, phase, size in stages
        ]


def virtual_sizes(instance: Instance, span: tuple[int, ...]) -> tuple[int, ...]:
    """NPUs along each dimension of `span` on which its collectives are tried.

    All of them up to :data:`MAX_VIRTUAL_NPUS`, and :data:`MAX_RELAYING_NPUS`; else few, and no power of two where the
    size is none and the limit allows it, so that halving-doubling meets both kinds of sizes.
    """
    dimensions = [instance.fabric.dimensions[k] for k in span]
    real = tuple(dimension.size for dimension in dimensions)
    relaying = [d.size for d in dimensions if algorithm_rule(d, Phase.ALL_TO_ALL).links is not None]
    if math.prod(real) <= MAX_VIRTUAL_NPUS and max(relaying, default=0) <= MAX_RELAYING_NPUS:
        return real
    few = [dimension.kind.rule.few_npus for dimension in dimensions]
    sizes = [power_of_two for power_of_two, _ in few]
    for axis, (size, (power_of_two, other)) in enumerate(zip(real, few, strict=True)):
        if size & (size - 1) and math.prod(sizes) // power_of_two * other <= MAX_VIRTUAL_NPUS:
            sizes[axis] = other
    return tuple(sizes)


def _combines(instance: Instance, exchange: Exchange) -> bool:
    """Whether a dimension of a reduction weights what it adds."""
    pairwise = any(instance.fabric.dimensions[k].algorithm is Algorithm.ADASUM for k in exchange.span)
    return pairwise and exchange.kind.rule.phases[0].rule.reduces


def _as_tensor(matrix: Blocks, sizes: tuple[int, ...]) -> Blocks:
    """One axis per dimension in the place of the axes (NPUs, blocks)."""
    return matrix.reshape([n if rows > 1 else 1 for rows in matrix.shape for n in sizes])


def _resized(instance: Instance, sizes: dict[int, int]) -> Instance:
    dimensions = tuple(
        dimension.replace(size=sizes.get(k, dimension.size), compression=1.0)
        for k, dimension in enumerate(instance.network.dimensions)
    )
    return instance.replace(network=instance.network.replace(dimensions=dimensions))
