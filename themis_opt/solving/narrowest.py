"""Which dimension limits: the one whose bandwidth, if it were double, would lower a bound the most."""

from collections.abc import Callable

from themis_opt.problem.instance import Instance


def narrowest(instance: Instance, bound: Callable[[Instance], float]) -> str:
    """Name of the dimension that a bound depends on most; empty where it depends on none."""
    known, dimensions = bound(instance), instance.network.dimensions
    lowered = {}
    for number, name in enumerate(instance.network.dimension_names):
        doubled = (*dimensions[:number], dimensions[number].faster(2), *dimensions[number + 1 :])
        lowered[name] = bound(instance.replace(network=instance.network.varied(dimensions=doubled)))
    best = min(lowered, key=lowered.__getitem__)
    return best if lowered[best] < known else ""


def too_slow(instance: Instance, bound: Callable[[Instance], float], measured: float) -> str:
    """The sentence about a measured time below what no algorithm can beat; empty where it is not below."""
    known = bound(instance)
    if measured >= known:
        return ""
    name = narrowest(instance, bound)
    others = "the times of compute" if instance.tasks else "the bandwidths of all dimensions"
    check = f"{name}.bandwidth" if name else others
    return f"the description of the network is too slow by at least {known / measured:.2f}x: check {check}"
