"""The event loop itself, and its heaps: plain functions of arrays or lists, made to be compiled as they are.

They see operations on resources (:class:`themis_opt.kernel.Operations`) and neither chunks nor collectives.
O(n (R + log n)) for n operations on R resources.
"""

from typing import Any

NEVER = 2**63 - 1
"""Later than all times of the clock."""


def event_loops(runs: Any, operations: Any, arrays: Any) -> None:
    """Serve all operations of all runs; fills the last of the `arrays`, which are those of :func:`workspace`."""
    count, num_resources = len(operations.num_predecessors), len(operations.enforced) // runs
    for run in range(runs):
        first, last = run * count, (run + 1) * count
        makespan_of_run(
            operations.resource[first:last],
            operations.duration[first:last],
            operations.lag[first:last],
            operations.release,
            operations.successor_start,
            operations.successor,
            operations.num_predecessors,
            operations.major[first:last],
            operations.minor[first:last],
            operations.time_sign[first:last],
            operations.enforced[run * num_resources : (run + 1) * num_resources],
            (*arrays[:-1], arrays[-1][first:last]),
        )


def makespan_of_run(
    resource: Any,
    duration: Any,
    lag: Any,
    release: Any,
    successor_start: Any,
    successor: Any,
    num_predecessors: Any,
    major: Any,
    minor: Any,
    time_sign: Any,
    enforced: Any,
    arrays: Any,
) -> Any:
    """Serve the operations of one run and return its makespan, for searches that are compiled with the kernel."""
    ready, missing, arrivals, queues, moment, waiting, free, served, begin, queue_start, start = arrays
    reset(resource, release, num_predecessors, ready, missing, waiting, free, served, begin, queue_start)
    event_loop(
        resource,
        duration,
        lag,
        release,
        successor_start,
        successor,
        num_predecessors,
        major,
        minor,
        time_sign,
        enforced,
        ready,
        missing,
        arrivals,
        queues,
        moment,
        waiting,
        free,
        served,
        begin,
        queue_start,
        start,
    )
    makespan = 0
    for i in range(len(start)):
        makespan = max(makespan, start[i] + duration[i] + lag[i])
    return makespan


def reset(
    resource: Any,
    release: Any,
    num_predecessors: Any,
    ready: Any,
    missing: Any,
    waiting: Any,
    free: Any,
    served: Any,
    begin: Any,
    queue_start: Any,
) -> None:
    """Prepare what :func:`event_loop` works on for its next run; it overwrites the rest itself."""
    for r in range(len(free)):
        waiting[r], free[r], served[r], begin[r], queue_start[r + 1] = 0, 0, 0, NEVER, 0
    for i in range(len(ready)):
        ready[i], missing[i] = release[i], num_predecessors[i]
        queue_start[resource[i] + 1] += 1
    for r in range(len(free)):
        queue_start[r + 1] += queue_start[r]


def event_loop(
    resource: Any,
    duration: Any,
    lag: Any,
    release: Any,
    successor_start: Any,
    successor: Any,
    num_predecessors: Any,
    major: Any,
    minor: Any,
    time_sign: Any,
    enforced: Any,
    ready: Any,
    missing: Any,
    arrivals: Any,
    queues: Any,
    moment: Any,
    waiting: Any,
    free: Any,
    served: Any,
    begin: Any,
    queue_start: Any,
    start: Any,
) -> None:
    """Serve all operations; fills `start`.

    All arrivals of one instant are queued before any resource chooses.  `now` is the next instant at which an
    operation arrives or a resource begins: `begin` is when that is free for one that waits, :data:`NEVER` if none does.
    Branches that depend on the plan cost more than all else here, so there are few of them.
    """
    count, num_resources = len(resource), len(enforced)
    num_arriving = 0
    for i in range(count):
        if missing[i] == 0:
            push_arrival(arrivals, num_arriving, i, ready)
            num_arriving += 1
    while True:
        now = ready[arrivals[0]] if num_arriving > 0 else NEVER
        for r in range(num_resources):
            now = min(now, begin[r])
        if now == NEVER:
            return
        while num_arriving > 0 and ready[arrivals[0]] <= now:
            i = pop_arrival(arrivals, num_arriving, ready)
            num_arriving -= 1
            r = resource[i]
            moment[i] = time_sign[i] * ready[i]
            push(queues, queue_start[r], waiting[r], i, major, minor, moment)
            waiting[r] += 1
            if not enforced[r] or major[queues[queue_start[r]]] == served[r]:
                begin[r] = free[r]
        for r in range(num_resources):
            if begin[r] <= now:
                i = pop(queues, queue_start[r], waiting[r], major, minor, moment)
                waiting[r] -= 1
                start[i] = now
                served[r] += 1
                free[r] = now + duration[i]
                serves = waiting[r] > 0 and (not enforced[r] or major[queues[queue_start[r]]] == served[r])
                begin[r] = free[r] if serves else NEVER
                for edge in range(successor_start[i], successor_start[i + 1]):
                    j = successor[edge]
                    ready[j] = max(ready[j], free[r] + lag[i])
                    missing[j] -= 1
                    if missing[j] == 0:
                        push_arrival(arrivals, num_arriving, j, ready)
                        num_arriving += 1


def push_arrival(heap: Any, size: Any, item: Any, ready: Any) -> None:
    """Add an operation to the binary heap of those that arrive, the earliest first, ties in any order."""
    child, time = size, ready[item]
    while child > 0:
        parent = (child - 1) >> 1
        if ready[heap[parent]] <= time:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = item


def pop_arrival(heap: Any, size: Any, ready: Any) -> Any:
    """Take the earliest operation off the heap of those that arrive."""
    top, item, size = heap[0], heap[size - 1], size - 1
    parent, time = 0, ready[item]
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            child += ready[heap[child + 1]] < ready[heap[child]]
        if time <= ready[heap[child]]:
            break
        heap[parent] = heap[child]
        parent = child
    heap[parent] = item
    return top


def goes_first(i: Any, j: Any, major: Any, minor: Any, moment: Any) -> Any:
    """Whether operation i is served before j: smallest (major, minor, moment, number) first."""
    if major[i] != major[j]:
        return major[i] < major[j]
    if minor[i] != minor[j]:
        return minor[i] < minor[j]
    if moment[i] != moment[j]:
        return moment[i] < moment[j]
    return i < j


def push(heap: Any, first: Any, size: Any, item: Any, major: Any, minor: Any, moment: Any) -> None:
    """Add an operation to the binary heap of `size` operations that begins at `heap[first]`."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        other = heap[first + parent]
        if goes_first(other, item, major, minor, moment):
            break
        heap[first + child] = other
        child = parent
    heap[first + child] = item


def pop(heap: Any, first: Any, size: Any, major: Any, minor: Any, moment: Any) -> Any:
    """Take the operation that goes first off the heap."""
    top, item, size = heap[first], heap[first + size - 1], size - 1
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            child += goes_first(heap[first + child + 1], heap[first + child], major, minor, moment)
        other = heap[first + child]
        if goes_first(item, other, major, minor, moment):
            break
        heap[first + parent] = other
        parent = child
    heap[first + parent] = item
    return top


COMPILED: tuple[Any, ...] = (goes_first, push, pop, push_arrival, pop_arrival, reset, event_loop, makespan_of_run)
"""What is compiled along with every loop that simulates."""
