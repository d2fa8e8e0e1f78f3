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
from themis_opt.schedules import event_loop
from themis_opt.schedules.event_loop import Operations, Workspace, operations_of_run, serve_all

__all__ = ["LOOP", "Operations", "Workspace", "start_times", "start_times_of_runs", "waiting_operations", "workspace"]

LOOP = Compilable(event_loop.start_times_of_runs, patience=100_000)
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
    (start,) = start_times_of_runs(operations, 1)
    return np.asarray(start)


def start_times_of_runs(operations: Operations, runs: int) -> IntArray:
    """The start times of many runs of equally many operations on the same resources, shape (runs, operations).

    `operations`: arrays of shape (runs * operations,), one run after the other; `successor_start`, `successor`,
      `num_predecessors` and `release` are those of one run, and `enforced` has the shape (runs * resources,).
    """
    count_work(RUN_SECONDS + len(operations.resource) / OPERATIONS_PER_SECOND)
    looks = max(
        len(operations.enforced) // runs // FEW_RESOURCES, 1
    )  # at every instant the loop looks at each resource
    if LOOP.interprets(len(operations.resource) * looks):
        each = [_interpreted_run(operations_of_run(operations, runs, run)) for run in range(runs)]
        return np.array(each, dtype=np.int64)
    count, num_resources = len(operations.num_predecessors), len(operations.enforced) // runs
    start = np.zeros((runs, count), dtype=np.int64)
    # All read-only, as some are: arrays of other types would be compiled for again.
    alike = Operations._make(read_only(array) for array in operations)
    LOOP.compiled(runs, alike, workspace(count, num_resources), start)
    return start


def _interpreted_run(operations: Operations) -> list[int]:
    """Start times of one run, on lists: an interpreter takes several times as long for an element of an array."""
    lists: Any = Operations(*(array.tolist() for array in operations))
    space: Any = Workspace(*(a.tolist() for a in workspace(len(lists.resource), len(lists.enforced))))
    serve_all(lists, space)
    start: list[int] = space.start
    return start


def workspace(count: int, num_resources: int) -> Workspace:
    """What the event loop works on for so many operations and resources."""
    of_operations = np.zeros((6, count), dtype=np.int64)
    of_resources = np.zeros((4, num_resources), dtype=np.int64)
    return Workspace._make((*of_operations, *of_resources, np.zeros(num_resources + 1, dtype=np.int64)))
