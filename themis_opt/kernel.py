"""The kernel of the simulator: operations in, start times out.

It knows neither chunks nor collectives.  The same event loop serves both worlds: interpreted on lists, which starts at
once, and compiled on arrays, which pays for long simulations.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from themis_opt.cost import FloatArray, IntArray
from themis_opt.event_loop import COMPILED, event_loop, event_loops, reset

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


OF_EACH_RUN = ("resource", "duration", "lag", "major", "minor", "time_sign")
"""Arrays of which every run has its own."""


def start_times(operations: Operations) -> IntArray:
    """Start of every operation in picoseconds; -1 for those that wait for each other for ever."""
    (found,) = start_times_of_runs(operations, 1)
    return np.asarray(found)


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
    global _interpreted
    if _interpreted + len(operations.resource) <= INTERPRETED_BUDGET:
        _interpreted += len(operations.resource)
        return np.array([_interpreted_run(operations, runs, run) for run in range(runs)], dtype=np.int64)
    count = len(operations.num_predecessors)
    arrays = workspace(count, len(operations.enforced) // runs, runs)
    compiled()(runs, operations, arrays)
    start: IntArray = arrays[-1].reshape(runs, count)
    return start


def _interpreted_run(operations: Operations, runs: int, run: int) -> list[int]:
    """Start times of one of several runs, on lists."""
    count, num_resources = len(operations.num_predecessors), len(operations.enforced) // runs
    own = {"enforced": slice(run * num_resources, (run + 1) * num_resources)}
    own |= dict.fromkeys(OF_EACH_RUN, slice(run * count, (run + 1) * count))
    resource, *rest = (array[own.get(name, slice(None))].tolist() for name, array in operations._asdict().items())
    lists: list[Any] = [array.tolist() for array in workspace(count, num_resources)]
    ready, missing, *_, waiting, free, served, begin, queue_start, start = lists
    reset(resource, rest[2], rest[5], ready, missing, waiting, free, served, begin, queue_start)
    event_loop(resource, *rest, *lists)
    found: list[int] = start
    return found


def workspace(count: int, num_resources: int, runs: int = 1) -> tuple[IntArray, ...]:
    """What the event loop works on, from `ready` to `start`: arrays, because lists would slow compiled code down."""
    of_operations = np.zeros((5, count), dtype=np.int64)
    of_resources = np.zeros((4, num_resources), dtype=np.int64)
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
