"""Pictures of graphs: nodes, and links with their capacities."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_link
from themis_opt.formats.gantt import save_figure
from themis_opt.formats.palette import INK
from themis_opt.graphs.problem import GraphNetwork

MOST_DRAWN, MOST_NAMED_NODES, MOST_BANDWIDTH_LABELS = 400, 48, 24
"""Nodes of a picture, nodes whose names are written, and links whose bandwidth is."""

NPU_COLOUR, SWITCH_COLOUR = "#4477aa", "#ccbb44"

Places = dict[str, tuple[float, float]]


def draw_network(network: GraphNetwork, path: Path) -> None:
    """Draw a network, each bandwidth in another colour.

    Raises InputError if it has too many nodes, or no picture has that ending.
    """
    if len(network.nodes) > MOST_DRAWN:
        raise InputError(f"must be at most {MOST_DRAWN} to be drawn", field="nodes", value=len(network.nodes))
    places = _places(network)
    figure = Figure(figsize=(10.0, 7.5), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    rates = sorted({rate for link in network.links for rate in link.bandwidths.values()})
    colours = dict(zip(rates, colormaps["viridis_r"](np.linspace(0.25, 0.95, len(rates))).tolist(), strict=True))
    for link in network.links:
        rate = max(link.bandwidths.values())
        (x, y), (u, v) = places[link.ends[0]], places[link.ends[1]]
        width = 0.8 + 2.4 * (rate / rates[-1]) ** 0.5
        axes.plot((x, u), (y, v), color=colours[rate], linewidth=width, zorder=1)
        if len(network.links) <= MOST_BANDWIDTH_LABELS:
            both = " / ".join(dict.fromkeys(map(format_link, link.bandwidths.values())))
            axes.text((x + u) / 2, (y + v) / 2, both, fontsize=7, color=INK, ha="center", va="center", zorder=2)
    _draw_nodes(axes, network, places)
    handles = [Line2D([], [], color=colours[rate], linewidth=2, label=format_link(rate)) for rate in rates[-8:]]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    axes.set_title(f"{network.name or 'graph'}: {network.num_npus} NPUs", loc="left", fontsize=11)
    save_figure(figure, path)


def _draw_nodes(axes: Axes, network: GraphNetwork, places: Places) -> None:
    few = len(network.nodes) <= MOST_NAMED_NODES
    for kind, colour, marker in (("npu", NPU_COLOUR, "o"), ("switch", SWITCH_COLOUR, "s")):
        points = [places[node.name] for node in network.nodes if node.kind == kind and node.name in places]
        if points:
            size = 260 if few else 40
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=size, c=colour, marker=marker, edgecolors="white", zorder=3)
    slant = 60 if len(network.nodes) > MOST_BANDWIDTH_LABELS / 2 else 0
    for name, place in places.items() if few else ():
        shift: Any = {"xytext": (0, -12), "textcoords": "offset points"}
        axes.annotate(name, place, **shift, fontsize=6.5, ha="center", va="top", rotation=slant)


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
    """Every switch in the middle of what it joins nearer to the NPUs; spread evenly where two would coincide."""
    order = {name: float(place) for place, name in enumerate(network.npus)}
    for height in sorted({height for height in heights.values() if height}, key=abs):
        names = [name for name in heights if heights[name] == height]
        nearer = {name: [order[n] for n in graph[name] if abs(heights[n]) < abs(height)] for name in names}
        middle = {name: float(np.mean(places)) for name, places in nearer.items()}
        if len(set(middle.values())) < len(names):
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
