"""Collectives on graphs of NPUs, switches and links."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from formulations.limits import Limits
from themis_opt.base.errors import InputError
from themis_opt.families.family import SEARCH_KNOBS, Family, checked_problem, chosen_policy
from themis_opt.graphs.bounds import graph_bounds
from themis_opt.graphs.comparison import GraphComparison, compare_graph
from themis_opt.graphs.description import graph_in_short
from themis_opt.graphs.plan import GraphPlan
from themis_opt.graphs.problem import GraphInstance, graph_doubts, graph_text
from themis_opt.graphs.registry import GRAPH_POLICIES, has_policy, is_search
from themis_opt.graphs.schedule import GraphSchedule, in_best_chunks, simulate_graph
from themis_opt.graphs.validation import validate_graph
from themis_opt.schedules.timed import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GraphFamily(Family):
    """Trees, rings, matchings and searches."""

    name = "graphs"
    usual = tuple(GRAPH_POLICIES)
    instead: ClassVar = {
        "tune": "every policy takes the best number of chunks by itself, so call 'compare'",
        "robustness": "call 'compare' on a network with slower links, 'instance.network.slowed({link: 0.5})'",
    }

    def solve(self, problem: GraphInstance, *, time_limit: float = Limits.seconds, **limits: Any) -> GraphComparison:
        """All policies, and all searches as long as these leave a gap."""
        return compare_graph(problem, None, Limits(seconds=time_limit, **limits))

    def compare(
        self, problem: GraphInstance, policies: Sequence[Any], *, time_limit: float = Limits.seconds, **limits: Any
    ) -> GraphComparison:
        """Policies and searches by name."""
        return compare_graph(problem, policies, Limits(seconds=time_limit, **limits))

    def bounds(self, problem: GraphInstance, **options: Any) -> Mapping[str, float]:
        """Bounds on any algorithm."""
        proven = graph_bounds(problem, **options).items()
        return {name: float(one.picoseconds) for name, one in proven if one.holds == "any algorithm"}

    def has_policy(self, specification: str) -> bool:
        """Whether there is such a plan or search."""
        return has_policy(specification)

    def knobs(self, specification: str) -> tuple[str, ...]:
        """The limits of searches; plans have none."""
        return SEARCH_KNOBS if is_search(specification) else ()

    def facts(self, problem: GraphInstance) -> Mapping[str, str | int]:
        """NPUs and the first collective; graphs have no dimensions, and policies choose the chunks."""
        return {
            "network": problem.network.name or problem.name or "graph",
            "dimensions": 0,
            "npus": problem.network.num_npus,
            "kind": problem.collectives[0].kind.value,
            "size_bytes": sum(collective.size for collective in problem.collectives),
            "chunks": 0,
        }

    def make_policy(self, specification: str, **knobs: Any) -> Any:
        """A policy of :data:`themis_opt.graphs.registry.GRAPH_POLICIES`."""
        return partial(chosen_policy(GRAPH_POLICIES, specification), **knobs)

    def simulate(self, problem: GraphInstance, plan: GraphPlan, **options: Any) -> GraphSchedule:
        """A plan in ``chunks``, by default the best number."""
        return simulate_graph(plan, **options) if options else in_best_chunks(plan)

    def validate(self, schedule: GraphSchedule) -> None:
        """As :func:`themis_opt.graphs.validation.validate_graph`."""
        validate_graph(schedule)

    def explain(self, schedule: GraphSchedule) -> Explanation:
        """The critical path over links, and how busy these are."""
        return schedule.timed.explain()

    def read_solution(self, path: Path, problem: GraphInstance | None = None) -> tuple[GraphSchedule, None]:
        """As :func:`themis_opt.graphs.schedule_file.read_graph_schedule`."""
        from themis_opt.graphs.schedule_file import read_graph_schedule

        schedule = read_graph_schedule(path)
        checked_problem(schedule, problem, path)
        return schedule, None

    def text(self, problem: GraphInstance) -> str:
        """As :func:`themis_opt.graphs.problem.graph_text`."""
        return graph_text(problem)

    def in_short(self, problem: GraphInstance) -> str:
        """As :func:`themis_opt.graphs.description.graph_in_short`."""
        return graph_in_short(problem)

    def changed(self, problem: GraphInstance, changes: Mapping[str, Any]) -> GraphInstance:
        """The instance with another size."""
        size = changes.get("size")
        super().changed(problem, {name: value for name, value in changes.items() if name != "size"})
        return problem.resized(size) if size else problem

    def doubts(self, problem: GraphInstance) -> Iterable[str]:
        """As :func:`themis_opt.graphs.problem.graph_doubts`."""
        return graph_doubts(problem.network)

    def plot(self, schedule: GraphSchedule, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """A row for each direction of a link."""
        from themis_opt.formats.plot import plot_operations

        return plot_operations(schedule.timed, ax, **options)

    def export(
        self, schedule: GraphSchedule, to: str, folder: Path, *, check: bool = False
    ) -> tuple[list[Path], list[str]]:
        """As :func:`themis_opt.formats.graph_exports.export_graph`, or a trace for Perfetto."""
        from themis_opt.families.files import export_trace
        from themis_opt.formats.graph_exports import export_graph

        if to == "trace":
            return export_trace(schedule.timed, schedule.problem.name, folder), []
        return export_graph(schedule, to, folder, check=check)

    def sweep(
        self, problem: GraphInstance, over: Mapping[str, Sequence[Any]], policies: Any = None, **limits: Any
    ) -> list[dict[str, Any]]:
        """Over ``size``, or ``LINK.bandwidth`` of one link."""
        rows = []
        for figure, values in over.items():
            for value in values:
                results = self.compare(_varied(problem, figure, value), policies or ("trees", "ring"), **limits).results
                rows += [{figure: value} | result.row() for result in results]
        return rows


def _varied(problem: GraphInstance, figure: str, value: Any) -> GraphInstance:
    """The instance with another size, or with another bandwidth of a link."""
    from themis_opt.base.units import parse_bandwidth

    link, _, what = figure.rpartition(".")
    if figure == "size":
        return problem.resized(value)
    if what != "bandwidth":
        raise InputError("must be 'size' or 'LINK.bandwidth' for a graph", field="over", value=figure)
    return problem.on(problem.network.with_bandwidth(link, parse_bandwidth(value)))
