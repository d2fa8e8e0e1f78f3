"""The event loop of links: plain functions of arrays or lists, made to be compiled as they are.

Every chunk has the same hops, and their order on a link is one number: an operation is its place in the order of all
chunks.  O(n log n) for n operations, however many links there are.
"""

from typing import NamedTuple

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.event_loop import NEVER, pop_arrival, push_arrival


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
    `arrivals`: binary heap of operations that wait for nothing but their `ready`, the earliest first.
    `queues`: per link a binary heap of operations that wait for it, one after the other.
    `queue_start`, shape (links + 1,): where these begin.
    `waiting`, `free`, shape (links,): operations in the queue, and the end of the last one served.
    `calendar`, shape (links,): binary heap of links that serve next when they are free.
    """

    start: IntArray
    ready: IntArray
    arrivals: IntArray
    queues: IntArray
    queue_start: IntArray
    waiting: IntArray
    free: IntArray
    calendar: IntArray


def serve_links(hops: HopTable, space: LinkSpace) -> None:
    """Serve all operations; fills `start`.  Links choose after all arrivals of an instant."""
    ready, arrivals, free, calendar = space.ready, space.arrivals, space.free, space.calendar
    link, waiting, count = hops.link, space.waiting, len(hops.link)
    num_arriving, num_planned = 0, enqueue_first(hops, space)
    while num_arriving > 0 or num_planned > 0:
        arrival = ready[arrivals[0]] if num_arriving > 0 else NEVER
        if num_planned == 0 or arrival <= free[calendar[0]]:
            i = pop_arrival(arrivals, num_arriving, ready)
            num_arriving -= 1
            r = link[i % count]
            if waiting[r] == 0:
                free[r] = max(free[r], arrival)
                push_arrival(calendar, num_planned, r, free)
                num_planned += 1
            push(space.queues, space.queue_start[r], waiting[r], i)
            waiting[r] += 1
        else:
            r = pop_arrival(calendar, num_planned, free)
            num_planned -= 1
            num_arriving = serve_first(hops, space, r, num_arriving)
            if waiting[r] > 0:
                push_arrival(calendar, num_planned, r, free)
                num_planned += 1


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
                push_arrival(space.calendar, num_planned, r, space.free)
                num_planned += 1
            push(space.queues, space.queue_start[r], space.waiting[r], i)
            space.waiting[r] += 1
    return num_planned


def serve_first(hops: HopTable, space: LinkSpace, r: int, num_arriving: int) -> int:
    """Start the operation that is first in the queue of a link; returns how many operations arrive then."""
    start, ready, count, now = space.start, space.ready, len(hops.link), space.free[r]
    i = pop(space.queues, space.queue_start[r], space.waiting[r])
    space.waiting[r] -= 1
    hop = i % count
    chunk = i // count
    end = now + hops.duration[1 if chunk < hops.larger[hop] else 0][hop]
    start[i], space.free[r] = now, end
    result = end + hops.lag[hop]
    for edge in range(hops.successor_start[hop], hops.successor_start[hop + 1]):
        j = chunk * count + hops.successor[edge]
        if result > ready[j]:
            ready[j] = result
        start[j] -= 1
        if start[j] == 0:
            push_arrival(space.arrivals, num_arriving, j, ready)
            num_arriving += 1
    return num_arriving


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
