"""The event loop of links: plain functions of arrays or lists, made to be compiled as they are.

Every chunk has the same hops, and their order on a link is one number: an operation is its place in the order of all
chunks.  O(n log n) for n operations, however many links there are.
"""

from typing import NamedTuple

from themis_opt.base.arrays import IntArray


class HopTable(NamedTuple):
    """The hops of one chunk in the order in which links prefer them; arrays of shape (hops,) unless stated.

    `link`, `lag`: the link direction that each holds, and picoseconds from then to the arrival.
    `duration`, shape (2, hops): picoseconds of small and of large chunks.
    `larger`: how many chunks are large, the first ones.
    `successor_start`, shape (hops + 1,), and `successor`: hops of the same chunk that wait for each.
    `num_predecessors`: how many hops each waits for.
    """

    link: IntArray
    lag: IntArray
    duration: IntArray
    larger: IntArray
    successor_start: IntArray
    successor: IntArray
    num_predecessors: IntArray


class LinkSpace(NamedTuple):
    """What the loop changes; int64 arrays of shape (chunks * hops,) unless stated.

    `start`: picoseconds; of operations that are not served, how many others they wait for.
    `ready`: when all of those have arrived, as far as they are served.
    `arrivals`: binary heap of operations that wait for nothing but their arrival, the earliest first.
    `arrival_times`: when these arrive, so that the heap is ordered without looking elsewhere.
    `queues`: per link a binary heap of operations that wait for it, one after the other.
    `queue_start`, shape (links + 1,): where these begin.
    `waiting`, `free`, shape (links,): operations in the queue, and the end of the last one served.
    `calendar`, `calendar_times`, shape (links,): binary heap of links that serve next, and when they do.
    """

    start: IntArray
    ready: IntArray
    arrivals: IntArray
    arrival_times: IntArray
    queues: IntArray
    queue_start: IntArray
    waiting: IntArray
    free: IntArray
    calendar: IntArray
    calendar_times: IntArray


def serve_links(hops: HopTable, space: LinkSpace) -> None:
    """Serve all operations; fills `start`.  Links choose after all arrivals of an instant."""
    arrivals, arrival_times = space.arrivals, space.arrival_times
    calendar, calendar_times = space.calendar, space.calendar_times
    link, free, waiting, count = hops.link, space.free, space.waiting, len(hops.link)
    num_arriving, num_planned = 0, enqueue_first(hops, space)
    while num_arriving > 0 or num_planned > 0:
        if num_arriving > 0 and (num_planned == 0 or arrival_times[0] <= calendar_times[0]):
            now, i = arrival_times[0], arrivals[0]
            drop_first(arrival_times, arrivals, num_arriving)
            num_arriving -= 1
            r = link[i % count]
            if waiting[r] == 0:
                add_timed(calendar_times, calendar, num_planned, max(free[r], now), r)
                num_planned += 1
            push(space.queues, space.queue_start[r], waiting[r], i)
            waiting[r] += 1
        else:
            r = calendar[0]
            num_arriving = serve_first(hops, space, r, calendar_times[0], num_arriving)
            if waiting[r] > 0:
                sink(calendar_times, calendar, num_planned, free[r], r)
            else:
                drop_first(calendar_times, calendar, num_planned)
                num_planned -= 1


def enqueue_first(hops: HopTable, space: LinkSpace) -> int:
    """Empty the links, and enqueue operations that wait for no other; returns how many links have some."""
    count, total, num_links, num_planned = len(hops.link), len(space.start), len(space.free), 0
    for r in range(num_links + 1):
        space.queue_start[r] = 0
    for hop in range(count):  # counted one place further on, so that the sums are where queues begin
        space.queue_start[hops.link[hop] + 1] += total // count
    for r in range(num_links):
        space.queue_start[r + 1] += space.queue_start[r]
        space.waiting[r], space.free[r] = 0, 0
    for i in range(total):
        hop = i % count
        space.ready[i], space.start[i] = 0, hops.num_predecessors[hop]
        if hops.num_predecessors[hop] == 0:
            r = hops.link[hop]
            if space.waiting[r] == 0:
                add_timed(space.calendar_times, space.calendar, num_planned, 0, r)
                num_planned += 1
            push(space.queues, space.queue_start[r], space.waiting[r], i)
            space.waiting[r] += 1
    return num_planned


def serve_first(hops: HopTable, space: LinkSpace, r: int, now: int, num_arriving: int) -> int:
    """Start the operation that is first in the queue of a link; returns how many operations arrive then."""
    start, ready, count = space.start, space.ready, len(hops.link)
    i = pop(space.queues, space.queue_start[r], space.waiting[r])
    space.waiting[r] -= 1
    chunk = i // count
    hop = i - chunk * count
    end = now + hops.duration[1 if chunk < hops.larger[hop] else 0][hop]
    start[i], space.free[r] = now, end
    result = end + hops.lag[hop]
    for edge in range(hops.successor_start[hop], hops.successor_start[hop + 1]):
        j = chunk * count + hops.successor[edge]
        if result > ready[j]:
            ready[j] = result
        start[j] -= 1
        if start[j] == 0:
            add_timed(space.arrival_times, space.arrivals, num_arriving, ready[j], j)
            num_arriving += 1
    return num_arriving


def add_timed(times: IntArray, items: IntArray, size: int, time: int, item: int) -> None:
    """Add an item to a binary heap in two arrays, the earliest first, ties in any order."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
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
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            # Added rather than branched on: a processor cannot guess which child is earlier.
            child += times[child + 1] < times[child]
        if time <= times[child]:
            break
        times[parent], items[parent] = times[child], items[child]
        parent = child
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
