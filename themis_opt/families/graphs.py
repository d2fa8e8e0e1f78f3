"""Collectives on graphs of NPUs, switches and links: trees, rings, matchings and searches."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.families import family
from themis_opt.families.family import Family, lazily, refuse_changes
from themis_opt.graphs.bounds import graph_bounds
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.description import graph_in_short
from themis_opt.graphs.plan import GraphPlan
from themis_opt.graphs.problem import GraphInstance, graph_doubts, graph_text
from themis_opt.graphs.registry import GRAPH_POLICIES, has_policy, is_search
from themis_opt.graphs.schedule import GraphSchedule, in_best_chunks, simulate_graph
from themis_opt.graphs.validation import validate_graph

if TYPE_CHECKING:
    from numpy.random import Generator

    from themis_opt.formats.exports import Exported
    from themis_opt.study.robustness import Disturbance


compare = family.with_limits(compare_graph)


def bounds(problem: GraphInstance, **options: Any) -> Mapping[str, float]:
    """Bounds on any algorithm."""
    proven = graph_bounds(problem, **options).items()
    return {name: float(one.picoseconds) for name, one in proven if one.holds == "any algorithm"}


def facts(problem: GraphInstance) -> Mapping[str, str | int]:
    """NPUs and the first collective; graphs have no dimensions, and policies choose the chunks."""
    return {
        "network": problem.network.name or problem.name or "graph",
        "dimensions": 0,
        "npus": problem.network.num_npus,
        "kind": problem.collectives[0].kind.value,
        "size_bytes": sum(collective.size for collective in problem.collectives),
        "chunks": 0,
    }


def simulate(problem: GraphInstance, plan: GraphPlan, **options: Any) -> GraphSchedule:
    """A plan in ``chunks``, by default the best number."""
    return simulate_graph(plan, **options) if options else in_best_chunks(plan)


def changed(problem: GraphInstance, changes: Mapping[str, Any]) -> GraphInstance:
    """The instance with another size."""
    size = changes.get("size")
    refuse_changes("graphs", {name: value for name, value in changes.items() if name != "size"})
    return problem.resized(size) if size else problem


def export(schedule: GraphSchedule, to: str, folder: Path, *, check: bool = False) -> "Exported":
    """As :func:`themis_opt.formats.graph_exports.export_graph`, a job shop, or a trace for Perfetto."""
    from themis_opt.families import files
    from themis_opt.formats.graph_exports import export_graph

    if to.partition(":")[0] in files.SHARED:
        return files.export(schedule, to, folder, check=check)
    return export_graph(schedule, to, folder, check=check)


def again(schedule: GraphSchedule, problem: GraphInstance) -> int:
    """What the plan of a schedule takes on another network."""
    return simulate_graph(replace(schedule.plan, instance=problem), schedule.chunks).makespan


def disturbed(problem: GraphInstance, disturbance: "Disturbance", random: "Generator") -> GraphInstance:
    """Every link with another bandwidth, in whole thousandths so that flows stay exact, and another latency."""
    spread, network = disturbance.bandwidth_spread, problem.network
    rates = random.uniform(1 - spread, 1 + spread, len(network.links)).round(3).clip(1e-3).tolist()
    lags = (1 + disturbance.latency_jitter * random.random(len(rates))).tolist()
    links = tuple(link.slower(rate, lag) for link, rate, lag in zip(network.links, rates, lags, strict=True))
    return problem.on(type(network)(name=network.name, nodes=network.nodes, links=links, source=network.source))


def _varied(problem: GraphInstance, figure: str, value: Any) -> GraphInstance:
    from themis_opt.base.units import parse_bandwidth

    link, _, what = figure.rpartition(".")
    if figure == "size":
        return problem.resized(value)
    if what != "bandwidth":
        raise InputError("must be 'size' or 'LINK.bandwidth' for a graph", field="over", value=figure)
    return problem.on(problem.network.with_bandwidth(link, parse_bandwidth(value)))


GRAPH_FAMILY = Family(
    name="graphs",
    solve=partial(compare, policies=None),
    compare=compare,
    bounds=bounds,
    has_policy=has_policy,
    make_policy=partial(family.make_policy, GRAPH_POLICIES),
    simulate=simulate,
    validate=validate_graph,
    export=export,
    robustness=partial(lazily("themis_opt.study.robustness:replayed_losses"), disturbed, again, bounds),
    rival=lambda problem: "trees",
    sweep=partial(family.sweep, compare, _varied, ("trees", "ring")),
    read_solution=partial(family.read_solution, "themis_opt.graphs.schedule_file:read_graph_schedule"),
    text=graph_text,
    in_short=graph_in_short,
    changed=changed,
    doubts=lambda problem: graph_doubts(problem.network),
    searches=is_search,
    facts=facts,
    usual=tuple(GRAPH_POLICIES),
    instead={
        "run": "call 'validate --data', which moves data over the links, or 'export --check'",
        "tune": "every policy takes the best number of chunks by itself, so call 'compare'",
    },
)
