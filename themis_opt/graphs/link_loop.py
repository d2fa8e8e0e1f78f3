"""The event loop of links: plain functions of arrays or lists, made to be compiled as they are.

Every chunk has the same hops, and their order on a link is one number: an operation is its place in the order of all
chunks.  O(n log n) for n operations, however many links there are.
"""

from collections.abc import Sequence
from typing import NamedTuple

from themis_opt.base.arrays import IntArray


class HopRow(NamedTuple):
    """A hop of every chunk.

    `number`: its number in the plan.
    `link`, `lag`: the link direction that it holds, and picoseconds from then to the arrival.
    `small`, `large`: picoseconds of small and of large chunks.
    `num_large`: how many chunks are large, the first ones.
    `first`, `last`: where its successors begin and end in `HopTable.successor`.
    """

    number: int
    link: int
    lag: int
    small: int
    large: int
    num_large: int
    first: int
    last: int


class HopTable(NamedTuple):
    """The hops of one chunk in the order in which links prefer them.

    `rows`, shape (hops,): of `HopRow`, as a list or a structured array, so that all of one lie side by side.
    `successor`, `successor_link`: hops of the same chunk that wait for each, and their links.
    `num_predecessors`, shape (hops,): how many hops each waits for.
    """

    rows: Sequence[HopRow]
    successor: IntArray
    successor_link: IntArray
    num_predecessors: IntArray


class LinkSpace(NamedTuple):
    """What the loop changes: int64 arrays, the first four of shape (chunks * hops,), the others of (links,).

    `start`: picoseconds, by the numbers of hops in the plan.
    `missing`: how many others operations still wait for.
    `queues`: per link, from the front a binary heap of operations that wait for it, and from the back those that it
    has sent and others wait for, one after the other.
    `sent_times`: per link, from the front, when the latter arrive.
    `queue_start`, one longer: where these begin.
    `waiting`, `sent`, `arrived`, `free`: operations in the heap, behind it, and of those that are at the other end; the
    end of the last one served.
    `arrivals`, `arrival_times`: heap of links from which something arrives next, and when.
    `calendar`, `calendar_times`: heap of links that serve next, and when.
    """

    start: IntArray
    missing: IntArray
    queues: IntArray
    sent_times: IntArray
    queue_start: IntArray
    waiting: IntArray
    sent: IntArray
    arrived: IntArray
    free: IntArray
    arrivals: IntArray
    arrival_times: IntArray
    calendar: IntArray
    calendar_times: IntArray


def serve_links(hops: HopTable, space: LinkSpace) -> None:
    """Serve all operations; fills `start`.  Links choose after all arrivals of an instant.

    What a link sends arrives in the order in which it is served, as its lag is one number.
    """
    arrivals, arrival_times = space.arrivals, space.arrival_times
    calendar, calendar_times = space.calendar, space.calendar_times
    num_arriving, num_planned = 0, enqueue_first(hops, space)
    while num_arriving > 0 or num_planned > 0:
        if num_arriving > 0 and (num_planned == 0 or arrival_times[0] <= calendar_times[0]):
            r = arrivals[0]
            num_planned = free_successors(hops, space, r, arrival_times[0], num_planned)
            if space.arrived[r] < space.sent[r]:
                following = space.sent_times[space.queue_start[r] + space.arrived[r]]
                sink(arrival_times, arrivals, num_arriving, following, r)
            else:
                drop_first(arrival_times, arrivals, num_arriving)
                num_arriving -= 1
        else:
            r = calendar[0]
            num_arriving = serve_first(hops, space, r, calendar_times[0], num_arriving)
            if space.waiting[r] > 0:
                sink(calendar_times, calendar, num_planned, space.free[r], r)
            else:
                drop_first(calendar_times, calendar, num_planned)
                num_planned -= 1


def enqueue_first(hops: HopTable, space: LinkSpace) -> int:
    """Empty the links, and enqueue operations that wait for no other; returns how many links have some."""
    count, total, num_links, num_planned = len(hops.rows), len(space.missing), len(space.free), 0
    for r in range(num_links + 1):
        space.queue_start[r] = 0
    for hop in range(count):  # counted one place further on, so that the sums are where queues begin
        space.queue_start[hops.rows[hop].link + 1] += total // count
    for r in range(num_links):
        space.queue_start[r + 1] += space.queue_start[r]
        space.waiting[r], space.sent[r], space.arrived[r], space.free[r] = 0, 0, 0, 0
    for first in range(0, total, count):
        for hop in range(count):
            space.missing[first + hop] = hops.num_predecessors[hop]
            if hops.num_predecessors[hop] == 0:
                num_planned = enqueue(space, hops.rows[hop].link, first + hop, 0, num_planned)
    return num_planned


