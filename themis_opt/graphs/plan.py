"""Plans on graphs: pieces of data, and the transfers that move or sum them along routes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from formulations.edge_splitting import Route
from themis_opt.graphs.problem import GraphInstance
from themis_opt.problem.phases import Demand, Ends

if TYPE_CHECKING:
    from themis_opt.graphs.schedule import Hops

LinkArc = tuple[int, int]  # a direction of a link: the numbers of its tail and its head


class GraphPiece(NamedTuple):
    """Part of the data.

    `source`: the NPU that has it; None if every NPU contributes to a sum.
    `target`: the NPU that wants it; None if every NPU does.
    """

    elements: int
    source: int | None
    target: int | None


class GraphTransfer(NamedTuple):
    """A message about a piece.

    `route`: nodes, from the sender to the receiver.
    `adds`: whether the receiver adds it to what it has.
    `after`: earlier transfers that must have arrived.
    """

    piece: int
    route: Route
    adds: bool
    after: tuple[int, ...]


@dataclass(frozen=True)
class GraphPlan:
    """What is sent along which routes; each piece may be cut in chunks that follow each other.

    `ranked`: whether links serve transfers in the order in which they stand, and pieces stay whole.
    """

    name: str
    instance: GraphInstance
    pieces: tuple[GraphPiece, ...]
    transfers: tuple[GraphTransfer, ...]
    ranked: bool = False

    @cached_property
    def hops(self) -> "Hops":
        """What the clock sees of one chunk."""
        from themis_opt.graphs.schedule import Hops  # which knows plans

        return Hops(self)


@dataclass
class PlanBuilder:
    """A plan while it grows."""

    name: str
    instance: GraphInstance
    pieces: list[GraphPiece] = field(default_factory=list)
    transfers: list[GraphTransfer] = field(default_factory=list)

    def add_piece(self, elements: int, source: int | None, target: int | None) -> int:
        """A new piece; returns its number."""
        self.pieces.append(GraphPiece(elements, source, target))
        return len(self.pieces) - 1

    def send(self, piece: int, route: Route, after: Iterable[int] = (), *, adds: bool = False) -> int:
        """A new transfer; returns its number."""
        self.transfers.append(GraphTransfer(piece, route, adds, tuple(after)))
        return len(self.transfers) - 1

    def spread(self, piece: int, routes: Sequence[Route], after: Iterable[int] = ()) -> None:
        """Copies along an out-tree, whose routes are in the order that it grew; the root waits for some transfers."""
        arrival = {routes[0][0]: tuple(after)} if routes else {}
        for route in routes:
            arrival[route[-1]] = (self.send(piece, route, arrival[route[0]]),)

    def collect(self, piece: int, routes: Sequence[Route]) -> tuple[int, ...]:
        """Sums against an out-tree, from its leaves to its root; returns the transfers that arrive there.

        A switch behind which no NPU lies has nothing to send.
        """
        arrivals: dict[int, list[int]] = {}
        npus = set(self.instance.network.capacities.terminals)
        for route in reversed(routes):
            if route[-1] not in npus and route[-1] not in arrivals:
                continue
            number = self.send(piece, route[::-1], arrivals.get(route[-1], ()), adds=True)
            arrivals.setdefault(route[0], []).append(number)
        return tuple(arrivals.get(routes[0][0], ())) if routes else ()

    def build(self, *, ranked: bool = False) -> GraphPlan:
        """The plan, without transfers of pieces that have no elements."""
        if all(piece.elements for piece in self.pieces):
            return GraphPlan(self.name, self.instance, tuple(self.pieces), tuple(self.transfers), ranked)
        kept = [number for number, transfer in enumerate(self.transfers) if self.pieces[transfer.piece].elements]
        return GraphPlan(self.name, self.instance, tuple(self.pieces), in_order(self.transfers, kept), ranked)


def in_order(transfers: Sequence[GraphTransfer], order: Sequence[int]) -> tuple[GraphTransfer, ...]:
    """Some transfers in another order, each of which waits for the same ones as before."""
    place = {number: new for new, number in enumerate(order)}
    moved = (transfers[number] for number in order)
    return tuple(t._replace(after=tuple(place[number] for number in t.after)) for t in moved)


def ranked_plan(plan: GraphPlan, ranks: Sequence[float]) -> GraphPlan:
    """The plan whose links serve first the transfers of least rank.

    No transfer overtakes those that it waits for, or those that its receiver got of the piece before.
    """
    latest, received = list[float](), dict[tuple[int, int], float]()
    for transfer, rank in zip(plan.transfers, ranks, strict=True):
        ends = transfer.piece, transfer.route[-1]
        latest.append(max(rank, received.get(ends, rank), *(latest[number] for number in transfer.after)))
        received[ends] = latest[-1]
    order = sorted(range(len(latest)), key=latest.__getitem__)
    return replace(plan, transfers=in_order(plan.transfers, order), ranked=True)


def routes_between(arcs: Iterable[tuple[int, int]], keepers: Iterable[int]) -> list[Route]:
    """Routes between nodes that keep what they receive, over at most three switches that pass it on."""
    heads: dict[int, list[int]] = defaultdict(list)
    for tail, head in sorted(arcs):
        heads[tail].append(head)
    ends, routes = set(keepers), list[Route]()
    for source in sorted(ends):
        stack: list[Route] = [(source,)]
        while stack:
            route = stack.pop()
            for head in heads[route[-1]]:
                if head in ends and head not in route:
                    routes.append((*route, head))
                elif head not in route and len(route) <= MOST_SWITCHES:
                    stack.append((*route, head))
    return routes


MOST_SWITCHES = 3  # switches on a route


def merged_plan(instance: GraphInstance, plans: Sequence[GraphPlan]) -> GraphPlan:
    """Plans of collectives that are run at once."""
    pieces, transfers = list[GraphPiece](), list[GraphTransfer]()
    for plan in plans:
        first, before = len(pieces), len(transfers)
        pieces += plan.pieces
        transfers += [
            transfer._replace(piece=transfer.piece + first, after=tuple(number + before for number in transfer.after))
            for transfer in plan.transfers
        ]
    return GraphPlan(plans[0].name, instance, tuple(pieces), tuple(transfers), any(plan.ranked for plan in plans))


def divide(total: int, weights: Sequence[float]) -> list[int]:
    """Whole parts of a number, in proportion to weights, rounded where the sum of those before is."""
    every, before, done, parts = sum(weights), 0.0, 0, []
    for weight in weights:
        before += weight
        end = min(round(total * before / every), total)
        parts.append(end - done)
        done = end
    return parts


def num_elements(instance: GraphInstance) -> int:
    """Elements of the buffer."""
    return instance.collective.size // instance.collective.element_bytes


def shares(instance: GraphInstance) -> dict[int, int]:
    """Elements of each NPU in a collective whose buffer they share equally."""
    npus = instance.network.capacities.terminals
    return dict(zip(npus, divide(num_elements(instance), [1] * len(npus)), strict=True))


def demands(instance: GraphInstance) -> dict[tuple[int | None, int | None], int]:
    """Elements that must go from a source to a target, where None stands for every NPU; of all collectives."""
    if len(instance.collectives) > 1:
        amounts: Counter[tuple[int | None, int | None]] = Counter()
        for single in instance.singles:
            amounts.update(demands(single))
        return dict(amounts)
    demand, total, parts = instance.demand, num_elements(instance), shares(instance)
    ends: dict[Ends, tuple[int | None, ...]] = {Ends.ALL: (None,), Ends.EACH: tuple(parts), Ends.ROOT: (instance.root,)}
    return {
        (source, target): parts[_sharer(demand, source, target)] if demand.divided else total
        for target in ends[demand.targets]
        for source in ends[demand.sources]
        if source is None or source != target
    }


def _sharer(demand: Demand, source: int | None, target: int | None) -> int:
    """The NPU whose share goes from a source to a target."""
    sharer = target if demand.targets is Ends.EACH else source
    assert sharer is not None  # one end is each NPU
    return sharer
