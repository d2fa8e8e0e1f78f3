"""Schedules that are pushed to their end, and to their begin again, which leaves fewer gaps on links.

V. Valls, F. Ballestin, S. Quintanilla, *Justification and RCPSP: A technique that pays*, European Journal of
Operational Research 165 (2005), https://doi.org/10.1016/j.ejor.2004.04.008.
"""

import numpy as np

from themis_opt.graphs.plan import ranked_plan
from themis_opt.graphs.schedule import GraphSchedule, Hops, serve_pieces, simulate_graph


def justified(schedule: GraphSchedule) -> GraphSchedule:
    """A schedule of whole pieces in the order in which transfers begin at the latest, again while that is faster.

    Backwards, links serve first what arrives last.  What they send arrives their lag later in both directions of time.
    """
    hops = Hops(schedule.plan)
    (duration, _), _ = hops.durations(1)
    earlier, later = hops.edges
    start, makespan, starts = schedule.start[0], schedule.makespan, None
    while True:
        backwards = np.argsort(-(start + duration + hops.lag), kind="stable")
        latest = -(serve_pieces(hops, backwards, (later, earlier), duration) + duration)[hops.first[:-1]]
        forwards = np.argsort(latest[hops.transfer], kind="stable")
        start = serve_pieces(hops, forwards, (earlier, later), duration)
        arrival = int((start + duration + hops.lag).max())
        if arrival >= makespan:
            break
        makespan, starts = arrival, latest
    if starts is None:
        return schedule
    better = simulate_graph(ranked_plan(schedule.plan, starts.tolist()))
    return min(schedule, better, key=lambda schedule: schedule.makespan)
