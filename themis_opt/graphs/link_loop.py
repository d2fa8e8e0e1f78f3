"""The event loop of links: as :mod:`themis_opt.schedules.event_loop`, for many resources of which few wait.

O(n log n) for n operations, however many links there are.
"""

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.event_loop import (
    NEVER,
    Operations,
    Workspace,
    enqueue,
    pop_arrival,
    push_arrival,
    reset,
    serve_first,
)


def serve_links(operations: Operations, workspace: Workspace, calendar: IntArray, planned: IntArray) -> None:
    """Serve all operations; fills `workspace.start`.

    `calendar`: a heap of resources that serve next when they are free, shape (resources,).
    `planned`: whether a resource is in it, shape (resources,).
    """
    num_arriving, num_planned = reset(operations, workspace), 0
    ready, arrivals, free, resource = workspace.ready, workspace.arrivals, workspace.free, operations.resource
    while True:
        now = ready[arrivals[0]] if num_arriving > 0 else NEVER
        if num_planned > 0 and free[calendar[0]] < now:
            now = free[calendar[0]]
        if now == NEVER:
            return
        while num_arriving > 0 and ready[arrivals[0]] <= now:
            i = pop_arrival(arrivals, num_arriving, ready)
            num_arriving -= 1
            r = resource[i]
            enqueue(operations, workspace, r, i)
            if planned[r] == 0:
                planned[r] = 1
                push_arrival(calendar, num_planned, r, free)
                num_planned += 1
        while num_planned > 0 and free[calendar[0]] <= now:
            r = pop_arrival(calendar, num_planned, free)
            num_planned -= 1
            num_arriving = serve_first(operations, workspace, r, now, num_arriving)
            planned[r] = 0
            if workspace.waiting[r] > 0:
                planned[r] = 1
                push_arrival(calendar, num_planned, r, free)
                num_planned += 1
