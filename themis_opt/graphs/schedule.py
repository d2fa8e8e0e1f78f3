"""What a plan on a graph takes: every link serves one message at a time, and nodes pass on what they have whole."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.documents import write_atomically
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_short_time
from themis_opt.graphs.plan import GraphPlan, ranked_plan
from themis_opt.graphs.problem import GraphInstance
from themis_opt.schedules.kernel import Operations, start_times
from themis_opt.schedules.timed import TimedOperations

GRAPH_ORDER_FORMAT = "themis-opt/graph-order/1"

MAX_HOPS = 3_000_000  # most hops of all chunks in one simulation: about a second

WORTH_PIPELINING, MANY_CHUNKS, MUCH_WAITING = 1.5, 32, 1.1
"""Times as long as its busiest link sends that a schedule takes where many chunks pay, how many are tried first, and
times with which fewer are tried next."""

LITTLE_WAITING = 5e-3
"""Share of its time in which the busiest link waits: no finer numbers of chunks are tried for less."""


@dataclass(frozen=True, eq=False)
class GraphSchedule:
    """A plan in chunks with its times.

    `chunks`: chunks of each piece.
    `start`, `end`, shape (chunks, hops): picoseconds in which a link sends; hops are those of :func:`hops_of`.
    `makespan`: picoseconds until the last byte has arrived.
    """

    plan: GraphPlan
    chunks: int
    start: IntArray
    end: IntArray
    makespan: int

    @property
    def problem(self) -> GraphInstance:
        """The instance."""
        return self.plan.instance

    @cached_property
    def timed(self) -> TimedOperations:
        """The hops of all chunks as operations of links."""
        hops = self.plan.hops
        return TimedOperations(lower(self.plan, self.chunks, hops), self.start.ravel(), hops.label, hops.names)

    def save(self, path: str | Path) -> None:
        """Write the schedule to a file, which :func:`themis_opt.load` reads.

        Raises InputError if the file cannot be written.
        """
        from themis_opt.graphs.schedule_file import schedule_text

        write_atomically(Path(path), schedule_text(self))

    def __repr__(self) -> str:
        what = f"{len(self.start)} chunks of {self.plan.name} on {self.problem.name or 'a graph'}"
        return f"<Schedule of {what}: {format_short_time(self.makespan)}>"

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes of the buffer per second."""
        return self.plan.instance.size * PICOSECONDS_PER_SECOND / self.makespan


