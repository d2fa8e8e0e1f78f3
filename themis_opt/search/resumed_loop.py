"""The event loop for a plan that differs little from one whose start times are known.  Always compiled.

What is served before the first difference is taken over, and the rest is served only as long as the makespan may be
within a limit: a resource still has all its work to do, and an operation all those after it to wait for.
"""

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.event_loop import NEVER, Operations, Workspace, pop, push


def makespan_within(
    operations: Operations,
    workspace: Workspace,
    known: IntArray,
    since: int,
    remaining: IntArray,
    tail: IntArray,
    limit: float,
    arriving: IntArray,
) -> int:
    """The makespan, or ``NEVER`` where it cannot be within a limit: then not all operations are served.

    `operations`: without enforced sequences.
    `workspace`: is filled; as far as operations are served.
    `known`, shape (operations,): start times of another plan, of which those before `since` are also those of this one.
    `since`: picoseconds until which both plans are alike.
    `remaining`, shape (resources,): total duration on each resource; changed.
    `tail`, shape (operations,): picoseconds from the end of each operation to the results of those that wait for it, at
      least.
    `limit`: picoseconds.
    `arriving`, shape (resources, 2): changed: where those on their way to each resource are in ``workspace.arrivals``,
      the first and after the last.
    """
    makespan = take_over(operations, workspace, known, since, remaining)
    note_the_others(operations, workspace, arriving)
    begin, free, duration = workspace.begin, workspace.free, operations.duration
    while True:
        now, first = NEVER, 0
        for r in range(len(begin)):
            if begin[r] < now:
                now, first = begin[r], r
        if now == NEVER:
            return makespan
        let_wait(operations, workspace, arriving, first, now)
        i = pop(operations, workspace, first)
        end = now + duration[i]
        if now + remaining[first] > limit or end + tail[i] > limit:
            return NEVER
        workspace.start[i], free[first] = now, end
        remaining[first] -= duration[i]
        result = end + operations.lag[i]
        makespan = max(makespan, result)
        for edge in range(operations.successor_start[i], operations.successor_start[i + 1]):
            j = operations.successor[edge]
            workspace.ready[j] = max(workspace.ready[j], result)
            workspace.missing[j] -= 1
            if workspace.missing[j] == 0:
                arrive(operations, workspace, arriving, j)
        set_begin(workspace, arriving, first)


def arrive(operations: Operations, workspace: Workspace, arriving: IntArray, i: int) -> None:
    """Note an operation among those on their way to its resource, by time: it is mostly one of the last to be there."""
    r, arrivals, ready = operations.resource[i], workspace.arrivals, workspace.ready
    place = arriving[r, 1]
    while place > arriving[r, 0] and ready[arrivals[place - 1]] > ready[i]:
        arrivals[place] = arrivals[place - 1]
        place -= 1
    arrivals[place] = i
    arriving[r, 1] += 1
    if workspace.waiting[r] == 0:
        workspace.begin[r] = min(workspace.begin[r], max(workspace.free[r], ready[i]))


def let_wait(operations: Operations, workspace: Workspace, arriving: IntArray, r: int, now: int) -> None:
    """Let operations wait for their resource that have arrived by now."""
    while arriving[r, 0] < arriving[r, 1] and workspace.ready[workspace.arrivals[arriving[r, 0]]] <= now:
        i = workspace.arrivals[arriving[r, 0]]
        arriving[r, 0] += 1
        push(operations, workspace, r, i)


def set_begin(workspace: Workspace, arriving: IntArray, r: int) -> None:
    """Tell when a resource serves next."""
    workspace.begin[r] = NEVER
    if workspace.waiting[r] > 0:
        workspace.begin[r] = workspace.free[r]
    elif arriving[r, 0] < arriving[r, 1]:
        workspace.begin[r] = max(workspace.free[r], workspace.ready[workspace.arrivals[arriving[r, 0]]])


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


def note_the_others(operations: Operations, workspace: Workspace, arriving: IntArray) -> None:
    """Let the operations that are not served arrive."""
    for r in range(len(arriving)):
        arriving[r, 0] = arriving[r, 1] = workspace.queue_start[r]
    for i in range(len(workspace.start)):
        if workspace.start[i] < 0 and workspace.missing[i] == 0:
            arrive(operations, workspace, arriving, i)
