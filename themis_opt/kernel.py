"""The event loop of the simulator.

It sees operations on resources and knows neither chunks nor collectives.  The same functions serve both worlds:
interpreted on lists, which starts at once, and compiled on arrays, which pays for long simulations.  O(n (R + log n))
for n operations on R resources.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from themis_opt.cost import FloatArray, IntArray

INTERPRETED_BUDGET = 100_000
"""Operations to interpret in one process before compiling, which costs a moment from the cache and seconds without."""

_interpreted = 0


class Operations(NamedTuple):
    """Work for the kernel; arrays of shape (operations,) unless stated.

    Attributes
    ----------
    resource : int64
        Resource each operation holds.
    duration, lag, release : int64
        Picoseconds held, from then to the result, and earliest start.
    successor_start : int64, shape (operations + 1,)
        Where the successors of each operation begin in `successor`.
    successor : int64
        Operations that wait for the result.
    num_predecessors : int64
        How many operations each waits for.
    major, minor, time_sign : float64, int64, int64
        Priority: the smallest ``(major, minor, time_sign * ready, number)`` is served first.
    enforced : bool, shape (resources,)
        Whether a resource serves exactly in the order of `major` = 0, 1, 2...
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
    enforced: IntArray


def start_times(operations: Operations) -> IntArray:
    """Start of every operation in picoseconds; -1 for those that wait for each other for ever."""
    global _interpreted
    count = len(operations.resource)
    if _interpreted + count > INTERPRETED_BUDGET:
        (found,) = start_times_of_runs(operations, 1)
        return np.asarray(found)
    _interpreted += count
    resource, *rest = (array.tolist() for array in operations)
    lists: list[Any] = [array.tolist() for array in workspace(count, len(operations.enforced))]
    ready, missing, *_, waiting, free, served, queue_start, start = lists
    reset(resource, rest[2], rest[5], ready, missing, waiting, free, served, queue_start)
    event_loop(resource, *rest, *lists)
    return np.array(start, dtype=np.int64)


def start_times_of_runs(operations: Operations, runs: int) -> IntArray:
    """The start times of many runs of equally many operations on the same resources.

    Parameters
    ----------
    operations : Operations
        Arrays of shape (runs * operations,), one run after the other; `successor_start`, `successor`,
        `num_predecessors` and `release` are those of one run, and `enforced` has the shape (runs * resources,).
    runs : int
        How many there are.

    Returns
    -------
    int64 array, shape (runs, operations)
    """
    count = len(operations.num_predecessors)
    arrays = workspace(count, len(operations.enforced) // runs, runs)
    compiled()(runs, operations, arrays)
    start: IntArray = arrays[-1].reshape(runs, count)
    return start


def workspace(count: int, num_resources: int, runs: int = 1) -> tuple[IntArray, ...]:
    """What the event loop works on, from `ready` to `start`: arrays, because lists would slow compiled code down."""
    of_operations = np.zeros((6, count), dtype=np.int64)
    of_resources = np.zeros((3, num_resources), dtype=np.int64)
    queue_start = np.zeros(num_resources + 1, dtype=np.int64)
    return (*of_operations, *of_resources, queue_start, np.full(runs * count, -1, dtype=np.int64))


@cache
def compiled() -> Any:
    """:func:`event_loops` compiled to machine code, from the cache on disk where there is one."""
    import numba
    from numba.extending import register_jitable

    for helper in COMPILED:
        register_jitable(helper)
    # Without reference counting: nothing is allocated inside, and counting each array at each call costs 5x.
    try:
        return numba.njit(cache=True, _nrt=False)(event_loops)
    except RuntimeError:  # no folder to cache in is writable
        return numba.njit(_nrt=False)(event_loops)


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
    ready, missing, arrivals, queues, same, moment, waiting, free, served, queue_start, start = arrays
    reset(resource, release, num_predecessors, ready, missing, waiting, free, served, queue_start)
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
        same,
        moment,
        waiting,
        free,
        served,
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
    queue_start: Any,
) -> None:
    """Prepare what :func:`event_loop` works on for its next run; it overwrites the rest itself."""
    for r in range(len(free)):
        waiting[r], free[r], served[r], queue_start[r + 1] = 0, 0, 0, 0
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
    same: Any,
    moment: Any,
    waiting: Any,
    free: Any,
    served: Any,
    queue_start: Any,
    start: Any,
) -> None:
    """Serve all operations; fills `start`.

    All arrivals of one instant are queued before any resource chooses.  `now` is the next instant at which an
    operation arrives or a resource is free for one that waits.
    """
    count, num_resources = len(resource), len(enforced)
    num_arriving = 0
    for i in range(count):
        if missing[i] == 0:
            push(arrivals, 0, num_arriving, i, same, same, ready)
            num_arriving += 1
    while True:
        now = ready[arrivals[0]] if num_arriving > 0 else -1
        for r in range(num_resources):
            serves = waiting[r] > 0 and (not enforced[r] or major[queues[queue_start[r]]] == served[r])
            if serves and (now < 0 or free[r] < now):
                now = free[r]
        if now < 0:
            return
        while num_arriving > 0 and ready[arrivals[0]] <= now:
            i = pop(arrivals, 0, num_arriving, same, same, ready)
            num_arriving -= 1
            r = resource[i]
            moment[i] = time_sign[i] * ready[i]
            push(queues, queue_start[r], waiting[r], i, major, minor, moment)
            waiting[r] += 1
        for r in range(num_resources):
            serves = waiting[r] > 0 and (not enforced[r] or major[queues[queue_start[r]]] == served[r])
            if serves and free[r] <= now:
                i = pop(queues, queue_start[r], waiting[r], major, minor, moment)
                waiting[r] -= 1
                start[i] = now
                served[r] += 1
                free[r] = now + duration[i]
                for edge in range(successor_start[i], successor_start[i + 1]):
                    j = successor[edge]
                    ready[j] = max(ready[j], free[r] + lag[i])
                    missing[j] -= 1
                    if missing[j] == 0:
                        push(arrivals, 0, num_arriving, j, same, same, ready)
                        num_arriving += 1


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
        if child + 1 < size and goes_first(heap[first + child + 1], heap[first + child], major, minor, moment):
            child += 1
        other = heap[first + child]
        if goes_first(item, other, major, minor, moment):
            break
        heap[first + parent] = other
        parent = child
    heap[first + parent] = item
    return top


COMPILED: tuple[Any, ...] = (goes_first, push, pop, reset, event_loop, makespan_of_run)
"""What is compiled along with every loop that simulates."""