@dataclass(frozen=True)
class Hops:
    """The hops of one chunk of every piece, in the order of transfers and their routes: int64 arrays, shape (hops,)."""

    plan: GraphPlan
    worth_doubling: ClassVar = 2e-3  # share that twice the chunks must save to go on
    few_chunks: ClassVar = 8  # up to which doubling is cheap, and need not save anything
    first_chunks: ClassVar = 1

    @property
    def most_chunks(self) -> int:
        """Chunks that are simulated in about a second."""
        return max(MAX_HOPS // max(len(self.link), 1), 1)

    @cached_property
    def names(self) -> list[str]:
        """The name of each link direction."""
        nodes = self.plan.instance.network.nodes
        return [arrow(nodes[tail].name, nodes[head].name) for tail, head in self.links]

    def label(self, operation: int) -> str:
        """A hop of a chunk, in words."""
        chunk, hop = divmod(operation, len(self.piece))
        return f"piece {self.piece[hop]}, chunk {chunk}"

    @cached_property
    def links(self) -> dict[tuple[int, int], int]:
        """The number of each link direction."""
        return {arc: number for number, arc in enumerate(self.plan.instance.network.arcs)}

    @cached_property
    def first(self) -> IntArray:
        """The first hop of each transfer, and the end; shape (transfers + 1,)."""
        lengths = [len(transfer.route) - 1 for transfer in self.plan.transfers]
        return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    @cached_property
    def transfer(self) -> IntArray:
        """The transfer of each."""
        return np.repeat(np.arange(len(self.plan.transfers)), np.diff(self.first))

    @cached_property
    def piece(self) -> IntArray:
        """The piece of each."""
        return np.array([transfer.piece for transfer in self.plan.transfers], dtype=np.int64)[self.transfer]

    @cached_property
    def ends(self) -> tuple[IntArray, IntArray]:
        """Tail and head of each."""
        routes = np.fromiter(chain.from_iterable(t.route for t in self.plan.transfers), dtype=np.int64)
        places = np.arange(len(self.transfer)) + self.transfer  # a route has one node more than hops
        return routes[places], routes[places + 1]

    @cached_property
    def rows(self) -> list[tuple[int, int, int]]:
        """Transfer, tail and head of each."""
        return list(zip(self.transfer.tolist(), *(side.tolist() for side in self.ends), strict=True))

    @cached_property
    def link(self) -> IntArray:
        """The link direction of each."""
        network = self.plan.instance.network
        size = len(network.nodes)
        links = np.array([tail * size + head for tail, head in network.arcs], dtype=np.int64)
        order = np.argsort(links)
        return order[np.searchsorted(links, self.ends[0] * size + self.ends[1], sorter=order)]

    @cached_property
    def lag(self) -> IntArray:
        """Picoseconds from the end of each to the arrival."""
        network = self.plan.instance.network
        return np.array([network.latencies[arc] for arc in network.arcs], dtype=np.int64)[self.link]

    @cached_property
    def edges(self) -> tuple[IntArray, IntArray]:
        """Pairs of hops of which the second waits for the first, sorted."""
        within = np.flatnonzero(np.diff(self.transfer) == 0)
        counts = [len(transfer.after) for transfer in self.plan.transfers]
        earlier = np.fromiter(chain.from_iterable(t.after for t in self.plan.transfers), dtype=np.int64)
        tails = np.concatenate((within, self.first[earlier + 1] - 1))
        heads = np.concatenate((within + 1, np.repeat(self.first[:-1], counts)))
        order = np.lexsort((heads, tails))
        return tails[order], heads[order]

    @cached_property
    def height(self) -> IntArray:
        """Hops on the longest way from each to an end."""
        behind, tallest = [0] * len(self.plan.transfers), dict[tuple[int, ...], int]()
        for number in range(len(behind) - 1, -1, -1):
            transfer = self.plan.transfers[number]
            height = behind[number] + len(transfer.route) - 1
            if height > tallest.get(transfer.after, 0):  # many transfers wait for the same ones
                tallest[transfer.after] = height
                for earlier in transfer.after:
                    behind[earlier] = max(behind[earlier], height)
        return (
            np.array(behind, dtype=np.int64)[self.transfer] + self.first[self.transfer + 1] - np.arange(len(self.link))
        )

    def preferred(self, operations: Operations) -> Operations:
        """Operations whose links serve the earliest chunk first, as they are made."""
        return operations

    @cached_property
    def order(self) -> IntArray:
        """Hops in the order in which links prefer them.

        The one that most others follow goes first.  Of equal ones, every node begins with another tree and another
        receiver, so that not all send to the same node at once.
        """
        if self.plan.ranked:
            return np.arange(len(self.link))
        size, pieces = len(self.plan.instance.network.nodes), len(self.plan.pieces)
        routes = [transfer.route for transfer in self.plan.transfers]
        receiver = np.array([route[-1] - route[0] for route in routes], dtype=np.int64)[self.transfer] % size
        tree = (self.piece * size // pieces - self.ends[0]) % size
        return np.lexsort((receiver, tree, -self.height))

    def durations(self, chunks: int) -> tuple[IntArray, IntArray]:
        """Picoseconds of each hop, of small and of large chunks, rounded up; shape (2, hops).

        The second array is how many chunks are large: those of one element more.
        """
        network, size = self.plan.instance.network, self.plan.instance.element_bytes
        elements = np.array([piece.elements for piece in self.plan.pieces], dtype=np.int64)[self.piece]
        small, larger = np.divmod(elements, chunks)
        pairs, place = np.unique(np.stack((small, self.link)), axis=1, return_inverse=True)
        rates = list(network.arcs.values())
        times = [
            [picoseconds((count + more) * size, rates[link]) for count, link in zip(*pairs.tolist(), strict=True)]
            for more in (0, 1)
        ]
        return np.array(times, dtype=np.int64)[:, place.reshape(-1)], larger


def picoseconds(size: int, rate: Fraction) -> int:
    """How long so many bytes take, rounded up."""
    return -(-size * PICOSECONDS_PER_SECOND * rate.denominator // rate.numerator)


def lower(plan: GraphPlan, chunks: int = 1, hops: Hops | None = None) -> Operations:
    """The plan as the clock sees it: chunk by chunk, an operation for each hop, whose resource is a link direction.

    A link serves the earliest chunk first, and its hops in the order of `Hops.order`.
    """
    hops = hops or plan.hops
    (small, large), larger = hops.durations(chunks)
    is_large = np.arange(chunks)[:, None] < larger
    return hops.preferred(_operations(hops, hops.order, hops.edges, np.where(is_large, large, small)))


def simulate_graph(plan: GraphPlan, chunks: int = 1, hops: Hops | None = None) -> GraphSchedule:
    """Time every hop of a plan in chunks."""
    operations = lower(plan, chunks, hops)
    start = start_times(operations)
    end = start + operations.duration
    makespan = int((end + operations.lag).max())
    return GraphSchedule(plan, chunks, start.reshape(chunks, -1), end.reshape(chunks, -1), makespan)


def serve_pieces(hops: Hops, order: IntArray, waits: tuple[IntArray, IntArray], duration: IntArray) -> IntArray:
    """When hops of whole pieces start, shape (hops,), if links prefer them in an order.

    `waits`: hops, and those that wait for them.
    """
    return start_times(_operations(hops, order, waits, duration[None]))


def _operations(hops: Hops, order: IntArray, waits: tuple[IntArray, IntArray], duration: IntArray) -> Operations:
    """Operations of all chunks, whose durations have the shape (chunks, hops)."""
    chunks, count = duration.shape
    first = count * np.arange(chunks)[:, None]
    rank = np.empty_like(order)
    rank[order] = np.arange(count)
    tails, heads = waits
    by_tail = np.argsort(tails, kind="stable")
    ends = np.cumsum(np.tile(np.bincount(tails, minlength=count), chunks))
    zeros = np.zeros(chunks * count, dtype=np.int64)
    return Operations(
        resource=np.tile(hops.link, chunks),
        duration=duration.ravel(),
        lag=np.tile(hops.lag, chunks),
        release=zeros,
        successor_start=np.concatenate(([0], ends)),
        successor=(first + heads[by_tail]).ravel(),
        num_predecessors=np.tile(np.bincount(heads, minlength=count), chunks),
        major=(first + rank).ravel().astype(np.float64),
        minor=zeros,
        time_sign=zeros,
        enforced=np.zeros(len(hops.links), dtype=np.bool_),
    )


def justified(schedule: GraphSchedule) -> GraphSchedule:
    """A schedule of whole pieces in the order in which transfers begin at the latest, again while that is faster.

    It is pushed to its end, and to its begin again, which leaves fewer gaps on links.  Backwards, links serve what
    arrives last first; what they send arrives their lag later in both directions of time.  V. Valls, F. Ballestin,
    S. Quintanilla, *Justification and RCPSP: A technique that pays*, European Journal of Operational Research 165
    (2005), https://doi.org/10.1016/j.ejor.2004.04.008.
    """
    hops = Hops(schedule.plan)
    (duration, _), _ = hops.durations(1)
    earlier, later = hops.edges
    start, makespan, starts = schedule.start[0], schedule.makespan, None
    while True:
        backwards = np.argsort(-(start + duration + hops.lag), kind="stable")
        latest = -(serve_pieces(hops, backwards, (later, earlier), duration) + duration)[hops.first[:-1]]
        forwards = np.argsort(latest[hops.transfer], kind="stable")
        start = serve_pieces(hops, forwards, (earlier, later), duration)
        arrival = int((start + duration + hops.lag).max())
        if arrival >= makespan:
            break
        makespan, starts = arrival, latest
    if starts is None:
        return schedule
    better = simulate_graph(ranked_plan(schedule.plan, starts.tolist()))
    return min(schedule, better, key=lambda schedule: schedule.makespan)


def in_best_chunks(plan: GraphPlan, enough: float = 0.0) -> GraphSchedule:
    """The fastest of :func:`chunked_schedules`.

    `enough`: picoseconds with which no other number is tried.
    """
    best: GraphSchedule | None = None
    for schedule in chunked_schedules(plan):
        best = min(best or schedule, schedule, key=lambda schedule: schedule.makespan)
        if best.makespan <= enough:
            break
    assert best is not None  # in one chunk
    return best


def chunked_schedules(plan: GraphPlan, rival: float = math.inf) -> Iterator[GraphSchedule]:
    """Schedules in few chunks, in powers of two as long as they help, and in the numbers beside the best of these.

    Where links mostly wait in one chunk, the first number is as many as a third of a second is enough for, and
    fewer come next if links wait much.  No number is tried once the busiest link hardly waits, and no large one if it
    alone sends longer than a `rival` takes.

    `rival`: picoseconds of another plan.
    """
    hops = plan.hops
    elements = plan.instance.size // plan.instance.element_bytes
    most = 1 if plan.ranked else min(hops.most_chunks, elements)
    fitting = 1 << min(MAX_HOPS // (3 * len(hops.link)), MANY_CHUNKS, most).bit_length() >> 1
    best = simulate_graph(plan, max(min(hops.first_chunks, most), fitting * (hops.first_chunks > 1)), hops)
    load = int(np.bincount(hops.link, (best.end - best.start).sum(axis=0)).max())
    if fitting > best.chunks and best.makespan > WORTH_PIPELINING * load / best.chunks:
        best = simulate_graph(plan, fitting, hops)
    half = best.chunks // 2 if best.chunks > 1 and best.makespan > MUCH_WAITING * load else 0
    yield best
    most = most if load < rival else min(most, max(MAX_HOPS // (8 * len(hops.link)), hops.few_chunks))
    enough, chunks, schedule = load * (1 + hops.worth_doubling / 2), 2 * best.chunks, best
    while half:
        yield (schedule := simulate_graph(plan, half, hops))
        if schedule.makespan >= best.makespan:
            break
        best, half, chunks = schedule, half // 2, most + 1
    while chunks <= most and best.makespan > enough:
        yield (schedule := simulate_graph(plan, chunks, hops))
        if schedule.makespan > best.makespan * (1 - hops.worth_doubling) and chunks > hops.few_chunks:
            break
        best, chunks = min(best, schedule, key=lambda schedule: schedule.makespan), 2 * chunks
    if min(best.makespan, schedule.makespan) <= load * (1 + LITTLE_WAITING):
        return
    fewer = () if 2 * best.chunks > most else (3 * best.chunks // 4,)
    for between in (*fewer, 3 * best.chunks // 2):
        if 1 < between <= most:
            yield simulate_graph(plan, between, hops)


class LinkLoad(NamedTuple):
    """A direction of a link: picoseconds in which it sends, and bytes."""

    name: str
    busy: int
    bytes: int


def link_loads(schedule: GraphSchedule, hops: Hops | None = None) -> list[LinkLoad]:
    """Every direction of every link, the busiest first."""
    plan = schedule.plan
    hops, size = hops or plan.hops, plan.instance.element_bytes
    busy = np.bincount(hops.link, (schedule.end - schedule.start).sum(axis=0), len(hops.links))
    elements = np.array([plan.pieces[piece].elements for piece in hops.piece.tolist()])
    sent = np.bincount(hops.link, elements * size, len(hops.links))
    loads = map(LinkLoad, hops.names, busy.astype(np.int64).tolist(), sent.astype(np.int64).tolist())
    return sorted(loads, key=lambda load: (-load.busy, load.name))


def arrow(tail: str, head: str) -> str:
    """A direction of a link."""
    return f"{tail} > {head}"
