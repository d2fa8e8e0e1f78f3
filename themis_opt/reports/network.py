"""Pictures of graphs: nodes, and links with their capacities."""

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_link
from themis_opt.graphs.problem import GraphNetwork
from themis_opt.reports.rendering.charts import diagram, save

MOST_DRAWN, MOST_NAMED_NODES = 400, 48  # nodes of a picture, and nodes whose names are written

Places = dict[str, tuple[float, float]]


def draw_network(network: GraphNetwork, path: Path) -> None:
    """Draw a network, each bandwidth in another colour, with NPUs as circles and switches as squares.

    Raises InputError if it has too many nodes, or no picture has that ending.
    """
    if len(network.nodes) > MOST_DRAWN:
        raise InputError(f"must be at most {MOST_DRAWN} to be drawn", field="nodes", value=len(network.nodes))
    places, is_few = _places(network), len(network.nodes) <= MOST_NAMED_NODES
    rates = sorted({rate for link in network.links for rate in link.bandwidths.values()})
    links = [
        (*places[link.ends[0]], *places[link.ends[1]], format_link(rate), 0.8 + 2.4 * (rate / rates[-1]) ** 0.5)
        for link in network.links
        for rate in [max(link.bandwidths.values())]
    ]
    nodes = [(*places[n.name], n.name if is_few else "", n.kind) for n in network.nodes if n.name in places]
    chart = diagram(
        pd.DataFrame(links, columns=["x", "y", "x2", "y2", "bandwidth", "width"]),
        pd.DataFrame(nodes, columns=["x", "y", "name", "kind"]),
        [format_link(rate) for rate in rates],
    )
    save(chart, path, f"{network.name or 'graph'}: {network.num_npus} NPUs")


def _places(network: GraphNetwork) -> Places:
    """NPUs in a row, with switches above and below, where all links lead from row to row; else by distances.

    Switches without links have no place.
    """
    graph = network.graph.to_undirected()
    graph.remove_nodes_from(list(nx.isolates(graph)))
    heights = _heights(graph, network)
    if all(heights[a] != heights[b] for a, b in graph.edges):
        return _rows(graph, network, heights)
    return _by_distances(graph)


def _heights(graph: "nx.Graph[str]", network: GraphNetwork) -> dict[str, int]:
    """Hops to the nearest NPU; less than 0 of the switch of a box, which joins nothing but some of the NPUs."""
    npus = set(network.npus)
    hops = nx.multi_source_dijkstra_path_length(graph, npus, weight=None)
    in_box = {name for name in graph if name not in npus and set(graph[name]) < npus}
    return {name: -1 if name in in_box else int(count) for name, count in hops.items()}


def _rows(graph: "nx.Graph[str]", network: GraphNetwork, heights: dict[str, int]) -> Places:
    """Every switch in the middle of what it joins nearer to the NPUs; spread evenly where two would overlap."""
    order = {name: float(place) for place, name in enumerate(network.npus)}
    for height in sorted({height for height in heights.values() if height}, key=abs):
        names = [name for name in heights if heights[name] == height]
        nearer = {name: [order[n] for n in graph[name] if abs(heights[n]) < abs(height)] for name in names}
        middle = {name: float(np.mean(places)) for name, places in nearer.items()}
        if np.diff(sorted(middle.values())).min(initial=1.0) < 1:  # symbols would lie on each other
            spread = len(network.npus) / len(names)
            ranked = sorted(names, key=lambda name: middle[name])
            middle = {name: (place + 0.5) * spread - 0.5 for place, name in enumerate(ranked)}
        order |= middle
    return {name: (order[name], float(heights[name])) for name in graph}


def _by_distances(graph: "nx.Graph[str]") -> Places:
    """As far from each other as hops between them (classical multidimensional scaling), then moved apart by springs."""
    names = list(graph)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    squares = np.array([[lengths[a][b] for b in names] for a in names], dtype=np.float64) ** 2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    start = start / np.abs(start).max() + np.random.default_rng(0).normal(scale=1e-3, size=start.shape)
    placed = nx.spring_layout(graph, pos=dict(zip(names, start, strict=True)), weight=None, iterations=15, seed=0)
    return {name: (float(x), float(y)) for name, (x, y) in placed.items()}
