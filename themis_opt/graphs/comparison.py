"""Plans on a graph side by side, and what a network keeps of its speed without some of its links."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from formulations.concurrent_flow import node_classes
from formulations.limits import Limits
from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.base.errors import InputError, InvalidSchedule, suggestion
from themis_opt.base.registries import Functions
from themis_opt.base.units import format_duration, format_percent, format_rate, nanoseconds
from themis_opt.graphs.bounds import GraphBound, best_bound, graph_bounds, throughput
from themis_opt.graphs.climbing import climbed_schedule, is_for_climbs
from themis_opt.graphs.mirroring import is_for_mirrors, mirrored_schedule
from themis_opt.graphs.mixing import is_for_mixing, mixed_schedule
from themis_opt.graphs.network import GraphInstance, GraphNetwork
from themis_opt.graphs.plan import GraphPlan, merged_plan
from themis_opt.graphs.rarest import is_for_rarest, rarest_schedule
from themis_opt.graphs.reference import best_routing, takes
from themis_opt.graphs.rivals import direct_plan, double_tree_plan, greedy_plan, ring_plan
from themis_opt.graphs.simulation import GraphSchedule, in_best_chunks
from themis_opt.graphs.trees import tree_plan
from themis_opt.graphs.validation import validate_graph
from themis_opt.schedules.status import status_of

GRAPH_POLICIES: Mapping[str, Callable[[GraphInstance], GraphPlan]] = Functions(
    "themis_opt.graph_policies",
    {
        "trees": tree_plan,
        "trees=1": partial(tree_plan, count=1),
        "trees=2": partial(tree_plan, count=2),
        "ring": ring_plan,
        "double_tree": double_tree_plan,
        "direct": direct_plan,
        "greedy": greedy_plan,
    },
)
"""The plans that are compared, trees first; other packages add to them by entry points."""


class GraphSearch(NamedTuple):
    """Whether a search is for an instance, and the search: within limits, until picoseconds that are enough."""

    is_for: Callable[[GraphInstance], bool]
    find: Callable[[GraphInstance, Limits, float], GraphSchedule | None]


GRAPH_SEARCHES: Mapping[str, GraphSearch] = MappingProxyType(
    {
        "rarest": GraphSearch(is_for_rarest, rarest_schedule),
        "mix": GraphSearch(is_for_mixing, mixed_schedule),
        "mirror": GraphSearch(is_for_mirrors, mirrored_schedule),
        "climb": GraphSearch(is_for_climbs, climbed_schedule),
    }
)
SEARCH_POLICIES = (*GRAPH_SEARCHES, "exact")
"""Searches for small graphs and messages, which follow the plans."""

WORTH_SEARCHING = 0.01
"""Gap above which the search is asked by default: pipelines of many chunks are nearer."""

ENOUGH = 1.002
"""Multiple of the bound at which no other number of chunks is tried."""


@dataclass(frozen=True, eq=False)
class GraphResult:
    """A validated schedule beside the bound of its instance, and perhaps one on schedules with as many chunks."""

    policy: str
    schedule: GraphSchedule
    proof: GraphBound
    class_bound: GraphBound | None = None

    @property
    def makespan(self) -> int:
        """Picoseconds until the last byte has arrived."""
        return self.schedule.makespan

    @property
    def bound(self) -> float:
        """Picoseconds that any algorithm needs."""
        return float(self.proof.picoseconds)

    @property
    def gap(self) -> float:
        """Makespan over the bound, minus 1."""
        return self.makespan / self.bound - 1

    @property
    def status(self) -> str:
        """``optimal``, ``near-optimal`` or ``feasible``, by the gap."""
        return status_of(self.gap)

    def row(self) -> dict[str, object]:
        """Plain values of a row of the table."""
        plan = self.schedule.plan
        return {
            "policy": self.policy,
            "makespan_ns": nanoseconds(self.makespan),
            "bound_ns": nanoseconds(self.bound),
            "gap": self.gap,
            "status": self.status,
            "algorithm_bandwidth": self.schedule.algorithm_bandwidth,
            "pieces": sum(piece.elements > 0 for piece in plan.pieces),
            "chunks": self.schedule.chunks,
        }


@dataclass(frozen=True, eq=False)
class GraphComparison:
    """The results of one instance, the fastest first, and why other policies are not among them.

    `interrupted`: whether Ctrl-C ended it before all were tried.
    `beside`: the sentence that compares another network, if there is one.
    """

    instance: GraphInstance
    results: tuple[GraphResult, ...]
    refused: Mapping[str, str]
    interrupted: bool = False
    beside: str = ""

    @property
    def problem(self) -> GraphInstance:
        """The instance."""
        return self.instance

    @property
    def bounds(self) -> dict[str, float]:
        """Bounds on any algorithm in picoseconds, by name."""
        bounds = graph_bounds(self.instance).items()
        return {name: float(one.picoseconds) for name, one in bounds if one.holds == "any algorithm"}

    @property
    def best(self) -> GraphResult:
        """The fastest."""
        return self.results[0]

    @property
    def verdict(self) -> tuple[str, ...]:
        """What to know before the table."""
        best, bound = self.best, self.best.proof
        trees = best_bound(self.instance, trees=True)
        first = (
            f"{best.policy} takes {format_duration(best.schedule.makespan)} for {self.instance.kinds}, "
            f"{format_percent(best.gap)} above what any algorithm needs ({bound.meaning})."
        )
        lines = [self.beside, first] if self.beside else [first]
        if best.schedule.makespan >= trees.picoseconds > bound.picoseconds * (1 + WORTH_SAYING):
            gap = best.schedule.makespan / float(trees.picoseconds) - 1
            lines.append(f"It is {format_percent(gap)} above what any trees need ({trees.meaning}).")
        if best.class_bound is not None:
            gap = best.schedule.makespan / float(best.class_bound.picoseconds) - 1
            lines.append(f"It is {format_percent(gap)} above what {best.class_bound.meaning} need.")
        rival = next((result for result in self.results if not result.policy.startswith("trees")), None)
        if rival is not None and rival is not best:
            ratio = rival.schedule.makespan / best.schedule.makespan
            lines.append(f"{rival.policy}, the fastest of the others, takes {ratio:.2f} times as long.")
        return tuple(lines)


WORTH_SAYING = 1e-6


def compare_graph(
    instance: GraphInstance, policies: Iterable[str] | None = None, limits: Limits | None = None
) -> GraphComparison:
    """Plan, simulate and validate policies, by default all that are for the kind of collective.

    Searches follow that are named; with `limits` and no names all of them do, as long as the others leave a gap.

    Raises
    ------
    InputError
        If there is no policy of a name, or one that is named is not for this kind.
    """
    bound = best_bound(instance)
    names = tuple(GRAPH_POLICIES) if policies is None else tuple(policies)
    results, refused = dict[str, GraphResult](), dict[str, str]()
    if not names or len(set(names)) < len(names):
        raise InputError("must name one or more policies, each once", field="--policies", value=", ".join(names))
    known = (*GRAPH_POLICIES, *SEARCH_POLICIES)
    for name in names:
        if name not in known:
            rule = f"must be one of {', '.join(known)}{suggestion(name, known)}"
            raise InputError(rule, field="--policies", value=name)
    searches = [name for name in names if name in SEARCH_POLICIES]
    if policies is None and limits is not None:
        searches = list(SEARCH_POLICIES)
    interrupted = False
    try:
        for name in names:
            if name in SEARCH_POLICIES:
                continue
            try:
                plan = _plan(name, instance)
            except InputError as error:
                if policies is not None:
                    raise
                refused[name] = error.rule
                continue
            schedule = in_best_chunks(plan, ENOUGH * float(bound.picoseconds))
            _add_valid(GraphResult(name, schedule, bound), results, refused)
        _search(instance, searches, results, refused, bound, limits or Limits(), only_if_worth=policies is None)
    except KeyboardInterrupt:
        if not results:
            raise
        interrupted = True
    if not results:
        reasons = "; ".join(refused.values()) or "searches take fewer nodes and chunks than this graph has"
        raise InputError(f"no policy has a plan: {reasons}", field="--policies", value=", ".join(names))
    ranked = sorted(results.values(), key=lambda result: result.schedule.makespan)
    return GraphComparison(instance, tuple(ranked), refused, interrupted)


def _plan(name: str, instance: GraphInstance) -> GraphPlan:
    """The plan of a policy; of several collectives those of each, at once. Raises InputError if it sends nothing."""
    plans = [GRAPH_POLICIES[name](single) for single in instance.singles]
    if not all(plan.transfers for plan in plans):
        raise InputError(f"{name} has no routes on this graph", field="--policies", value=name)
    return plans[0] if len(plans) == 1 else merged_plan(instance, plans)


def _search(
    instance: GraphInstance,
    names: Sequence[str],
    results: dict[str, GraphResult],
    refused: dict[str, str],
    bound: GraphBound,
    limits: Limits,
    *,
    only_if_worth: bool,
) -> None:
    """Add the results of searches that are for the instance, each of which has an equal part of the time left."""
    end = SEARCH_CLOCK.now() + limits.seconds
    enough = float(bound.picoseconds) * (1 + (WORTH_SEARCHING if only_if_worth else 0))
    names = [name for name in names if _is_for(name, instance)]
    for place, name in enumerate(names):
        left = limits.seconds if limits.deterministic else end - SEARCH_CLOCK.now()
        share = limits.within(left / (len(names) - place))
        upper = min((result.schedule.makespan for result in results.values()), default=None)
        if (upper is not None and upper <= enough) or left <= 0:
            return
        result = _searched(name, instance, share, bound, enough, upper)
        if result is not None:
            _add_valid(result, results, refused)


def _add_valid(result: GraphResult, results: dict[str, GraphResult], refused: dict[str, str]) -> None:
    """Add a result to the others, or to those refused if its schedule breaks a rule."""
    try:
        validate_graph(result.schedule)
    except InvalidSchedule as error:
        refused[result.policy] = str(error)
    else:
        results[result.policy] = result


def _is_for(name: str, instance: GraphInstance) -> bool:
    """Whether a search is for the kinds and the size of an instance."""
    if len(instance.collectives) > 1:
        return False
    return takes(instance) if name == "exact" else GRAPH_SEARCHES[name].is_for(instance)


def _searched(
    name: str, instance: GraphInstance, limits: Limits, bound: GraphBound, enough: float, upper: int | None
) -> GraphResult | None:
    """The result of one search; none if there is none, or the exact one finds nothing faster."""
    if name != "exact":
        schedule = GRAPH_SEARCHES[name].find(instance, limits, enough)
        return None if schedule is None else GraphResult(name, schedule, bound)
    reference = best_routing(instance, limits, math.ceil(bound.picoseconds), upper)
    if reference is None:
        return None
    words = f"schedules of {reference.chunks} equal chunks of each share"
    class_bound = GraphBound("chunks", Fraction(reference.proven), "chunks of one size", words)
    return GraphResult(name, reference.schedule, bound, class_bound)


@dataclass(frozen=True)
class Loss:
    """What is left of the bound without something."""

    name: str
    healthy: GraphBound
    bound: GraphBound | None
    alike: int = 0
    """Other links that look alike, for which it stands."""

    @property
    def label(self) -> str:
        """What is lost, and how many alike."""
        return f"{self.name} or {self.alike} alike" if self.alike else self.name

    @property
    def kept(self) -> float:
        """Part of the healthy speed; 0 where NPUs do not reach each other."""
        return float(self.healthy.picoseconds / self.bound.picoseconds) if self.bound else 0.0

    def row(self) -> dict[str, object]:
        """Plain values of a row of the table."""
        meaning = self.bound.meaning if self.bound else "NPUs do not reach each other"
        return {"lost": self.label, "kept": self.kept, "meaning": meaning}


def loss(instance: GraphInstance, network: GraphNetwork | None, name: str, alike: int = 0) -> Loss:
    """What an instance keeps on a network that was changed; none if that is not connected.

    Where the collective depends on the number of NPUs, the time for the same buffer counts.
    """
    healthy = best_bound(instance, trees=True)
    bound = None if network is None else best_bound(instance.on(network), trees=True)
    return Loss(name, healthy, bound, alike)


def every_loss(instance: GraphInstance) -> tuple[Loss, ...]:
    """The loss of every single link, what hurts most first; of many links one for all that look alike."""
    labels = _representatives(instance.network).items()
    losses = (loss(instance, without_link(instance.network, label), label, alike) for label, alike in labels)
    return tuple(sorted(losses, key=lambda one: one.kept))


def without_link(network: GraphNetwork, label: str) -> GraphNetwork | None:
    """The network without a link; None if NPUs do not reach each other then."""
    try:
        return network.without([label])
    except InputError:
        return None


def _representatives(network: GraphNetwork) -> dict[str, int]:
    """Labels of links, and how many others each stands for."""
    if len(network.links) <= MOST_SINGLE_LINKS:
        return {link.label: 0 for link in network.links}
    classes = node_classes(network.capacities)
    alike: dict[frozenset[tuple[int, int, float]], list[str]] = defaultdict(list)
    for link in network.links:
        ways = link.bandwidths.items()
        look = ((classes[network.index[tail]], classes[network.index[head]], rate) for (tail, head), rate in ways)
        alike[frozenset(look)].append(link.label)
    return {labels[0]: len(labels) - 1 for labels in alike.values()}


MOST_SINGLE_LINKS = 64
"""Links up to which the loss of each is computed: of 400 it would take minutes."""


def loss_in_words(instance: GraphInstance, one: Loss) -> str:
    """The sentence about a loss."""
    if one.bound is None:
        return f"Without {one.label} NPUs do not reach each other."
    rates = [format_rate(throughput(where, bound)) for where, bound in ((instance, one.healthy), (instance, one.bound))]
    limit = "any algorithm" if one.bound.holds == "any algorithm" else "any trees"
    return (
        f"{one.label}: {instance.kinds} keeps {format_percent(one.kept)} of its speed at most, "
        f"{rates[1]} instead of {rates[0]} ({limit}: {one.bound.meaning})."
    )


def kept_in_words(healthy: GraphComparison, changed: GraphComparison, name: str) -> str:
    """The sentence about schedules before and after."""
    before, after = healthy.best.schedule.makespan, changed.best.schedule.makespan
    rings = [
        next((r.schedule.makespan for r in compared.results if r.policy == "ring"), None)
        for compared in (healthy, changed)
    ]
    words = (
        f"{name}: {changed.instance.kinds} keeps {format_percent(before / after)} of its speed "
        f"with {changed.best.policy}, {format_duration(after)} instead of {format_duration(before)}"
    )
    if rings[0] and rings[1]:
        words += f"; the ring keeps {format_percent(rings[0] / rings[1])}, and takes {format_duration(rings[1])}"
    return f"{words}."
