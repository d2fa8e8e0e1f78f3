"""The event loop of the simulator.

It sees operations on resources and knows neither chunks nor collectives.  One function serves both worlds:
interpreted on lists, which starts at once, and compiled on arrays, which pays for long simulations.
"""

import heapq
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from themis_opt.cost import FloatArray, IntArray

INTERPRETED_BUDGET = 400_000
"""Operations to interpret in one process before compiling: about as long as loading the compiler."""

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
    if _interpreted + count <= INTERPRETED_BUDGET:
        _interpreted += count
        starts = [-1] * count
        lists: list[Any] = [*(array.tolist() for array in operations), starts]
        event_loop(*lists)
        return np.array(starts, dtype=np.int64)
    result = np.full(count, -1, dtype=np.int64)
    compiled()(*operations, result)
    return result


@cache
def compiled() -> Any:
    """The event loop compiled to machine code, from the cache on disk where there is one."""
    import numba

    return numba.njit(cache=True)(event_loop)


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
    start: Any,
) -> None:
    """Serve all operations; fills `start`.

    All arrivals of one instant are queued before any resource chooses.
    """
    count, num_resources = len(resource), len(enforced)
    queues = [[(0.0, 0, 0, 0)] for _ in range(num_resources)]
    arrivals = [(0, 0)]
    arrivals.pop()
    for queue in queues:
        queue.pop()
    free = [0] * num_resources
    served = [0] * num_resources
    ready = [0] * count
    missing = [0] * count
    for i in range(count):
        ready[i] = release[i]
        missing[i] = num_predecessors[i]
        if missing[i] == 0:
            heapq.heappush(arrivals, (ready[i], i))
    while True:
        now = arrivals[0][0] if len(arrivals) > 0 else -1
        for r in range(num_resources):
            serves = len(queues[r]) > 0 and (not enforced[r] or queues[r][0][0] == served[r])
            if serves and (now < 0 or free[r] < now):
                now = free[r]
        if now < 0:
            return
        while len(arrivals) > 0 and arrivals[0][0] <= now:
            moment, i = heapq.heappop(arrivals)
            heapq.heappush(queues[resource[i]], (major[i], minor[i], time_sign[i] * moment, i))
        for r in range(num_resources):
            serves = len(queues[r]) > 0 and (not enforced[r] or queues[r][0][0] == served[r])
            if serves and free[r] <= now:
                i = heapq.heappop(queues[r])[3]
                start[i] = now
                served[r] += 1
                free[r] = now + duration[i]
                result = free[r] + lag[i]
                for edge in range(successor_start[i], successor_start[i + 1]):
                    j = successor[edge]
                    ready[j] = max(ready[j], result)
                    missing[j] -= 1
                    if missing[j] == 0:
                        heapq.heappush(arrivals, (ready[j], j))
