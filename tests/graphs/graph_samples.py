"""Graphs that tests share: small random ones, boxes behind switches, and figures of others."""

import random
from collections.abc import Iterable
from itertools import product
from typing import Any

from formulations.flow_network import CapacityGraph
from formulations.limits import Limits
from themis_opt.graphs.problem import GraphInstance, GraphNetwork, load_graph
from themis_opt.graphs.registry import GRAPH_SEARCHES
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.steps import GraphContest
from themis_opt.problem.catalog import shipped_graphs


def shipped(name: str, **changes: str) -> GraphInstance:
    """A shipped graph by the beginning of its name, perhaps with another kind or size of its collective."""
    path = next(path for file, path in shipped_graphs().items() if file.startswith(f"{name}."))
    instance = load_graph(path)
    return instance.model_copy(update={"collectives": (instance.collective.replace(**changes),)})


def random_graph(seed: int, *, symmetric: bool, switches: int = 0, most: int = 6) -> CapacityGraph:
    """A ring with chords; the last nodes are switches."""
    chance = random.Random(seed)
    count = chance.randint(3 + switches, most)
    pairs = {(node, (node + 1) % count) for node in range(count)}
    pairs |= {(a, b) for a in range(count) for b in range(a) if chance.random() < 0.4}
    arcs: dict[tuple[int, int], int] = {}
    for a, b in sorted(pairs):
        arcs[a, b] = chance.randint(1, 6)
        arcs[b, a] = arcs[a, b] if symmetric else chance.randint(1, 6)
    return CapacityGraph(count, tuple(range(count - switches)), arcs)


def network_of(
    graph: CapacityGraph, unit: float = 1e9, latency: str | None = "0", seed: int = 0, **skills: bool
) -> GraphNetwork:
    """The network of a graph whose links have two directions; without a latency, links have others each."""
    chance = random.Random(seed)
    nodes: list[dict[str, Any]] = [
        {"name": f"n{node}", "kind": "npu" if node in graph.terminals else "switch"}
        | ({} if node in graph.terminals else skills)
        for node in range(graph.num_nodes)
    ]
    links = [
        {
            "ends": [f"n{a}", f"n{b}"],
            "bandwidth": capacity * unit,
            "back": graph.arcs.get((b, a), 0) * unit,
            "latency": latency or f"{chance.randint(1, 40)} us",
        }
        for (a, b), capacity in graph.arcs.items()
        if a < b or (b, a) not in graph.arcs
    ]
    return GraphNetwork.model_validate({"nodes": nodes, "links": links})


def boxes_on_rails(
    boxes: int, gpus: int, lost: tuple[str, ...] = (), pod: int = 4, *, meshed: bool = False
) -> GraphNetwork:
    """Boxes with a switch, or meshes, with a NIC each to the leaf of their place and pod; leaves meet in two spines."""
    places = list(product(range(boxes), range(gpus)))
    leaves = [f"p{p}.leaf{g}" for p, g in product(range(-(-boxes // pod)), range(gpus))]
    nodes = [{"name": f"b{b}.g{g}"} for b, g in places]
    nodes += [{"name": n, "kind": "switch"} for n in (*(f"b{b}.nvs" for b in range(boxes)), *leaves, "s0", "s1")]
    links = [{"ends": [f"b{b}.g{g}", f"b{b}.nvs"], "bandwidth": "450 GB/s", "latency": "0.35 us"} for b, g in places]
    if meshed:
        nodes = [node for node in nodes if ".nvs" not in node["name"]]
        pairs = [(b, g, h) for b, g in places for h in range(g)]
        links = [{"ends": [f"b{b}.g{g}", f"b{b}.g{h}"], "bandwidth": "64 GB/s"} for b, g, h in pairs]
    links += [
        {
            "ends": [f"b{b}.g{g}", f"p{b // pod}.leaf{g}"],
            "bandwidth": "50 GB/s",
            "latency": "1 us",
            "name": f"nic{b}.{g}",
        }
        for b, g in places
    ]
    links += [{"ends": [leaf, s], "bandwidth": f"{25 * pod} GB/s"} for leaf, s in product(leaves, ("s0", "s1"))]
    return GraphNetwork.model_validate({"nodes": nodes, "links": links}).without(lost)


def instance_of(network: GraphNetwork, kind: str, size: str = "64 MB") -> GraphInstance:
    """A collective on a network."""
    return GraphInstance.model_validate({"network": network, "collectives": [{"kind": kind, "size": size}]})


def subsets(nodes: Iterable[int]) -> Iterable[frozenset[int]]:
    """All sets of some nodes but the empty one."""
    every = list(nodes)
    for mask in range(1, 2 ** len(every)):
        yield frozenset(node for place, node in enumerate(every) if mask >> place & 1)


def partitions(nodes: list[int]) -> Iterable[list[frozenset[int]]]:
    """All ways to divide nodes in parts."""
    if not nodes:
        yield []
        return
    first, *others = nodes
    for parts in partitions(others):
        yield [frozenset([first]), *parts]
        for place, part in enumerate(parts):
            yield [*parts[:place], part | {first}, *parts[place + 1 :]]


def searched(name: str, instance: GraphInstance, limits: Limits, enough: float = 0.0) -> GraphSchedule | None:
    """What a search finds within limits, or until picoseconds that are enough; it is legal."""
    contest = GraphContest(instance, limits, enough)
    GRAPH_SEARCHES[name].run(contest)
    assert not contest.refused
    return contest.schedules.get(name)
