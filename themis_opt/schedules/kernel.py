"""The kernel of the simulator: operations in, start times out.

The kernel knows neither chunks nor collectives.  An interpreter runs the event loop on lists, which starts at once;
compiled code runs it on arrays, which pays for long simulations.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from formulations.interruption import count_work
from themis_opt.base.arrays import BoolArray, FloatArray, IntArray, read_only
from themis_opt.base.compiled import Compilable
from themis_opt.schedules.event_loop import Operations, Workspace, serve_all

__all__ = ["LOOP", "Operations", "Workspace", "start_times", "waiting_operations", "workspace"]

LOOP = Compilable(serve_all, patience=100_000)
"""The event loop; interpreting 100,000 operations takes about 0.4 s, compiling them from the cache on disk 0.2 s."""


FEW_RESOURCES = 100  # resources with which an operation takes an interpreter as long as without any

RUN_SECONDS, OPERATIONS_PER_SECOND = 1e-3, 400_000
"""What a core takes to plan and simulate beside operations, and how many of these a second, for limits on work."""


def waiting_operations(
    waits: Sequence[tuple[int, int]],
    resource: IntArray,
    duration: IntArray,
    lag: IntArray,
    major: FloatArray,
    enforced: BoolArray,
) -> Operations:
    """Operations of which the second of each pair waits for the first; of equal `major` the first to be ready goes."""
    count, zeros = len(resource), np.zeros_like(resource)
    tails, heads = np.array(sorted(waits), dtype=np.int64).reshape(-1, 2).T
    first, waiting = np.searchsorted(tails, np.arange(count + 1)), np.bincount(heads, minlength=count)
    after = np.ascontiguousarray(heads)
    return Operations(resource, duration, lag, zeros, first, after, waiting, major, zeros, zeros + 1, enforced)


def start_times(operations: Operations) -> IntArray:
    """Start of every operation in picoseconds; -1 for those that wait for each other for ever."""
    count, num_resources = len(operations.resource), len(operations.enforced)
    count_work(RUN_SECONDS + count / OPERATIONS_PER_SECOND)
    space = workspace(count, num_resources)
    looks = max(num_resources // FEW_RESOURCES, 1)  # at every instant the loop looks at each resource
    if LOOP.interprets(count * looks):
        # On lists: an interpreter takes several times as long for an element of an array.
        lists: Any = Workspace(*(array.tolist() for array in space))
        serve_all(Operations(*(array.tolist() for array in operations)), lists)
        return np.array(lists.start, dtype=np.int64)
    # All read-only, as some are: arrays of other types would be compiled for again.
    LOOP.compiled(Operations._make(read_only(array) for array in operations), space)
    return space.start


def workspace(count: int, num_resources: int) -> Workspace:
    """What the event loop works on for so many operations and resources."""
    of_operations = np.zeros((6, count), dtype=np.int64)
    of_resources = np.zeros((4, num_resources), dtype=np.int64)
    return Workspace._make((*of_operations, *of_resources, np.zeros(num_resources + 1, dtype=np.int64)))