def enqueue(space: LinkSpace, r: int, i: int, now: int, num_planned: int) -> int:
    """Let an operation wait for its link; returns how many links have operations."""
    if space.waiting[r] == 0:
        add_timed(space.calendar_times, space.calendar, num_planned, max(space.free[r], now), r)
        num_planned += 1
    push(space.queues, space.queue_start[r], space.waiting[r], i)
    space.waiting[r] += 1
    return num_planned


def free_successors(hops: HopTable, space: LinkSpace, r: int, now: int, num_planned: int) -> int:
    """Let what arrives next from a link arrive; returns how many links have operations."""
    missing, count = space.missing, len(hops.rows)
    i = space.queues[space.queue_start[r + 1] - 1 - space.arrived[r]]
    space.arrived[r] += 1
    hop = i % count
    row = hops.rows[hop]
    for edge in range(row.first, row.last):
        j = i - hop + hops.successor[edge]
        missing[j] -= 1
        if missing[j] == 0:
            num_planned = enqueue(space, hops.successor_link[edge], j, now, num_planned)
    return num_planned


def serve_first(hops: HopTable, space: LinkSpace, r: int, now: int, num_arriving: int) -> int:
    """Start the operation that is first in the queue of a link; returns how many links send what others wait for."""
    count = len(hops.rows)
    i = pop(space.queues, space.queue_start[r], space.waiting[r])
    space.waiting[r] -= 1
    chunk = i // count
    row = hops.rows[i - chunk * count]
    end = now + (row.large if chunk < row.num_large else row.small)
    space.start[chunk * count + row.number], space.free[r] = now, end
    if row.first < row.last:
        if space.arrived[r] == space.sent[r]:
            add_timed(space.arrival_times, space.arrivals, num_arriving, end + row.lag, r)
            num_arriving += 1
        space.queues[space.queue_start[r + 1] - 1 - space.sent[r]] = i
        space.sent_times[space.queue_start[r] + space.sent[r]] = end + row.lag
        space.sent[r] += 1
    return num_arriving


def add_timed(times: IntArray, items: IntArray, size: int, time: int, item: int) -> None:
    """Add an item to a heap in two arrays with four children each, the earliest first, ties in any order."""
    child = size
    while child > 0:
        parent = (child - 1) >> 2
        if times[parent] <= time:
            break
        times[child], items[child] = times[parent], items[parent]
        child = parent
    times[child], items[child] = time, item


def drop_first(times: IntArray, items: IntArray, size: int) -> None:
    """Take the earliest item off such a heap."""
    sink(times, items, size - 1, times[size - 1], items[size - 1])


def sink(times: IntArray, items: IntArray, size: int, time: int, item: int) -> None:
    """Put another item in the place of the earliest one."""
    parent, child = 0, 1
    while child < size:
        for other in range(child + 1, min(child + 4, size)):
            # Multiplied rather than branched on: a processor cannot guess which child is earlier.
            child += (other - child) * (times[other] < times[child])
        if time <= times[child]:
            break
        times[parent], items[parent] = times[child], items[child]
        parent, child = child, 4 * child + 1
    times[parent], items[parent] = time, item


def push(heap: IntArray, first: int, size: int, item: int) -> None:
    """Add an operation to the binary heap of a link that begins at `first`."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        other = heap[first + parent]
        if other < item:
            break
        heap[first + child] = other
        child = parent
    heap[first + child] = item


def pop(heap: IntArray, first: int, size: int) -> int:
    """Take the smallest operation off the heap of a link."""
    top: int = heap[first]
    item, parent, size = heap[first + size - 1], 0, size - 1
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            child += heap[first + child + 1] < heap[first + child]
        if item <= heap[first + child]:
            break
        heap[first + parent] = heap[first + child]
        parent = child
    heap[first + parent] = item
    return top
