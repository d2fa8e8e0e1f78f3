"""The event loop for a plan that differs little from one whose start times are known.  Always compiled.

What is served before the first difference is taken over, and the rest is served only as long as the makespan may be
within a limit: a resource still has all its work to do, and an operation all those after it to wait for.
"""

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.event_loop import (
    NEVER,
    Operations,
    Workspace,
    enqueue,
    pop,
    pop_arrival,
    push_arrival,
    serve_first,
)


def makespan_within(
    operations: Operations,
    workspace: Workspace,
    known: IntArray,
    since: int,
    remaining: IntArray,
    tail: IntArray,
    limit: float,
    mirror: IntArray,
) -> int:
    """Serve operations until all are served, or the makespan cannot be within the limit.

    Parameters
    ----------
    operations : Operations
        Without enforced sequences.
    workspace : Workspace
        Is filled; as far as operations are served.
    known : int64, shape (operations,)
        Start times of another plan, of which those before `since` are also those of this one.
    since : int
        Picoseconds until which both plans are alike.
    remaining : int64, shape (resources,)
        Total duration on each resource; changed.
    tail : int64, shape (operations,)
        Picoseconds from the end of each operation to the results of those that wait for it, at least.
    limit : float
        Picoseconds.
    mirror : int64, shape (operations,) or (0,)
        For each operation one on its resource that takes its place: what of both is first in turn is served alone.

    Returns
    -------
    int
        The makespan, or ``NEVER`` if it exceeds the limit.
    """
    makespan = take_over(operations, workspace, known, since, remaining)
    num_arriving = queue_the_others(operations, workspace, since, mirror)
    ready, arrivals, begin, resource = workspace.ready, workspace.arrivals, workspace.begin, operations.resource
    while True:
        now = ready[arrivals[0]] if num_arriving > 0 else NEVER
        for r in range(len(begin)):
            if begin[r] < now:
                now = begin[r]
        if now == NEVER:
            return makespan
        while num_arriving > 0 and ready[arrivals[0]] <= now:
            i = pop_arrival(arrivals, num_arriving, ready)
            num_arriving -= 1
            if not is_replaced(workspace, mirror, i):
                enqueue(operations, workspace, resource[i], i)
        for r in range(len(begin)):
            if len(mirror) > 0 and begin[r] <= now:
                drop_replaced(operations, workspace, mirror, r)
            if begin[r] <= now:
                i = workspace.queues[workspace.queue_start[r]]
                end = now + operations.duration[i]
                if now + remaining[r] > limit or end + tail[i] > limit:
                    return NEVER
                remaining[r] -= operations.duration[i]
                makespan = max(makespan, end + operations.lag[i])
                num_arriving = serve_first(operations, workspace, r, now, num_arriving)


def is_replaced(workspace: Workspace, mirror: IntArray, i: int) -> bool:
    """Whether the operation that takes the place of another one is served."""
    return len(mirror) > 0 and workspace.start[mirror[i]] >= 0


def drop_replaced(operations: Operations, workspace: Workspace, mirror: IntArray, r: int) -> None:
    """Take operations off the queue of a resource as long as the first one need not be served."""
    queues, first = workspace.queues, workspace.queue_start[r]
    while workspace.waiting[r] > 0 and is_replaced(workspace, mirror, queues[first]):
        pop(operations, workspace, r)
    if workspace.waiting[r] == 0:
        workspace.begin[r] = NEVER


def take_over(operations: Operations, workspace: Workspace, known: IntArray, since: int, remaining: IntArray) -> int:
    """Prepare the workspace, with what is served before `since`; returns when the last result of that is there."""
    ready, missing, start, queue_start = workspace.ready, workspace.missing, workspace.start, workspace.queue_start
    resource, duration = operations.resource, operations.duration
    for r in range(len(workspace.free)):
        workspace.waiting[r], workspace.free[r], workspace.served[r], workspace.begin[r] = 0, 0, 0, NEVER
        queue_start[r + 1] = 0
    for i in range(len(ready)):
        ready[i], missing[i] = operations.release[i], operations.num_predecessors[i]
        queue_start[resource[i] + 1] += 1
    for r in range(len(workspace.free)):
        queue_start[r + 1] += queue_start[r]
    makespan = 0
    for i in range(len(ready)):
        if known[i] >= since:
            start[i] = -1
            continue
        start[i], r = known[i], resource[i]
        end = known[i] + duration[i]
        workspace.free[r] = max(workspace.free[r], end)
        remaining[r] -= duration[i]
        result = end + operations.lag[i]
        makespan = max(makespan, result)
        for edge in range(operations.successor_start[i], operations.successor_start[i + 1]):
            j = operations.successor[edge]
            ready[j] = max(ready[j], result)
            missing[j] -= 1
    return makespan


def queue_the_others(operations: Operations, workspace: Workspace, since: int, mirror: IntArray) -> int:
    """Let the operations that are not served wait or arrive; returns how many arrive."""
    num_arriving = 0
    for i in range(len(workspace.start)):
        if workspace.start[i] < 0 and workspace.missing[i] == 0 and not is_replaced(workspace, mirror, i):
            if workspace.ready[i] < since:
                enqueue(operations, workspace, operations.resource[i], i)
            else:
                push_arrival(workspace.arrivals, num_arriving, i, workspace.ready)
                num_arriving += 1
    return num_arriving
