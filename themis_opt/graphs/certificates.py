"""What somebody needs to verify schedules and bounds on graphs without this package."""

from collections import defaultdict
from typing import Any

import numpy as np

from formulations.concurrent_flow import concurrent_flow
from themis_opt.base.documents import digest
from themis_opt.graphs.bounds import deciding_cut
from themis_opt.graphs.policies import with_transfers
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GRAPH_ORDER_FORMAT, GraphSchedule, Hops, simulate_graph
from themis_opt.graphs.schedule_file import plan_rows
from themis_opt.graphs.slots import SlotPlan


def graph_fingerprint(instance: GraphInstance) -> str:
    """Hash of everything that decides how long schedules take."""
    collective = instance.collective.model_dump(mode="json", exclude={"name", "chunks"})
    network = instance.network.model_dump(mode="json", exclude={"name", "source"})
    return digest([instance.format, "graph", network, collective])


def graph_order(schedule: GraphSchedule) -> dict[str, Any]:
    """Pieces and transfers, with nodes by their names, and per link direction the order of chunks and hops.

    Hops are numbered through, transfer by transfer along their routes.
    """
    if isinstance(schedule.plan, SlotPlan):
        schedule = simulate_graph(with_transfers(schedule.plan))
    plan, hops = schedule.plan, Hops(schedule.plan)
    names = [node.name for node in plan.instance.network.nodes]
    order: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    first = np.lexsort((schedule.end.ravel(), schedule.start.ravel()))  # of equal starts what takes no time goes first
    for chunk, hop in zip(*(part.tolist() for part in np.unravel_index(first, schedule.start.shape)), strict=True):
        order[hops.rows[hop][1:]].append((chunk, hop))
    return {
        "format": GRAPH_ORDER_FORMAT,
        "fingerprint": graph_fingerprint(plan.instance),
        "chunks": schedule.chunks,
        **plan_rows(plan),
        "links": [{"ends": [names[a], names[b]], "order": turns} for (a, b), turns in sorted(order.items())],
    }


def graph_certificate(instance: GraphInstance) -> dict[str, Any]:
    """The worst cut in each direction that counts, or lengths of links for an all-to-all."""
    network, demand = instance.network, instance.demand
    graph, names = network.capacities, [node.name for node in network.nodes]
    parts: list[dict[str, Any]] = []
    if demand.personal:
        lengths = concurrent_flow(graph, fold=False).lengths
        rows = [[names[tail], names[head], length] for (tail, head), length in lengths.items() if length]
        parts.append({"kind": "lengths", "lengths": rows})
    for into in () if demand.personal else (False, True) if demand.sums_for_all else (demand.sums,):
        nodes = deciding_cut(instance, turned=into).nodes
        parts.append({"kind": "cut", "nodes": sorted(names[node] for node in nodes), "into": into})
    return {"format": "themis-opt/bounds/1", "fingerprint": graph_fingerprint(instance), "bounds": parts}
