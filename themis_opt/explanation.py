"""Why a makespan is what it is: the disjunctive graph, its critical path, and where each dimension's time goes.

The disjunctive graph (B. Roy and B. Sussmann, 1964) has a node per stage, arcs along the path of each chunk
and arcs along the sequence of each dimension; the makespan is its longest path.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from themis_opt.schedule import Schedule

SOURCE, SINK = "start", "end"


@dataclass(frozen=True)
class Step:
    """One stage on the critical path.

    `waited_for` says what it had to wait for: the result of the stage before it in its chunk (``data``), its
    dimension (``dimension``), or nothing but its release (``release``).  Times are picoseconds.
    """

    stage: int
    label: str
    start: int
    busy: int
    lag: int
    waited_for: str


@dataclass(frozen=True)
class DimensionTime:
    """How one dimension spends the makespan, in picoseconds.

    `lag` is time without work while the next stage's data (at the end: the last result) are on their way,
    `idle` all other time without work.
    """

    name: str
    busy: int
    lag: int
    idle: int


@dataclass(frozen=True)
class Explanation:
    """The critical path and the time of each dimension."""

    steps: tuple[Step, ...]
    dimensions: tuple[DimensionTime, ...]


def explain(schedule: Schedule) -> Explanation:
    """Explain the makespan of a valid schedule."""
    count = len(schedule.instance.network.dimensions)
    return Explanation(critical_path(schedule), tuple(dimension_time(schedule, k) for k in range(count)))


def disjunctive_graph(schedule: Schedule) -> "nx.DiGraph[Any]":
    """The graph of what stages wait for (edge attribute ``kind``: data, dimension, release).

    Its longest path is the makespan of every schedule that starts each stage as soon as its sequence allows, as
    simulated ones do.
    """
    costs, plan = schedule.costs, schedule.plan
    passage = (costs.occupancy + costs.lag).tolist()
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for k in range(len(schedule.instance.network.dimensions)):
        order = schedule.sequence(k).tolist()
        graph.add_weighted_edges_from(((a, b, int(costs.occupancy[a])) for a, b in pairwise(order)), kind="dimension")
    for offset, chunks, collective in zip(plan.offsets, plan.chunks, schedule.instance.collectives, strict=False):
        stages = chunks.paths.shape[1]
        for first in range(offset, offset + chunks.paths.size, stages):
            last = first + stages - 1
            graph.add_edge(SOURCE, first, weight=collective.release, kind="release")
            graph.add_weighted_edges_from(((s, s + 1, passage[s]) for s in range(first, last)), kind="data")
            graph.add_edge(last, SINK, weight=passage[last], kind="data")
    return graph


def critical_path(schedule: Schedule) -> tuple[Step, ...]:
    """A longest path of the disjunctive graph."""
    graph = disjunctive_graph(schedule)
    nodes: list[Any] = nx.dag_longest_path(graph)
    steps = []
    for before, stage in pairwise(nodes[:-1]):
        steps.append(
            Step(
                stage=stage,
                label=schedule.plan.label(schedule.instance, stage),
                start=int(schedule.start[stage]),
                busy=int(schedule.costs.occupancy[stage]),
                lag=int(schedule.costs.lag[stage]),
                waited_for=graph.edges[before, stage]["kind"],
            )
        )
    return tuple(steps)


def dimension_time(schedule: Schedule, dimension: int) -> DimensionTime:
    """Split the makespan of one dimension in busy, lag and idle time."""
    order = schedule.sequence(dimension)
    name = schedule.instance.network.dimension_names[dimension]
    if not len(order):
        return DimensionTime(name, 0, 0, schedule.makespan)
    busy = int(schedule.costs.occupancy[order].sum())
    free_from = np.concatenate([[0], schedule.end[order]])
    free_until = np.concatenate([schedule.start[order], [schedule.makespan]])
    sent_at = np.concatenate([_input_sent(schedule)[order], [schedule.end[order[-1]]]])
    arrived_at = np.concatenate([schedule.start[order], [schedule.ready[order[-1]]]])
    overlap = np.minimum(free_until, arrived_at) - np.maximum(free_from, sent_at)
    lag = int(np.maximum(overlap, 0).sum())
    return DimensionTime(name, busy, lag, schedule.makespan - busy - lag)


def _input_sent(schedule: Schedule) -> np.ndarray:
    """When the input of each stage left the dimension before, shape (stages,); its own start where there is none."""
    sent = np.concatenate([[0], schedule.end[:-1]])
    ready = np.concatenate([[0], schedule.ready[:-1]])
    for offset, chunks in zip(schedule.plan.offsets, schedule.plan.chunks, strict=False):
        firsts = slice(offset, offset + chunks.paths.size, chunks.paths.shape[1])
        sent[firsts] = schedule.start[firsts]
        ready[firsts] = schedule.start[firsts]
    waits_for_it = ready == schedule.start
    result: np.ndarray = np.where(waits_for_it, sent, schedule.start)
    return result
