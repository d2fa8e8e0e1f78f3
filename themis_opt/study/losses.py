"""What a network keeps of its speed without some of its links."""

from collections import defaultdict
from dataclasses import dataclass

from formulations.concurrent_flow import node_classes
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_duration, format_percent, format_rate
from themis_opt.graphs.bounds import GraphBound, best_bound, throughput
from themis_opt.graphs.comparison import GraphComparison
from themis_opt.graphs.problem import GraphInstance, GraphNetwork


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
