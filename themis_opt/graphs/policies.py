"""The plans that others run: rings, double binary trees, Bine trees, PAT, messages on rails, and direct messages."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from formulations.edge_splitting import Route
from themis_opt.base.errors import InputError
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rails import Forest, Rails, boxes_of, fastest_routes
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.slots import MOST_LIFTED, SlotPlan, slot_plan

if TYPE_CHECKING:
    import networkx as nx

Routes = list[Route]


def ring_plan(instance: GraphInstance) -> GraphPlan:
    """Rings in both directions through boxes: as many as a box has NPUs, each of which enters boxes at another one."""
    network = instance.network
    boxes = boxes_of(network)
    rotations = [
        [box[(place + shift) % len(box)] for box in boxes for place in range(len(box))]
        for shift in range(min(map(len, boxes)) if len(boxes) > 1 else 1)
    ]
    rings = [order for ring in rotations for order in (ring, ring[::-1])]
    return _plan_of_trees("ring", instance, [_Ring(network, order) for order in rings])


def hierarchical_plan(instance: GraphInstance) -> GraphPlan:
    """Between boxes NPUs at the same place send to each other, and in each box one sends to all others.

    What all have crosses into each box once, over the rail of its root.  What one NPU has is scattered to others first,
    unless a tree is sooner.  Raises InputError if there are no boxes.
    """
    rails, count, rooted = Rails(instance.network), instance.network.num_npus, instance.demand.rooted
    few = MOST_EXACT if rails.has_nic.all() or not instance.demand.sums_for_all else MOST_DAMAGED_EXACT
    if not instance.demand.sums_for_all and len(rails.boxes) > len(boxes_of(instance.network)):
        few = MOST_TREES
    if count > few or rooted:
        with suppress(InputError) if count <= MOST_TREES else nullcontext():
            slots = slot_plan("hierarchical", instance, rails)
            if not rooted or count > MOST_LIFTED:
                return slots
            return _soonest([slots, _plan_of_trees("hierarchical", instance, [_Halved(rails)])])
    diagonal = (rails.boxes[place % len(rails.boxes), place] for place in range(rails.boxes.shape[1]))
    roots = [int(npu) for npu in diagonal if npu >= 0] if count > MOST_DAMAGED_EXACT else ()
    return _plan_on_rails("hierarchical", instance, rails, roots)


def _plan_on_rails(name: str, instance: GraphInstance, rails: Rails, roots: Sequence[int] = ()) -> GraphPlan:
    forests = [replace(rails, variant=number) for number in range(rails.variants.max())]
    return _plan_of_trees(name, instance, forests, roots)


def with_transfers(plan: GraphPlan) -> GraphPlan:
    """The plan, or that of slots with its transfers one by one. Raises InputError if these are too many."""
    if not isinstance(plan, SlotPlan):
        return plan
    if (count := plan.instance.network.num_npus) > MOST_TREES:
        rule = f"must be at most {MOST_TREES} for a plan message by message"
        raise InputError(rule, field="network.nodes", value=f"{count} NPUs")
    rails = Rails(plan.instance.network)
    if not plan.instance.demand.rooted:
        return _plan_on_rails(plan.name, plan.instance, rails)
    far = [npu for npu, share in zip(rails.place, rails.far_shares(plan.instance.root), strict=True) if share]
    return _plan_of_trees(plan.name, plan.instance, [_Scattered(rails, npu) for npu in far])


MOST_EXACT, MOST_DAMAGED_EXACT, MOST_TREES = 16, 64, 256
"""NPUs whose hops are simulated one by one: usually, in all-reduces where NICs are lost, and where slots are none."""


def scatter_plan(instance: GraphInstance) -> GraphPlan:
    """What one NPU sends to all, or all to one: a part over each NPU, which has it first of all in its box.

    A broadcast is a scatter and an all-gather then (R. Thakur, R. Rabenseifner, W. Gropp, 2005,
    https://doi.org/10.1177/1094342005051521), and a reduce the same backwards.  Parts over the box of the root cross
    the network once, those over others twice; the best of some shares is taken.  Raises InputError for other
    collectives, and if there are no boxes.
    """
    boxes = boxes_of(instance.network)
    if not instance.demand.rooted or not 1 < len(boxes) < instance.network.num_npus:
        rule = "is for what one NPU sends to all or all to one, over several boxes of NPUs"
        raise InputError(rule, field="kind", value=instance.kind.value)
    rails = Rails(instance.network, splits=False)
    near = next(box for box in boxes if instance.root in box)
    far = [npu for box in boxes if box is not near for npu in box] if instance.network.num_npus <= MOST_FAR else []
    forests = [_Scattered(rails, npu) for npu in (*near, *far)]
    shares = NEAR_SHARES if far else NEAR_SHARES[-1:]
    weights = [[share / len(near)] * len(near) + [(1 - share) / max(len(far), 1)] * len(far) for share in shares]
    return _soonest([_plan_of_trees("scatter", instance, forests, weights=each) for each in weights])


NEAR_SHARES, MOST_FAR, TRIED_CHUNKS = (0, 3 / 8, 1), 128, (1, 8)
"""Shares of data that a scatter sends over the box of its root, NPUs up to which there are several, and chunks in which
variants of a plan are tried."""


def _soonest(plans: Sequence[GraphPlan]) -> GraphPlan:
    return min(plans, key=lambda plan: min(simulate_graph(plan, chunks).makespan for chunks in TRIED_CHUNKS))


def exchange_plan(instance: GraphInstance) -> GraphPlan:
    """Sums for all by NPUs that send to each other at once, along one axis of the network after the other.

    Axes are boxes and places in them; where there are no boxes, the numbers in the names of NPUs.  Parts of the data
    begin with other axes.  On boxes each may also sum first, send its sums from one NPU to its like, and copy them.
    This is the soonest all-reduce of small messages.  Raises InputError for other collectives and networks.
    """
    network, boxes, plans = instance.network, boxes_of(instance.network), list[GraphPlan]()
    numbers = [re.findall(r"\d+", network.nodes[npu].name) for npu in boxes[0]]
    places: dict[int, tuple[int, ...]] = {npu: (*map(int, at),) for npu, at in zip(boxes[0], numbers, strict=True)}
    if instance.demand.sums_for_all and 1 < len(boxes) < network.num_npus:
        plans.append(_box_exchange(instance, boxes))
        places = {npu: (b, g) for b, box in enumerate(boxes) for g, npu in enumerate(box)}
    sizes = [len({*axis}) for axis in zip(*places.values(), strict=False)]
    is_grid = len(sizes) > 1 and prod(sizes) == len({*places.values()}) == network.num_npus
    if instance.demand.sums_for_all and is_grid and network.num_npus <= MOST_TREES:
        plans += _axis_exchanges(instance, places)
    if not plans:
        rule = "is for sums for all, over several boxes of NPUs or a grid with places in its names"
        raise InputError(rule, field="kind", value=instance.kind.value)
    return _soonest(plans)


def _box_exchange(instance: GraphInstance, boxes: Sequence[Sequence[int]]) -> GraphPlan:
    """Sums of a part in each box, which its NPUs at one place exchange at once, and copies within each box."""
    builder, rails, places = PlanBuilder("exchange", instance), Rails(instance.network), max(map(len, boxes))
    for place, part in enumerate(divide(demands(instance)[None, None], [1] * places)):
        piece = builder.add_piece(part, None, None)
        inside = {box[place % len(box)]: [npu for npu in box if npu != box[place % len(box)]] for box in boxes}
        sums = {
            head: builder.collect(piece, [rails.route(npu, head)[::-1] for npu in npus])
            for head, npus in inside.items()
        }
        received = _exchange(builder, piece, [[*inside]], sums)
        for head, npus in inside.items():
            builder.spread(piece, [fastest_routes(instance.network)[head][npu] for npu in npus], received[head])
    return builder.build()


def _axis_exchanges(instance: GraphInstance, places: Mapping[int, tuple[int, ...]]) -> Iterator[GraphPlan]:
    """Exchanges along all axes in order: from one of them on for all data, or from each of them for a part."""
    count = len(next(iter(places.values())))
    orders = [[*range(first, count), *range(first)] for first in range(count)]
    for chosen in (*([order] for order in orders), orders):
        builder = PlanBuilder("exchange", instance)
        for order, part in zip(chosen, divide(demands(instance)[None, None], [1] * len(chosen)), strict=True):
            piece = builder.add_piece(part, None, None)
            received: dict[int, tuple[int, ...]] = dict.fromkeys(places, ())
            for axis in order:
                groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
                for npu, place in places.items():
                    groups[place[:axis] + place[axis + 1 :]].append(npu)
                received = _exchange(builder, piece, groups.values(), received)
        yield builder.build()


def _exchange(
    builder: PlanBuilder, piece: int, groups: Iterable[Sequence[int]], before: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """What each NPU has received once all of each group have sent to each other what they received before."""
    routes, received = fastest_routes(builder.instance.network), {npu: [*arrivals] for npu, arrivals in before.items()}
    for group in groups:
        for shift, (number, npu) in itertools.product(range(1, len(group)), enumerate(group)):
            other = group[(number + shift) % len(group)]
            received[other].append(builder.send(piece, routes[npu][other], before[npu], adds=True))
    return {npu: tuple(arrivals) for npu, arrivals in received.items()}


def direct_plan(instance: GraphInstance) -> GraphPlan:
    """Every NPU sends to every other one over the fastest route. Raises InputError if these messages are too many."""
    if (count := instance.network.num_npus) > MOST_TREES and instance.demand.personal:
        rule = f"must be at most {MOST_TREES} for messages between all pairs"
        raise InputError(rule, field="network.nodes", value=f"{count} NPUs")
    shifts = range(1, count)
    star = _by_place(instance.network, lambda place: ((place, (place + shift) % count) for shift in shifts))
    return _plan_of_trees("direct", instance, [star])


def shortest_plan(instance: GraphInstance) -> GraphPlan:
    """Trees of the fastest ways from each NPU that has data, or to it, around links that other trees use.

    Sums for all have few roots.

    Raises InputError for what each NPU has for each other one.
    """
    if instance.demand.personal:
        raise InputError("is for data that all NPUs want", field="kind", value=instance.kind.value)
    npus = instance.network.capacities.terminals
    roots = npus[:: -(-len(npus) // MOST_ROOTS)] if instance.demand.sums_for_all else npus
    return _plan_of_trees("shortest", instance, [_Nearest(instance.network)], roots)


MOST_ROOTS = 32
"""Roots of sums for all along fastest ways: more take longer to plan, and chunks fill the pipelines of these."""


def bine_plan(instance: GraphInstance) -> GraphPlan:
    """Trees whose distances halve with changing signs, as sums of powers of -2: of Bine trees and of Swing.

    NPUs are neighbours in the order of their names.  Raises InputError if their number is no power of 2.

    D. De Sensi et al., Bine Trees, SC 2025, https://arxiv.org/abs/2508.17311; Swing, NSDI 2024,
    https://arxiv.org/abs/2401.09356.
    """
    count = instance.network.num_npus
    if count & (count - 1):
        raise InputError("is for 2, 4, 8, ... NPUs", field="network.nodes", value=count)
    distances = [(1 - (-2) ** (step + 1)) // 3 for step in range(count.bit_length() - 1)]

    def pairs(place: int) -> Iterator[tuple[int, int]]:
        holders = [place]
        for distance in reversed(distances):
            steps = [(tail, (tail + (-distance if tail % 2 else distance)) % count) for tail in holders]
            holders += [head for _, head in steps]
            yield from steps

    return _plan_of_trees("bine", instance, [_by_place(instance.network, pairs)])


def pat_plan(instance: GraphInstance) -> GraphPlan:
    """Shifted binomial trees whose distances halve: parallel aggregated trees, with room for all in between.

    S. Jeaugey, PAT, https://arxiv.org/abs/2506.20252, as NCCL runs for all-gathers and reduce-scatters.
    """
    count = instance.network.num_npus

    def pairs(place: int) -> Iterator[tuple[int, int]]:
        offsets = [0]
        for step in reversed(range((count - 1).bit_length())):
            steps = [(offset, offset + 2**step) for offset in offsets if offset + 2**step < count]
            offsets += [head for _, head in steps]
            yield from (((place + tail) % count, (place + head) % count) for tail, head in steps)

    return _plan_of_trees("pat", instance, [_by_place(instance.network, pairs)])


def double_tree_plan(instance: GraphInstance) -> GraphPlan:
    """Chains within boxes, and between boxes two binary trees in which the leaves of one are inside in the other.

    As many pairs of trees as a box has NPUs (P. Sanders, J. Speck, J. Traff, 2009,
    https://doi.org/10.1016/j.parco.2009.09.001; as in NCCL).  Raises InputError for what is no all-reduce.
    """
    if not instance.demand.sums_for_all:
        raise InputError("double binary trees are for all_reduce", field="kind", value=instance.kind.value)
    boxes = boxes_of(instance.network)
    forests = [
        _Fastest(instance.network, partial(_box_tree, order, shift))
        for shift in range(min(map(len, boxes)))
        for order in (boxes, boxes[::-1])
    ]
    return _plan_of_trees("double_tree", instance, forests, boxes[0][:1])


def two_tree_plan(instance: GraphInstance) -> GraphPlan:
    """What has a root over two binary trees of boxes for each rail, in which the leaves of one are inside in the other.

    So each NIC sends as much as it receives (P. Sanders, J. Speck, J. Traff, 2009,
    https://doi.org/10.1016/j.parco.2009.09.001).  Raises InputError for other collectives, and if there are no boxes
    or no rails with all their NICs.
    """
    if not instance.demand.rooted:
        raise InputError("is for what one NPU sends to all or all to one", field="kind", value=instance.kind.value)
    rails = Rails(instance.network, splits=False)
    if not (places := [place for place, has in enumerate(rails.has_nic.T) if has.all()]):
        raise InputError("must have a place at which all boxes have a NIC", field="network.links")
    forests = [_Railed(rails, place, is_odd) for place in places for is_odd in (False, True)]
    return _plan_of_trees("two_tree", instance, forests)


class _Nearest(Forest):
    """Trees of the fastest ways from a root, which end and begin at NPUs; links are slower by each tree over them."""

    def __init__(self, network: GraphNetwork) -> None:
        self._graph, self._npus = fastest_routes(network).graph.copy(), set(network.capacities.terminals)

    def out(self, root: int) -> Routes:
        """Routes from a root, those to near NPUs first."""
        return self._routes(self._graph, root)

    def into(self, root: int) -> Routes:
        """Routes to a root, turned around."""
        return self._routes(self._graph.reverse(copy=False), root)

    def _routes(self, graph: "nx.DiGraph[int]", root: int) -> Routes:
        import networkx as nx

        ways = nx.single_source_dijkstra_path(graph, root, weight="time")
        routes = [
            tuple(way[max(place for place in range(len(way) - 1) if way[place] in self._npus) :])
            for target, way in ways.items()
            if target != root and target in self._npus
        ]
        for tail, head in {arc for route in routes for arc in itertools.pairwise(route)}:
            graph[tail][head]["time"] *= SLOWER
        return routes


SLOWER = 2.0  # times as long as before a link takes once a tree uses it, for the choice of later trees


class _Fastest(Forest):
    """Trees over the fastest routes: pairs of parent and child by their root."""

    def __init__(self, network: GraphNetwork, pairs: Callable[[int], Iterable[tuple[int, int]]]) -> None:
        self._routes, self._pairs = fastest_routes(network), pairs

    def pairs(self, root: int) -> Iterable[tuple[int, int]]:
        """As they were given."""
        return self._pairs(root)

    def route(self, tail: int, head: int) -> Route:
        """The fastest one."""
        return self._routes[tail][head]


def _by_place(network: GraphNetwork, pairs: Callable[[int], Iterable[tuple[int, int]]]) -> _Fastest:
    """Trees by the places of NPUs in their order."""
    npus = network.capacities.terminals
    return _Fastest(network, lambda root: ((npus[tail], npus[head]) for tail, head in pairs(npus.index(root))))


class _OnRails(Forest):
    """Trees over routes of rails."""

    def __init__(self, rails: Rails) -> None:
        self._rails = rails

    def route(self, tail: int, head: int) -> Route:
        """That of the rails."""
        return self._rails.route(tail, head)


class _Scattered(_OnRails):
    """Trees that reach one NPU of another box first, over its mate beside the root, and all others from there."""

    def __init__(self, rails: Rails, via: int) -> None:
        super().__init__(rails)
        self._via = via

    def pairs(self, root: int) -> list[tuple[int, int]]:
        """To the mate beside the root, over it to the other box, and on from there."""
        home = [npu for npu in self._rails.boxes[self._rails.place[root][0]].tolist() if npu >= 0]
        mate = home[self._rails.place[self._via][1] % len(home)]
        first = [(tail, head) for tail, head in ((root, mate), (mate, self._via)) if head not in (tail, root)]
        if self._via not in home:
            first += [(mate, npu) for npu in home if npu not in (root, mate)]
        reached = {root, *(head for _, head in first)}
        return first + [pair for pair in self._rails.pairs(self._via) if pair[1] not in reached]


class _Halved(_OnRails):
    """Trees that cross the rail of a root to all boxes; half of these spread data, its mates send to all of others."""

    def pairs(self, root: int) -> list[tuple[int, int]]:
        """To the mates beside the root, along its rail, and to the others of each box."""
        boxes, (home, at) = self._rails.boxes.tolist(), self._rails.place[root]
        others = [*boxes[home + 1 :], *boxes[:home]]
        entries = [box[at] if box[at] >= 0 else max(box) for box in others]
        mates = [npu if npu >= 0 else root for npu in boxes[home]]
        pairs = [(root, npu) for npu in (*mates, *entries) if npu != root]
        for number, (box, entry) in enumerate(zip(others, entries, strict=True)):
            heads = [entry] * len(box) if 2 * number < len(others) else mates
            pairs += [(head, npu) for head, npu in zip(heads, box, strict=True) if npu not in (-1, entry)]
        return pairs


class _Railed(_OnRails):
    """A binary tree of boxes along the rail of one place, and from it in each box.

    `is_odd`: whether it is that tree in which the leaves of the other are inside.
    """

    def __init__(self, rails: Rails, place: int, is_odd: bool) -> None:
        super().__init__(rails)
        self._place, self._is_odd = place, is_odd

    def pairs(self, root: int) -> list[tuple[int, int]]:
        """To the mate beside the root, along the rail, and to the others of each box."""
        boxes, home = self._rails.boxes.tolist(), self._rails.place[root][0]
        mate, *heads = (box[self._place] for box in (*boxes[home:], *boxes[:home]))
        heads = [*heads[self._is_odd :], *heads[: self._is_odd]]
        pairs = [(root, mate)] if mate != root else []
        pairs.append((mate, heads[(len(heads) - 1) // 2]))
        pairs += [(heads[parent], heads[child]) for parent, child in _binary(0, len(heads) - 1)]
        for box in boxes:
            head, others = box[self._place], [npu for npu in box if npu not in (-1, root, box[self._place])]
            # The root also sends the parts of all other places, so that the part of its place goes from mate to mate
            pairs += itertools.pairwise([root, *others]) if head == root else [(head, npu) for npu in others]
        return pairs


class _Ring(_Fastest):
    """Chains along a ring: out of a root, and through all others into it."""

    def __init__(self, network: GraphNetwork, order: Sequence[int]) -> None:
        super().__init__(network, partial(_along, order))
        self._back = _Fastest(network, partial(_along, order[::-1]))

    def into(self, root: int) -> Routes:
        """Routes against the ring, turned around."""
        return self._back.into(root)


def _along(order: Sequence[int], root: int) -> Iterable[tuple[int, int]]:
    """From each NPU to the next one, from a root on."""
    place = order.index(root)
    return itertools.pairwise([*order[place:], *order[:place]])


def _plan_of_trees(
    name: str,
    instance: GraphInstance,
    forests: Sequence[Forest],
    sums: Sequence[int] = (),
    weights: Sequence[float] = (),
) -> GraphPlan:
    """Trees from every NPU, or into it, or both: each forest carries a part of the data, by default an equal one.

    `sums`: the roots of sums for all, by default every NPU.
    """
    builder = PlanBuilder(name, instance)
    for (source, target), elements in demands(instance).items():
        if source is not None and target is not None:
            route = fastest_routes(instance.network)[source][target]
            builder.send(builder.add_piece(elements, source, target), route)
            continue
        root = target if source is None else source
        roots = (sums or instance.network.capacities.terminals) if root is None else (root,)
        ways = [(forest, end) for forest in forests for end in roots]
        shares = weights or [
            forest.share(end, balanced=root is None) if isinstance(forest, Rails) else 1 for forest, end in ways
        ]
        for (forest, end), part in zip(ways, divide(elements, shares), strict=True):
            if not part:
                continue
            piece = builder.add_piece(part, source, target)
            arrivals = builder.collect(piece, forest.into(end)) if source is None else ()
            if target is None:
                builder.spread(piece, forest.out(end), arrivals)
    return builder.build()


def _box_tree(boxes: Sequence[Sequence[int]], shift: int, _: int) -> Iterator[tuple[int, int]]:
    """A binary tree between boxes, and a chain in each, whichever the root."""
    heads = [box[shift % len(box)] for box in boxes]
    yield from ((heads[parent], heads[child]) for parent, child in _binary(0, len(heads) - 1))
    for box, head in zip(boxes, heads, strict=True):
        yield from itertools.pairwise([head, *(npu for npu in box if npu != head)])


def _binary(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Pairs of parent and child of a balanced tree over places in order, parents first."""
    middle = (first + last) // 2
    for low, high in ((first, middle - 1), (middle + 1, last)):
        if low <= high:
            yield middle, (low + high) // 2
            yield from _binary(low, high)
