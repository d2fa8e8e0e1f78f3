"""What no schedule on a graph beats: one row for each reason, and in words what decides."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Literal

import numpy as np

from formulations.concurrent_flow import concurrent_flow, length_time, node_classes
from formulations.flow_network import UNLIMITED, CapacityGraph, distances, reversed_arcs
from formulations.part_entries import entry_times
from formulations.quickest_flow import latest_arrival
from formulations.shared_roots import partition_bound, share_roots
from formulations.tree_lengths import has_few_classes, tree_throughput
from formulations.worst_cut import WorstCut, worst_broadcast, worst_cut
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_link
from themis_opt.graphs.plan import LinkArc, demands, num_elements, shares
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rails import box_name

Reach = Literal["any algorithm", "trees", "chunks of one size"]

UNFOLDED = 12_000  # most flow variables of an all-to-all of which every source is one; larger programmes take seconds
MOST_PAIRED = 10_000_000  # NPUs times link directions up to which flows of an all-to-all are computed: a second

MOST_FOLLOWED = 256
"""NPUs up to which cuts and distances of all are sought; of more, those of one for each class of alike NPUs."""

SOLVER_TOLERANCE = 1e-9  # share by which bounds of linear programmes are lowered, since solvers round


@dataclass(frozen=True)
class GraphBound:
    """A lower bound on the makespan.

    `holds`: ``any algorithm``, ``trees``: reductions and broadcasts along trees of any kind, or ``chunks of one size``
      that are received whole before they are passed on.
    `meaning`: what decides.
    """

    name: str
    picoseconds: Fraction
    holds: Reach
    meaning: str


def graph_bounds(instance: GraphInstance) -> dict[str, GraphBound]:
    """All bounds of an instance by name, those of any algorithm first."""
    return {bound.name: bound for bound in each_bound(instance)}


def each_bound(instance: GraphInstance) -> Iterator[GraphBound]:
    """The bounds one after the other, for who has no time for all."""
    if len(instance.collectives) > 1:
        yield load_bound(instance)
        for number, single in enumerate(instance.singles, start=1):
            yield from (replace(one, name=f"{one.name} of collective {number}") for one in each_bound(single))
        return
    yield from _volume_bounds(instance)
    yield latency_bound(instance)
    yield from _arrival_bounds(instance)
    yield from _entry_bounds(instance)


def best_bound(instance: GraphInstance, *, trees: bool = False) -> GraphBound:
    """The largest bound on any algorithm; with `trees` on those along trees."""
    bounds = graph_bounds(instance).values()
    return max((b for b in bounds if trees or b.holds == "any algorithm"), key=lambda bound: bound.picoseconds)


def throughput(instance: GraphInstance, bound: GraphBound) -> float:
    """Bytes per second of the buffer of one NPU in the time of a bound."""
    time = float(bound.picoseconds)
    return instance.size * PICOSECONDS_PER_SECOND / time if time else inf


def _volume_bounds(instance: GraphInstance) -> Iterator[GraphBound]:
    graph = instance.network.capacities
    if instance.demand.personal:
        yield replace(load_bound(instance), name="cut")
        if len(graph.terminals) * len(graph.arcs) <= MOST_PAIRED:
            yield _flow_bound(instance, graph)
    elif instance.demand.sums_for_all:
        yield from _all_reduce_bounds(instance)
    else:
        yield _cut_bound(instance, turned=instance.demand.is_backwards)


def _picoseconds(instance: GraphInstance, units: Fraction) -> Fraction:
    """Time for the whole buffer at a rate in units of capacity."""
    return instance.collective.size * PICOSECONDS_PER_SECOND / (units * instance.network.unit)


def deciding_cut(instance: GraphInstance, *, turned: bool) -> WorstCut:
    """The worst cut for data that leave its nodes, or enter them, from all NPUs or from the root."""
    return _worst_cut(instance.network, None if instance.demand.divided else instance.root, turned=turned)


@lru_cache(maxsize=64)
def _worst_cut(network: GraphNetwork, root: int | None, *, turned: bool) -> WorstCut:
    graph = network.capacities.reversed if turned else network.capacities
    npus = () if network.num_npus <= MOST_FOLLOWED else _one_of_each_class(network, root)
    return worst_cut(graph, npus) if root is None else worst_broadcast(graph, root, npus)


@lru_cache(maxsize=64)
def alike_nodes(network: GraphNetwork, root: int | None) -> list[int]:
    """Numbers of nodes that colour refinement by capacities and latencies does not tell apart; a root looks different.

    Bounds hold whichever nodes have a number in common: they are the best where these are images of each other.
    """
    roots = () if root is None else (root,)
    return node_classes(network.capacities, roots, np.array([*network.latencies.values()]))


def _one_of_each_class(network: GraphNetwork, root: int | None = None) -> tuple[int, ...]:
    npus = np.array(network.capacities.terminals)
    return tuple(npus[np.unique(np.array(alike_nodes(network, root))[npus], return_index=True)[1]].tolist())


def _cut_bound(instance: GraphInstance, *, turned: bool) -> GraphBound:
    """The time of elements that must leave the nodes of a cut, or enter them, and the least latency of its links."""
    network, nodes = instance.network, deciding_cut(instance, turned=turned).nodes
    parts = shares(instance).items()
    elements = sum(part for npu, part in parts if npu in nodes) if instance.demand.divided else num_elements(instance)
    crossing = [arc for arc in network.arcs if arc[turned] in nodes and arc[not turned] not in nodes]
    time, rate = _crossing_time(instance, crossing, elements)
    links = f"{len(crossing)} link{'s' * (len(crossing) > 1)} ({format_link(float(rate))})"
    words = f"{'into' if turned else 'out of'} {words_of(network, nodes)} over {links}"
    return GraphBound("cut", time, "any algorithm", words)


def _crossing_time(instance: GraphInstance, crossing: Sequence[LinkArc], elements: int) -> tuple[Fraction, Fraction]:
    """What elements take over links at least, of which the fastest has the last byte, and the rate of the links."""
    rate = sum((instance.network.arcs[arc] for arc in crossing), Fraction(0))
    latency = min(instance.network.latencies[arc] for arc in crossing)
    return elements * instance.element_bytes * PICOSECONDS_PER_SECOND / rate + latency, rate


def _flow_bound(instance: GraphInstance, graph: CapacityGraph) -> GraphBound:
    """Maximum concurrent flow, in the time that links are not idle."""
    fold = len(graph.terminals) * len(graph.arcs) > UNFOLDED
    flow = concurrent_flow(graph, fold=fold)
    element = instance.collective.element_bytes * PICOSECONDS_PER_SECOND / instance.network.unit
    amounts = {npu: part * element for npu, part in shares(instance).items()}
    time = length_time(graph, flow.lengths, instance.network.latencies, amounts)
    longest = max(flow.lengths.values())
    full = [arc for arc, length in flow.lengths.items() if length == longest]
    words = f"maximum concurrent flow, of which {len(full)} of {len(flow.lengths)} link directions have most"
    return GraphBound("flow", time, "any algorithm", words)


def _all_reduce_bounds(instance: GraphInstance) -> Iterator[GraphBound]:
    """The single cut, the best of some partitions if switches do not sum, and the optimum of trees."""
    network = instance.network
    sides = [_cut_bound(instance, turned=turned) for turned in (False, True)[: 2 - network.capacities.is_symmetric]]
    yield max(sides, key=lambda bound: bound.picoseconds)
    least = min(network.latencies.values())  # after the last byte
    if not network.switches_that("sums") and not network.switches_that("multicasts"):
        units = partition_bound(network.capacities)
        words = "messages between parts of the graph: two for each part but one"
        yield GraphBound("partition", _picoseconds(instance, units) + least, "any algorithm", words)
    words = "linear programme of trees whose roots share the data freely"
    yield GraphBound("trees", _picoseconds(instance, _tree_rate(network)) + least, "trees", words)


@lru_cache(maxsize=64)
def _tree_rate(network: GraphNetwork) -> Fraction:
    """What trees attain at most: by lengths of alike links where these say it, else by shares of roots."""
    graph, sums, copies = network.capacities, network.switches_that("sums"), network.switches_that("multicasts")
    if not sums and not copies and has_few_classes(graph, classes := alike_nodes(network, None)):
        return tree_throughput(graph, classes)
    return Fraction(share_roots(graph, sums, copies).throughput) * Fraction(1 + SOLVER_TOLERANCE)


def latency_bound(instance: GraphInstance) -> GraphBound:
    """What the last byte of the farthest NPU takes: all NPUs influence all, or the root does, or all do the root."""
    network = instance.network
    npus = network.capacities.terminals
    rooted, lengths = instance.demand.rooted, network.latencies
    if rooted and instance.demand.is_backwards:
        lengths = {(head, tail): latency for (tail, head), latency in lengths.items()}
    if rooted:
        sources: Sequence[int] = (instance.root,)
    else:
        sources = npus if len(npus) <= MOST_FOLLOWED else _one_of_each_class(network)
    distance, source, sink = max(_farthest(network, lengths, source) for source in sources)
    words = f"distance between {network.nodes[source].name} and {network.nodes[sink].name}"
    return GraphBound("latency", Fraction(distance), "any algorithm", words)


def _farthest(network: GraphNetwork, latencies: Mapping[LinkArc, int], source: int) -> tuple[int, int, int]:
    """The largest distance of an NPU from one, and both."""
    distance = distances(len(network.nodes), latencies, [source])
    npus = np.array(network.capacities.terminals)
    reached = npus[(distance[npus] < UNLIMITED) & (npus != source)]
    sink = int(reached[np.argmax(distance[reached])])
    return int(distance[sink]), source, sink


def _arrival_bounds(instance: GraphInstance) -> Iterator[GraphBound]:
    """When some NPU can have what it needs of others, by latencies and bandwidths at once."""
    network = instance.network
    if not any(network.latencies.values()) or network.num_npus > MOST_NPUS_OF_ARRIVALS:
        return
    latest, words = 0, ""
    # Data are followed to one NPU, or from one NPU on the graph turned around
    for is_turned in (False, True) if instance.demand.personal else (instance.demand.is_backwards,):
        graph, latencies = network.capacities, network.latencies
        if is_turned:
            graph, latencies = graph.reversed, reversed_arcs(latencies)
        for amounts, sink in _meetings(instance, graph, latencies):
            arrival = latest_arrival(graph, latencies, amounts, sink, latest)
            if arrival.time > latest:
                ends = [words_of(network, arrival.sources), network.nodes[sink].name]
                latest, words = arrival.time, f"data on the way from {ends[is_turned]} to {ends[not is_turned]}"
    if words:
        yield GraphBound("arrival", Fraction(latest), "any algorithm", words)


MOST_SINKS, MOST_NPUS_OF_ARRIVALS = 6, 8192
"""NPUs for which arrivals are computed, a tenth of a second, and of networks for which they take half a second."""


def _meetings(
    instance: GraphInstance, graph: CapacityGraph, latencies: Mapping[tuple[int, int], int]
) -> Iterator[tuple[dict[int, Fraction], int]]:
    """Picoseconds of a unit of capacity that sources have for a sink: all others, or single ones the whole buffer."""
    element = instance.collective.element_bytes * PICOSECONDS_PER_SECOND / instance.network.unit
    npus, classes, parts = graph.terminals, node_classes(graph), shares(instance)
    sinks = list({classes[npu]: npu for npu in reversed(npus)}.values())[:MOST_SINKS]
    if instance.demand.divided:
        if instance.demand.personal:
            parts = dict.fromkeys(npus, min(parts.values()))
        for sink in sinks:
            if amounts := {npu: part * element for npu, part in parts.items() if npu != sink and part}:
                yield amounts, sink
        return
    for source in (instance.root,) if instance.demand.rooted else sinks:
        reach = distances(graph.num_nodes, latencies, [source])
        others = sorted((npu for npu in npus if npu != source), key=lambda npu: -reach[npu])
        for sink in dict.fromkeys((others[0], *(npu for npu in sinks if npu != source))):
            yield {source: num_elements(instance) * element}, sink


def _entry_bounds(instance: GraphInstance) -> Iterator[GraphBound]:
    """When all boxes can have what one NPU has, or it the sums of all, if each box has them once."""
    network, demand = instance.network, instance.demand
    if demand.divided or not any(network.latencies.values()) or network.num_npus > MOST_ENTERED:
        return
    amount = Fraction(instance.size * PICOSECONDS_PER_SECOND) / network.unit
    parts = _parts(network)
    times = list[tuple[int, int]]()
    for turned in (False, True):
        if times and network.capacities.is_symmetric:  # whose latencies are the same both ways
            break
        copiers = network.switches_that("sums" if turned else "multicasts")
        if (demand.sums_for_all or turned == demand.is_backwards) and not copiers:
            graph, latencies = network.capacities, network.latencies
            if turned:
                graph, latencies = graph.reversed, reversed_arcs(latencies)
            roots = (instance.root,) if demand.rooted else _one_of_each_class(network)[:MOST_SINKS]
            times += zip(entry_times(graph, latencies, parts, roots, amount), roots, strict=True)
    if times:
        time, root = max(times)
        words = f"entries into {len(parts)} parts of data of {network.nodes[root].name}"
        yield GraphBound("entries", Fraction(time), "any algorithm", words)


MOST_ENTERED = 1024  # NPUs up to which entries into boxes are followed: a tenth of a second


def _parts(network: GraphNetwork) -> list[set[int]]:
    """The boxes with their switches; where there is one box, every NPU."""
    boxes: dict[str, set[int]] = defaultdict(set)
    for name, number in network.index.items():
        boxes[box_name(name)].add(number)
    parts = [nodes for nodes in boxes.values() if not nodes.isdisjoint(network.capacities.terminals)]
    return parts if len(parts) > 1 else [{npu} for npu in network.capacities.terminals]


def load_bound(instance: GraphInstance) -> GraphBound:
    """The worst of some cuts, over which all collectives have to send their data, which nobody can send for two."""
    network, npus = instance.network, set(instance.network.capacities.terminals)
    everything = frozenset(range(len(network.nodes)))
    cuts = {deciding_cut(single, turned=turned).nodes for single in instance.singles for turned in (False, True)}
    cuts |= {frozenset([npu]) for npu in sorted(npus)[:MOST_SINKS]} | _unlike_boxes(network)
    times = []
    for nodes in sorted({*cuts, *(everything - nodes for nodes in cuts)}, key=sorted):
        crossing = [arc for arc in network.arcs if arc[0] in nodes and arc[1] not in nodes]
        elements = sum(_elements_out(single, nodes & npus) for single in instance.singles)
        if elements:
            times.append((_crossing_time(instance, crossing, elements)[0], nodes))
    time, nodes = max(times, key=lambda pair: pair[0])
    words = f"what all collectives send out of {words_of(network, nodes)}"
    return GraphBound("loads", time, "any algorithm", words)


def _unlike_boxes(network: GraphNetwork) -> set[frozenset[int]]:
    """One of all boxes, pods or racks whose nodes look alike."""
    classes, unlike = alike_nodes(network, None), dict[tuple[int, ...], frozenset[int]]()
    for names in network.boxes.values():
        nodes = frozenset(network.index[name] for name in names)
        unlike.setdefault(tuple(sorted(classes[node] for node in nodes)), nodes)
    return {nodes for nodes in unlike.values() if 0 < len(nodes & set(network.capacities.terminals)) < network.num_npus}


def _elements_out(single: GraphInstance, inside: Set[int]) -> int:
    """Elements that NPUs outside of a set need of those inside."""
    parts = shares(single)
    outside = set(parts) - inside
    if not inside or not outside:
        return 0
    if single.demand.personal:  # as the demands say, of which there are many
        return len(inside) * sum(parts[npu] for npu in outside)
    return sum(
        elements
        for (source, target), elements in demands(single).items()
        if (source is None or source in inside) and (target is None or target in outside)
    )


def words_of(network: GraphNetwork, nodes: Iterable[int]) -> str:
    """The NPUs among some nodes in words: by boxes, the part of a name before the last full stop, where they are whole.

    Of more than half of the NPUs the others are named.
    """
    names = [network.nodes[node].name for node in sorted(nodes) if network.nodes[node].kind == "npu"]
    if len(names) == 1:
        return names[0]
    if 2 * len(names) > network.num_npus:
        others = sorted(set(network.npus) - set(names), key=network.npus.index)
        return f"the {len(names)} NPUs but {_listed(network, others)}"
    return f"the {len(names)} NPUs {'of ' if _whole_boxes(network, names) else ''}{_listed(network, names)}"


def _listed(network: GraphNetwork, names: list[str]) -> str:
    parts = _whole_boxes(network, names) or names
    return ", ".join(parts) if len(parts) <= MOST_NAMED else f"{', '.join(parts[: MOST_NAMED - 1])}, ..."


MOST_NAMED = 4  # boxes or NPUs of a set that are named


def _whole_boxes(network: GraphNetwork, names: list[str]) -> list[str]:
    """The boxes that some NPUs are all the NPUs of; none where some are parts of one, or of none."""
    boxes: dict[str, set[str]] = defaultdict(set)
    for npu in network.npus:
        boxes[box_name(npu)].add(npu)
    whole = {box: members for box, members in boxes.items() if box and members <= set(names) and len(boxes) > 1}
    return list(whole) if set().union(*whole.values()) == set(names) else []
