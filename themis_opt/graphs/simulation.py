"""What a plan on a graph takes: every link serves one message at a time, and nodes pass on what they have whole."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs import link_loop
from themis_opt.graphs.plan import GraphPlan, num_elements
from themis_opt.schedules import event_loop
from themis_opt.schedules.kernel import Operations, Workspace, workspace

LINK_LOOP = Compilable(link_loop.serve_links, event_loop, patience=100_000)
"""The event loop; compiling pays as in :mod:`themis_opt.schedules.kernel`."""

MAX_HOPS = 1_000_000
"""Most hops of all chunks in one simulation: one or two seconds."""


@dataclass(frozen=True, eq=False)
class GraphSchedule:
    """A plan in chunks with its times.

    Attributes
    ----------
    plan : GraphPlan
    chunks : int
        Chunks of each piece.
    start, end : int64 array, shape (chunks, hops)
        Picoseconds in which a link sends; hops are those of :func:`hops_of`.
    makespan : int
        Picoseconds until the last byte has arrived.
    """

    plan: GraphPlan
    chunks: int
    start: IntArray
    end: IntArray
    makespan: int

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes of the buffer per second."""
        return self.plan.instance.collective.size * PICOSECONDS_PER_SECOND / self.makespan


@dataclass(frozen=True)
class Hops:
    """The hops of one chunk of every piece: int64 arrays of shape (hops,), and successors as in `Operations`."""

    plan: GraphPlan

    @cached_property
    def links(self) -> dict[tuple[int, int], int]:
        """The number of each link direction."""
        return {arc: number for number, arc in enumerate(self.plan.instance.network.arcs)}

    @cached_property
    def rows(self) -> list[tuple[int, int, int]]:
        """GraphTransfer, tail and head of each hop."""
        return [
            (number, tail, head)
            for number, transfer in enumerate(self.plan.transfers)
            for tail, head in zip(transfer.route, transfer.route[1:], strict=False)
        ]

    @cached_property
    def link(self) -> IntArray:
        """The link direction of each."""
        return np.array([self.links[tail, head] for _, tail, head in self.rows], dtype=np.int64)

    @cached_property
    def transfer(self) -> IntArray:
        """The transfer of each."""
        return np.array([number for number, _, _ in self.rows], dtype=np.int64)

    @cached_property
    def piece(self) -> IntArray:
        """The piece of each."""
        return np.array([self.plan.transfers[number].piece for number, _, _ in self.rows], dtype=np.int64)

    @cached_property
    def lag(self) -> IntArray:
        """Picoseconds from the end of each to the arrival."""
        latencies = self.plan.instance.network.latencies
        return np.array([latencies[tail, head] for _, tail, head in self.rows], dtype=np.int64)

    @cached_property
    def first(self) -> list[int]:
        """The first hop of each transfer, and the end."""
        lengths = [len(transfer.route) - 1 for transfer in self.plan.transfers]
        return [0, *np.cumsum(lengths).tolist()]

    @cached_property
    def edges(self) -> tuple[IntArray, IntArray]:
        """Pairs of hops of which the second waits for the first, sorted."""
        rows = self.rows
        pairs = [(hop, hop + 1) for hop in range(len(rows) - 1) if rows[hop][0] == rows[hop + 1][0]]
        pairs += [
            (self.first[earlier + 1] - 1, self.first[number])
            for number, transfer in enumerate(self.plan.transfers)
            for earlier in transfer.after
        ]
        array = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return array[:, 0], array[:, 1]

    @cached_property
    def height(self) -> IntArray:
        """Hops on the longest way from each to an end."""
        height = np.ones(len(self.rows), dtype=np.int64)
        followers: dict[int, list[int]] = {}
        for tail, head in zip(*(side.tolist() for side in self.edges), strict=True):
            followers.setdefault(tail, []).append(head)
        waiting = np.bincount(self.edges[0], minlength=len(height))
        before: dict[int, list[int]] = {}
        for tail, heads in followers.items():
            for head in heads:
                before.setdefault(head, []).append(tail)
        ready = np.flatnonzero(waiting == 0).tolist()
        while ready:
            hop = ready.pop()
            for tail in before.get(hop, ()):
                height[tail] = max(height[tail], height[hop] + 1)
                waiting[tail] -= 1
                if waiting[tail] == 0:
                    ready.append(tail)
        return height

    def durations(self, chunks: int) -> IntArray:
        """Picoseconds of each hop of each chunk, rounded up; 0 for chunks without elements."""
        network, size = self.plan.instance.network, self.plan.instance.collective.element_bytes
        pace = [PICOSECONDS_PER_SECOND * size / bandwidth for bandwidth in network.arcs.values()]
        small = [self.plan.pieces[piece].elements // chunks for piece in self.piece.tolist()]
        paces = [pace[link] for link in self.link.tolist()]
        times = [
            [-(-elements * p.numerator // p.denominator) for elements, p in zip(row, paces, strict=True)]
            for row in (small, [elements + 1 for elements in small])
        ]
        larger = np.array([self.plan.pieces[piece].elements % chunks for piece in self.piece.tolist()])
        return np.where(np.arange(chunks)[:, None] < larger, np.array(times[1]), np.array(times[0])).astype(np.int64)


def simulate_graph(plan: GraphPlan, chunks: int = 1, hops: Hops | None = None) -> GraphSchedule:
    """Time every hop of a plan in chunks.

    A link serves the earliest chunk first, of it the hop that most others follow, and of these the one that came first.
    """
    hops = hops or Hops(plan)
    durations, count = hops.durations(chunks), len(hops.rows)
    operations = _operations(hops, durations, chunks)
    start = _run(operations).reshape(chunks, count)
    end = start + durations
    return GraphSchedule(plan, chunks, start, end, int((end + hops.lag).max()))


def _operations(hops: Hops, durations: IntArray, chunks: int) -> Operations:
    count, total = len(hops.rows), len(hops.rows) * chunks
    tails, heads = hops.edges
    offsets = (np.arange(chunks) * count)[:, None]
    successors = np.bincount(tails, minlength=count)
    zeros = np.zeros(total, dtype=np.int64)
    return Operations(
        resource=np.tile(hops.link, chunks),
        duration=durations.reshape(-1),
        lag=np.tile(hops.lag, chunks),
        release=zeros,
        successor_start=np.concatenate(([0], np.cumsum(np.tile(successors, chunks)))).astype(np.int64),
        successor=(heads + offsets).reshape(-1),
        num_predecessors=np.tile(np.bincount(heads, minlength=count), chunks).astype(np.int64),
        major=np.repeat(np.arange(chunks, dtype=np.float64), count) + (hops.transfer if hops.plan.ranked else 0),
        minor=np.tile(-hops.height, chunks),
        time_sign=zeros + 1,
        enforced=np.zeros(len(hops.links), dtype=bool),
    )


def _run(operations: Operations) -> IntArray:
    """The start of every operation."""
    count, num_links = len(operations.resource), len(operations.enforced)
    space = workspace(count, num_links)
    calendar, planned = np.zeros(num_links, dtype=np.int64), np.zeros(num_links, dtype=np.int64)
    if not LINK_LOOP.interprets(count):
        LINK_LOOP.compiled(operations, space, calendar, planned)
        return space.start
    lists: Any = Operations(*(array.tolist() for array in operations))
    space_lists: Any = Workspace(*(array.tolist() for array in space))
    link_loop.serve_links(lists, space_lists, calendar.tolist(), planned.tolist())  # type: ignore[arg-type]
    return np.array(space_lists.start, dtype=np.int64)


def in_best_chunks(plan: GraphPlan, enough: float = 0.0) -> GraphSchedule:
    """The schedule with the best number of chunks among powers of two as long as they help, and of those beside it.

    `enough`: picoseconds with which no other number is tried.
    """
    hops = Hops(plan)
    most = 1 if plan.ranked else max(min(MAX_HOPS // max(len(hops.rows), 1), num_elements(plan.instance)), 1)
    best, chunks = simulate_graph(plan, 1, hops), 2
    while chunks <= most and best.makespan > enough:
        schedule = simulate_graph(plan, chunks, hops)
        if schedule.makespan > best.makespan * (1 - WORTH_DOUBLING) and chunks > FEW_CHUNKS:
            break
        best, chunks = min(best, schedule, key=lambda schedule: schedule.makespan), 2 * chunks
    for between in (3 * best.chunks // 4, 3 * best.chunks // 2):
        if 1 < between <= most and between != best.chunks and best.makespan > enough:
            best = min(best, simulate_graph(plan, between, hops), key=lambda schedule: schedule.makespan)
    return best


WORTH_DOUBLING, FEW_CHUNKS = 2e-3, 8
"""Doubling must save this share to go on, but for the first times, which are cheap."""
