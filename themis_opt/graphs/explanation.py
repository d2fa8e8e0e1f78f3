"""Why a schedule on a graph takes as long as it does: how busy links are, and what waited for what."""

from typing import NamedTuple

import numpy as np

from themis_opt.graphs.simulation import GraphSchedule, Hops


class LinkLoad(NamedTuple):
    """A direction of a link: picoseconds in which it sends, and bytes."""

    name: str
    busy: int
    bytes: int


class CriticalHop(NamedTuple):
    """A hop on the critical path: what it sends, its picoseconds, and what it waited for."""

    link: str
    piece: int
    chunk: int
    start: int
    busy: int
    lag: int
    waited_for: str


def link_loads(schedule: GraphSchedule, hops: Hops | None = None) -> list[LinkLoad]:
    """Every direction of every link, the busiest first."""
    plan = schedule.plan
    hops, network, size = hops or Hops(plan), plan.instance.network, plan.instance.element_bytes
    busy = np.bincount(hops.link, (schedule.end - schedule.start).sum(axis=0), len(hops.links))
    elements = np.array([plan.pieces[piece].elements for piece in hops.piece.tolist()])
    sent = np.bincount(hops.link, elements * size, len(hops.links))
    names = [arrow(network.nodes[tail].name, network.nodes[head].name) for tail, head in hops.links]
    loads = map(LinkLoad, names, busy.astype(np.int64).tolist(), sent.astype(np.int64).tolist())
    return sorted(loads, key=lambda load: (-load.busy, load.name))


def arrow(tail: str, head: str) -> str:
    """A direction of a link."""
    return f"{tail} > {head}"


def critical_path(schedule: GraphSchedule) -> list[CriticalHop]:
    """Hops without a pause from the begin to the last arrival: each waits for data, or for its link."""
    hops, network = Hops(schedule.plan), schedule.plan.instance.network
    arrival = schedule.end + hops.lag
    before: dict[int, list[int]] = {}
    for earlier, later in zip(*(side.tolist() for side in hops.edges), strict=True):
        before.setdefault(later, []).append(earlier)
    chunk, hop = (int(part) for part in np.unravel_index(int(arrival.argmax()), arrival.shape))
    path: list[CriticalHop] = []
    while True:
        start = int(schedule.start[chunk, hop])
        data = next((one for one in before.get(hop, ()) if arrival[chunk, one] == start), None)
        same = np.argwhere((schedule.end == start) & (hops.link == hops.link[hop]) & (schedule.start < start))
        reason = "nothing" if start == 0 else "data" if data is not None else "link"
        _, tail, head = hops.rows[hop]
        link = arrow(network.nodes[tail].name, network.nodes[head].name)
        busy = int(schedule.end[chunk, hop]) - start
        path.append(CriticalHop(link, int(hops.piece[hop]), chunk, start, busy, int(hops.lag[hop]), reason))
        if data is None and not len(same):
            return path[::-1]
        if data is not None:
            hop = data
        else:
            chunk, hop = (int(part) for part in same[0])
