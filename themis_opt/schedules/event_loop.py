"""The event loop itself, and its heaps: plain functions of arrays or lists, made to be compiled as they are.

They see operations on resources and neither chunks nor collectives.  O(n (R + log n)) for n operations on R resources.
"""

from typing import NamedTuple

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray

NEVER = 2**63 - 1  # later than all times of the clock


class Operations(NamedTuple):
    """Work for the kernel; arrays of shape (operations,) unless stated.

    `resource`: resource each operation holds.
    `duration`, `lag`, `release`: picoseconds held, from then to the result, and earliest start.
    `successor_start`, shape (operations + 1,): where the successors of each operation begin in `successor`.
    `successor`: operations that wait for the result.
    `num_predecessors`: how many operations each waits for.
    `major`, `minor`, `time_sign`: priority: the smallest ``(major, minor, time_sign * ready, number)`` is served first.
    `enforced`, shape (resources,): whether a resource serves exactly in the order of `major` = 0, 1, 2...
    """

    resource: IntArray
    duration: IntArray
    lag: IntArray
    release: IntArray
    successor_start: IntArray
    successor: IntArray
    num_predecessors: IntArray
    major: FloatArray
    minor: IntArray
    time_sign: IntArray
    enforced: BoolArray


class Workspace(NamedTuple):
    """What the loop changes; int64 arrays of shape (operations,) unless stated.

    `ready`: when all predecessors of an operation have their results, as far as they are served.
    `missing`: predecessors that are not served.
    `arrivals`: binary heap of operations that wait for nothing but their `ready`, the earliest first.
    `queues`: per resource a binary heap of operations that wait for it, one after the other.
    `moment`: last part of the priority: ``time_sign * ready``.
    `start`: picoseconds; -1 as long as an operation is not served.
    `waiting`, `free`, `served`, shape (resources,): operations in the queue, end of the last operation, and operations
      served.
    `begin`, shape (resources,): when a resource serves next: once it is free, or :data:`NEVER` if nothing waits that it
      may serve.
    `queue_start`, shape (resources + 1,): where the queue of each resource begins in `queues`.
    """

    ready: IntArray
    missing: IntArray
    arrivals: IntArray
    queues: IntArray
    moment: IntArray
    start: IntArray
    waiting: IntArray
    free: IntArray
    served: IntArray
    begin: IntArray
    queue_start: IntArray


def makespan_of(operations: Operations, workspace: Workspace) -> int:
    """Serve all operations of one run; returns the makespan, for searches that are compiled with the loop."""
    serve_all(operations, workspace)
    makespan = 0
    for i in range(len(workspace.start)):
        makespan = max(makespan, workspace.start[i] + operations.duration[i] + operations.lag[i])
    return makespan


def serve_all(operations: Operations, workspace: Workspace) -> None:
    """Serve all operations of one run; fills `workspace.start`.

    All arrivals of one instant are queued before any resource chooses.
    """
    num_arriving = reset(operations, workspace)
    # Local names, because an interpreter takes as long to look up an attribute as for everything else here.
    ready, arrivals, begin, resource = workspace.ready, workspace.arrivals, workspace.begin, operations.resource
    resources, next_begin = range(len(begin)), 0
    while True:
        now = ready[arrivals[0]] if num_arriving > 0 else NEVER
        if next_begin < now:  # not `min`: a call costs an interpreter more than the rest of this loop
            now = next_begin
        if now == NEVER:
            return
        while num_arriving > 0 and ready[arrivals[0]] <= now:
            i = pop_arrival(arrivals, num_arriving, ready)
            num_arriving -= 1
            enqueue(operations, workspace, resource[i], i)
        next_begin = NEVER
        for r in resources:
            first = begin[r]
            if first <= now:
                num_arriving = serve_first(operations, workspace, r, now, num_arriving)
                first = begin[r]
            if first < next_begin:
                next_begin = first


def reset(operations: Operations, workspace: Workspace) -> int:
    """Prepare the workspace for a run, and queue what may start at once; returns how many others wait for no other."""
    clear(operations, workspace)
    ready, missing, resource, release = workspace.ready, workspace.missing, operations.resource, operations.release
    num_arriving = 0
    for i in range(len(ready)):
        if missing[i] == 0 and release[i] <= 0:
            enqueue(operations, workspace, resource[i], i)
        elif missing[i] == 0:
            push_arrival(workspace.arrivals, num_arriving, i, ready)
            num_arriving += 1
    return num_arriving


