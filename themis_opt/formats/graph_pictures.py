"""Pictures of graphs: the network with its capacities, and what each direction of a link sends over time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_link, format_short_time, time_unit
from themis_opt.formats.drawing import MOST_SHAPES, draw_boxes
from themis_opt.formats.gantt import save_figure
from themis_opt.formats.palette import INK, LINE, QUIET
from themis_opt.graphs.bounds import alike_nodes
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.slots import SlotPlan

MOST_DRAWN, MOST_NAMED_NODES, MOST_BANDWIDTH_LABELS = 400, 48, 24
"""Nodes of a picture, nodes whose names are written, and links whose bandwidth is."""

MOST_LINK_LINES = 40
"""Rows of a timeline: of more directions of links the busiest."""

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


def draw_losses(instance: GraphInstance, losses: Sequence[tuple[str, float, int]], path: Path) -> None:
    """Draw what is kept of the speed without each link, the worst first; alike names with equal values share a bar.

    `losses`: a link, the part of the speed that is kept, and how many other links it stands for.

    Raises InputError if no picture has that ending.
    """
    bars: dict[tuple[str, float], list[tuple[str, int]]] = defaultdict(list)
    for name, kept, alike in sorted(losses, key=lambda one: one[1]):
        bars[re.sub(r"\d+", "*", name), round(kept, 4)].append((name, 1 + alike))
    names = [
        links[0][0] if (count := sum(n for _, n in links)) == 1 else f"{links[0][0]} and {count - 1} alike"
        for links in bars.values()
    ][:MOST_LOSS_BARS]
    values = [100 * kept for _, kept in bars][:MOST_LOSS_BARS]
    figure = Figure(figsize=(9.0, 1.2 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(names)), values, color=NPU_COLOUR, height=0.7)
    for row, value in enumerate(values):
        axes.annotate(f"{value:.3g} %", (value, row), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 110)
    axes.set_xlabel("speed kept without this link (%)", color=QUIET, fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    left_out = f", the worst {len(names)} of {len(bars)} bars" if len(bars) > len(names) else ""
    axes.set_title(f"{instance.name or 'graph'}: what hurts most{left_out}", loc="left", fontsize=11)
    save_figure(figure, path)


MOST_LOSS_BARS = 40


def draw_schedule(schedule: GraphSchedule, path: Path) -> None:
    """Draw what links send, a row for the busiest of all that are alike; later chunks are darker.

    Raises InputError if no picture has that ending.
    """
    plan, timed = schedule.plan, schedule.timed
    held = timed.operations.resource
    busy = np.bincount(held, timed.operations.duration, len(timed.resources))
    roles = _roles(schedule, busy)
    row = np.full(len(timed.resources), -1)
    row[list(roles)] = range(len(roles))
    names = [timed.resources[link] + (f" and {alike} alike" if alike else "") for link, alike in roles.items()]
    drawn = np.flatnonzero(row[held] >= 0)
    unit, scale = time_unit(schedule.makespan)
    figure = Figure(figsize=(12.0, 1.4 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots()
    colours = colormaps["viridis_r"](np.linspace(0.15, 0.85, schedule.chunks))
    shades = colours[drawn // (len(held) // schedule.chunks)]
    left, right = timed.start[drawn] / scale, timed.end[drawn] / scale
    draw_boxes(axes, left, right, row[held[drawn]], {"facecolors": shades, "rasterized": len(drawn) > MOST_SHAPES})
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, schedule.makespan / scale)
    axes.set_xlabel(f"time ({unit})", color=QUIET, fontsize=9)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    shown = f"{len(names)} of {int((busy > 0).sum())} link directions"
    shown += f", {schedule.chunks} chunks from light to dark" if schedule.chunks > 1 else ""
    title = f"{plan.instance.name or 'graph'}, {plan.name}: {format_short_time(schedule.makespan)}; {shown}"
    axes.set_title(title, loc="left", fontsize=11)
    save_figure(figure, path)


def _roles(schedule: GraphSchedule, busy: "np.ndarray[Any, Any]") -> dict[int, int]:
    """The busiest direction of links that are alike, and how many others are, by name; of many roles the busiest."""
    network, alike = schedule.problem.network, defaultdict[Any, list[int]](list)
    classes = alike_nodes(network, None)
    looks: Iterable[Any] = ((classes[tail], classes[head], rate) for (tail, head), rate in network.arcs.items())
    if isinstance(schedule.plan, SlotPlan):  # whose links stand for all that are alike
        looks = range(len(busy))
    for number, look in enumerate(looks):
        if busy[number]:
            alike[look].append(number)
    roles = {max(members, key=lambda link: busy[link]): len(members) - 1 for members in alike.values()}
    kept = sorted(roles, key=lambda link: -busy[link])[:MOST_LINK_LINES]
    return {link: roles[link] for link in sorted(kept, key=lambda link: schedule.timed.resources[link])}
