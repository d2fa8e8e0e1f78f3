"""Trees beside policies of dimensions: along lines and grids they may be faster than any order."""

from typing import TYPE_CHECKING

from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind

if TYPE_CHECKING:
    from themis_opt.graphs.schedule import GraphSchedule


def has_rival_trees(instance: Instance) -> bool:
    """Whether trees may beat it: a broadcast, a reduce, or an all-reduce along lines or grids."""
    collective = instance.collectives[0] if len(instance.collectives) == 1 else None
    if collective is None or collective.dimensions is not None:
        return False
    if collective.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        return True
    if collective.kind is not CollectiveKind.ALL_REDUCE:
        return False
    return not all(dimension.kind.rule.can_reduce for dimension in instance.network.dimensions)


def trees_beside(instance: Instance) -> "GraphSchedule | None":
    """A schedule of trees where they may be faster than stages along dimensions.

    None for other problems, for large ones, and where stages cost more than latency and bandwidth, which graphs have.
    """
    dimensions = instance.network.dimensions
    if not has_rival_trees(instance) or instance.network.num_npus > MOST_BESIDE:
        return None
    if any(dimension.model_fields_set & BEYOND_GRAPHS for dimension in dimensions):
        return None
    from themis_opt.graphs.conversion import as_graph  # networkx and OR-Tools: slow to import
    from themis_opt.graphs.schedule import simulate_graph
    from themis_opt.graphs.trees import tree_plan

    return simulate_graph(tree_plan(as_graph(instance)), CHUNKS_BESIDE)


MOST_BESIDE, CHUNKS_BESIDE = 36, 64
"""NPUs up to which trees are planned beside other policies, and their chunks: less than a second."""

BEYOND_GRAPHS = {"packet", "launch_overhead", "compression", "reduction", "shares", "rails", "in_network"}
"""Fields of a dimension that a graph does not have."""