def clear(operations: Operations, workspace: Workspace) -> None:
    """Nothing is served, and no queue has an operation."""
    ready, missing, start, queue_start = workspace.ready, workspace.missing, workspace.start, workspace.queue_start
    resource, release, num_predecessors = operations.resource, operations.release, operations.num_predecessors
    for r in range(len(workspace.free)):
        workspace.waiting[r], workspace.free[r], workspace.served[r], workspace.begin[r] = 0, 0, 0, NEVER
        queue_start[r + 1] = 0
    for i in range(len(ready)):
        ready[i], missing[i], start[i] = release[i], num_predecessors[i], -1
        queue_start[resource[i] + 1] += 1  # counted one place further on, so that the sums are where queues begin
    for r in range(len(workspace.free)):
        queue_start[r + 1] += queue_start[r]


def enqueue(operations: Operations, workspace: Workspace, r: int, i: int) -> None:
    """Let operation i wait for its resource r."""
    workspace.moment[i] = operations.time_sign[i] * workspace.ready[i]
    push(operations, workspace, r, i)
    if may_serve(operations, workspace, r):
        workspace.begin[r] = workspace.free[r]


def serve_first(operations: Operations, workspace: Workspace, r: int, now: int, num_arriving: int) -> int:
    """Start the operation that is first in the queue of a resource; returns how many operations arrive then."""
    i = pop(operations, workspace, r)
    end = now + operations.duration[i]
    workspace.start[i], workspace.free[r] = now, end
    workspace.served[r] += 1
    workspace.begin[r] = end if workspace.waiting[r] > 0 and may_serve(operations, workspace, r) else NEVER
    ready, missing, result = workspace.ready, workspace.missing, end + operations.lag[i]
    for edge in range(operations.successor_start[i], operations.successor_start[i + 1]):
        j = operations.successor[edge]
        ready[j] = max(ready[j], result)
        missing[j] -= 1
        if missing[j] == 0:
            push_arrival(workspace.arrivals, num_arriving, j, ready)
            num_arriving += 1
    return num_arriving


def may_serve(operations: Operations, workspace: Workspace, r: int) -> bool:
    """Whether the first in the queue of a resource is the next in its sequence, where that is enforced."""
    enforced, queues = operations.enforced, workspace.queues
    return not enforced[r] or operations.major[queues[workspace.queue_start[r]]] == workspace.served[r]


def push_arrival(heap: IntArray, size: int, item: int, ready: IntArray) -> None:
    """Add an operation to the binary heap of those that arrive, the earliest first, ties in any order."""
    child, time = size, ready[item]
    while child > 0:
        parent = (child - 1) >> 1
        if ready[heap[parent]] <= time:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = item


def pop_arrival(heap: IntArray, size: int, ready: IntArray) -> int:
    """Take the earliest operation off the heap of those that arrive."""
    top: int = heap[0]
    item, size = heap[size - 1], size - 1
    parent, time = 0, ready[item]
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            # Added rather than branched on: which child is earlier depends on the plan, so a processor guesses badly.
            child += ready[heap[child + 1]] < ready[heap[child]]
        if time <= ready[heap[child]]:
            break
        heap[parent] = heap[child]
        parent = child
    heap[parent] = item
    return top


def goes_first(operations: Operations, workspace: Workspace, i: int, j: int) -> bool:
    """Whether operation i is served before j of the same `major`: smallest (minor, moment, number) first."""
    minor, moment = operations.minor, workspace.moment
    first = i < j
    if minor[i] != minor[j]:
        first = minor[i] < minor[j]
    elif moment[i] != moment[j]:
        first = moment[i] < moment[j]
    return first


def push(operations: Operations, workspace: Workspace, r: int, item: int) -> None:
    """Add an operation to the queue of a resource."""
    heap, first, child = workspace.queues, workspace.queue_start[r], workspace.waiting[r]
    workspace.waiting[r] = child + 1
    major, key = operations.major, operations.major[item]  # mostly unequal: an interpreter calls nothing then
    while child > 0:
        parent = (child - 1) >> 1
        other = heap[first + parent]
        if major[other] < key or (major[other] == key and goes_first(operations, workspace, other, item)):
            break
        heap[first + child] = other
        child = parent
    heap[first + child] = item


def pop(operations: Operations, workspace: Workspace, r: int) -> int:
    """Take the operation that goes first off the queue of a resource."""
    heap, first, size = workspace.queues, workspace.queue_start[r], workspace.waiting[r] - 1
    workspace.waiting[r] = size
    top: int = heap[first]
    item, parent = heap[first + size], 0
    major, key = operations.major, operations.major[item]
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        other = heap[first + child]
        if child + 1 < size:
            mate = heap[first + child + 1]
            if major[mate] < major[other] or (
                major[mate] == major[other] and goes_first(operations, workspace, mate, other)
            ):
                child, other = child + 1, mate
        if key < major[other] or (key == major[other] and goes_first(operations, workspace, item, other)):
            break
        heap[first + parent] = other
        parent = child
    heap[first + parent] = item
    return top
