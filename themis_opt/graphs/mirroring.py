"""Sums as gathers backwards: what is received on the graph turned around is what is sent, and copies are sums.

A reduce-scatter takes what an all-gather takes on the graph whose links and switches are turned around, a reduce what a
broadcast does.
"""

from contextlib import suppress

import numpy as np

from formulations.limits import Limits
from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.base.errors import InputError
from themis_opt.graphs.justification import justified
from themis_opt.graphs.mixing import is_for_mixing, mixed_schedule
from themis_opt.graphs.plan import GraphPiece, GraphPlan, GraphTransfer, PlanBuilder
from themis_opt.graphs.problem import GraphInstance, GraphLink, GraphNetwork
from themis_opt.graphs.registry import GraphSearch
from themis_opt.graphs.schedule import GraphSchedule, Hops, in_best_chunks, simulate_graph
from themis_opt.graphs.trees import tree_plan

NUMBERS_OF_TREES = (1, 2, None)
"""Trees of each NPU, the flattest first, and as many as the throughput needs."""

MOST_MIRRORED = 100_000
"""Transfers of all chunks that are turned around: a second."""


def is_for_mirrors(instance: GraphInstance) -> bool:
    """Whether the kind is a gather backwards, and the graph is small enough."""
    return instance.demand.is_backwards and is_for_mixing(turned_instance(instance))


def mirrored_schedule(instance: GraphInstance, limits: Limits, enough: float) -> GraphSchedule | None:
    """The fastest trees or mixture of the gather, backwards; none where all have too many messages.

    `enough`: picoseconds at which it stops.
    """
    gather, end, schedules = turned_instance(instance), SEARCH_CLOCK.now() + limits.seconds, list[GraphSchedule]()
    for count in NUMBERS_OF_TREES:
        with suppress(InputError):
            schedules.append(in_best_chunks(tree_plan(gather, count=count), enough))
        if any(schedule.makespan <= enough for schedule in schedules) or (
            SEARCH_CLOCK.now() > end and not limits.deterministic
        ):
            break
    else:
        left = limits.seconds if limits.deterministic else max(end - SEARCH_CLOCK.now(), 0.0)
        mixed = mixed_schedule(gather, limits.within(left), enough)
        schedules += [mixed] if mixed else []
    ranked = sorted(schedules, key=lambda schedule: schedule.makespan)
    plan = next(filter(None, (mirrored_plan("mirror", instance, schedule) for schedule in ranked)), None)
    return justified(simulate_graph(plan)) if plan else None


GRAPH_SEARCH = GraphSearch(is_for_mirrors, mirrored_schedule)


def turned_instance(instance: GraphInstance) -> GraphInstance:
    """The gather that a sum is backwards, on the graph turned around."""
    network = instance.network
    nodes = tuple(node.model_copy(update={"sums": node.multicasts, "multicasts": node.sums}) for node in network.nodes)
    turned = GraphNetwork(name=network.name, nodes=nodes, links=tuple(map(_turned_link, network.links)))
    gather = instance.kind.rule.mirror
    assert gather is not None  # sums that are gathers backwards have one
    collective = instance.collective.replace(kind=gather.value)
    return instance.model_copy(update={"network": turned, "collectives": (collective,)})


def _turned_link(link: GraphLink) -> GraphLink:
    if link.back is None:
        return link
    if not link.back:
        return link.model_copy(update={"ends": link.ends[::-1]})
    return link.model_copy(update={"bandwidth": link.back, "back": link.bandwidth})


def mirrored_plan(name: str, instance: GraphInstance, gather: GraphSchedule) -> GraphPlan | None:
    """The plan of a sum whose messages leave in the order in which those of a gather arrive, the last one first.

    None where there are too many.
    """
    plan, chunks = gather.plan, gather.chunks
    if len(plan.transfers) * chunks > MOST_MIRRORED:
        return None
    pieces = [
        GraphPiece(piece.elements // chunks + (chunk < piece.elements % chunks), piece.target, piece.source)
        for chunk in range(chunks)
        for piece in plan.pieces
    ]
    hops = Hops(plan)
    arrivals = (gather.end + hops.lag)[:, hops.first[1:] - 1]
    order = np.argsort(-arrivals, axis=None, kind="stable").tolist()
    place = {number: new for new, number in enumerate(order)}
    following: list[list[int]] = [[] for _ in plan.transfers]
    for number, transfer in enumerate(plan.transfers):
        for before in transfer.after:
            following[before].append(number)
    transfers = []
    for number in order:
        chunk, step = divmod(number, len(plan.transfers))
        transfer, first = plan.transfers[step], chunk * len(plan.transfers)
        after = tuple(place[first + later] for later in following[step])
        transfers.append(GraphTransfer(transfer.piece + chunk * len(plan.pieces), transfer.route[::-1], True, after))
    return PlanBuilder(name, instance, pieces, transfers).build(ranked=True)
