"""Sums as gathers backwards: what is received on the graph turned around is what is sent, and copies are sums.

A reduce-scatter takes what an all-gather takes on the graph whose links and switches are turned around, a reduce what a
broadcast does.
"""

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.graphs.links import GraphLink
from themis_opt.graphs.mixing import is_for_mixing, mixed_schedules
from themis_opt.graphs.plan import GraphPiece, GraphPlan, GraphTransfer, PlanBuilder
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.schedule import GraphSchedule, Hops, in_best_chunks, justified, simulate_graph
from themis_opt.graphs.steps import GraphContest, GraphStep
from themis_opt.graphs.trees import tree_plan

NUMBERS_OF_TREES = (1, 2, None)  # trees of each NPU, the flattest first, and as many as the throughput needs
GATHER_SHARE = 0.75  # share of the time for the gather; turning schedules around has the rest
MOST_MIRRORED = 100_000  # transfers of all chunks that are turned around: a second


def is_for_mirrors(instance: GraphInstance) -> bool:
    """Whether the kind is a gather backwards, and the graph is small enough."""
    return instance.demand.is_backwards and is_for_mixing(turned_instance(instance))


def mirrored_schedules(contest: GraphContest) -> Iterator[GraphSchedule]:
    """Trees and mixtures of the gather, backwards, those with few messages first; those with too many are left out."""
    turned, gathers = contest.beside(turned_instance(contest.instance)), list[GraphSchedule]()
    with contest.allowance.turn(GATHER_SHARE * contest.left):
        for gather in _gathers(turned):
            gathers.append(gather)
            if gather.makespan <= contest.enough or contest.left <= 0:
                break
    best = math.inf
    for gather in sorted(gathers, key=_num_messages):
        if gather.makespan < best and (plan := mirrored_plan("mirror", contest.instance, gather)):
            best = gather.makespan
            yield justified(simulate_graph(plan))


def _num_messages(schedule: GraphSchedule) -> int:
    return len(schedule.plan.transfers) * schedule.chunks


def _gathers(contest: GraphContest) -> Iterator[GraphSchedule]:
    """The schedules of the gather."""
    for count in NUMBERS_OF_TREES:
        with suppress(InputError):
            yield in_best_chunks(tree_plan(contest.instance, count=count), contest.enough)
    yield from mixed_schedules(contest)


GRAPH_SEARCH = GraphStep("mirror", is_for_mirrors, mirrored_schedules)


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
    if _num_messages(gather) > MOST_MIRRORED:
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
