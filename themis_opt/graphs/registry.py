"""The policies of graphs by name: plans, and searches that follow them.  Each is loaded when it is asked for."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from themis_opt.base.registries import Registry

if TYPE_CHECKING:
    from themis_opt.graphs.plan import GraphPlan
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.graphs.steps import GraphStep

GRAPH_POLICIES: "Mapping[str, Callable[[GraphInstance], GraphPlan]]" = Registry(
    "themis_opt.graph_policies",
    {
        "hierarchical": "themis_opt.graphs.policies:hierarchical_plan",
        "exchange": "themis_opt.graphs.policies:exchange_plan",
        "scatter": "themis_opt.graphs.policies:scatter_plan",
        "two_tree": "themis_opt.graphs.policies:two_tree_plan",
        "shortest": "themis_opt.graphs.policies:shortest_plan",
        "trees": "themis_opt.graphs.trees:tree_plan",
        "trees=1": "themis_opt.graphs.trees:one_tree",
        "trees=2": "themis_opt.graphs.trees:two_trees",
        "ring": "themis_opt.graphs.policies:ring_plan",
        "double_tree": "themis_opt.graphs.policies:double_tree_plan",
        "direct": "themis_opt.graphs.policies:direct_plan",
        "bine": "themis_opt.graphs.policies:bine_plan",
        "pat": "themis_opt.graphs.policies:pat_plan",
        "greedy": "themis_opt.graphs.matching:greedy_plan",
    },
)
"""The plans that are compared, first one that is made soon; other packages add to them by entry points."""


GRAPH_SEARCHES: "Mapping[str, GraphStep]" = Registry(
    "themis_opt.graph_searches",
    {
        "rarest": "themis_opt.graphs.rarest:GRAPH_SEARCH",
        "mix": "themis_opt.graphs.mixing:GRAPH_SEARCH",
        "mirror": "themis_opt.graphs.mirroring:GRAPH_SEARCH",
        "exact": "themis_opt.graphs.exact:GRAPH_SEARCH",
    },
)
"""The searches, in the order in which they take turns after the plans."""


def is_search(name: str) -> bool:
    """Whether a policy is a search for small graphs and messages, which follows the plans."""
    return name in GRAPH_SEARCHES


def has_policy(name: str) -> bool:
    """Whether there is a plan or a search of a name."""
    return name in GRAPH_POLICIES or is_search(name)
