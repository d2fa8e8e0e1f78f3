"""Lower bounds on the makespan, each valid on its own.

All are in picoseconds.  They hold for schedules of the cost model in which every reduce-scatter of a chunk
precedes every all-gather of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from formulations.budget import Budget
from formulations.fluid import fluid_bound
from formulations.head_tail import head_tail_bound
from formulations.lattice import JobClass, cheapest_path
from formulations.order_count import order_count_bound
from themis_opt.instance import Collective, Instance
from themis_opt.lowering import job_class, rounded_down
from themis_opt.units import PICOSECONDS_PER_SECOND

ORDER_COUNT_RESOLUTION = 2**26
"""Ticks into which the order-count bound divides the makespan."""

MAX_ARCS = 5_000
"""Lattice arcs up to which heads and tails are looked at, in about a fifth of a second."""

ORDER_COUNT_BUDGET = Budget(seconds=30.0, workers=1, deterministic_time=0.5, gap=1e-5)


@dataclass(frozen=True)
class Bound:
    """A bound and where it holds.

    Attributes
    ----------
    compute : callable
        From an instance to picoseconds.
    equal_sizes_only : bool
        Whether it needs chunks that differ by at most one element; the others hold for any sizes of at most
        the instance's number of chunks.
    meaning : str
        What it says, in a few words.
    """

    compute: Callable[[Instance], float]
    equal_sizes_only: bool
    meaning: str


def ideal(instance: Instance) -> float:
    """Least total bytes over the summed bandwidth of the dimensions in use."""
    jobs = [job_class(instance, number, c.size, "bytes") for number, c in enumerate(instance.collectives)]
    in_use = {k for job in jobs for k in job.machines}
    total = sum(cheapest_path(job.machines, layer) for job in jobs for layer in job.layers(job.load))
    return total * PICOSECONDS_PER_SECOND / sum(instance.network.bandwidths[k] for k in in_use)


def fluid(instance: Instance) -> float:
    """Linear relaxation over all chunk sizes and orders (:mod:`formulations.fluid`)."""
    return fluid_bound([job_class(instance, n, c.size, "fluid") for n, c in enumerate(instance.collectives)])


def order_count(instance: Instance, budget: Budget = ORDER_COUNT_BUDGET) -> float:
    """Integer flow of equal chunks (:mod:`formulations.order_count`), at least the fluid bound."""
    jobs = []
    for number, collective in enumerate(instance.collectives):
        size = _elements(collective) // collective.chunks * collective.element_bytes
        jobs.append(job_class(instance, number, size, count=collective.chunks))
    relaxed = fluid(instance)
    tick = max(1, int(relaxed) // ORDER_COUNT_RESOLUTION)
    counted = order_count_bound([rounded_down(job, tick) for job in jobs], budget) * tick
    return max(relaxed, float(counted))


def head_tail(instance: Instance) -> float:
    """The fluid relaxation with the least lags before and after every stage (:mod:`formulations.head_tail`)."""
    return _head_tail(instance, [0 for _ in instance.collectives])


def head_tail_equal(instance: Instance) -> float:
    """The same with the passage of an equal chunk before and after every stage."""
    return _head_tail(instance, [_elements(c) // c.chunks * c.element_bytes for c in instance.collectives])


def _elements(collective: Collective) -> int:
    return collective.size // collective.element_bytes


def _head_tail(instance: Instance, least_sizes: Sequence[int]) -> float:
    jobs = [job_class(instance, n, c.size, "fluid") for n, c in enumerate(instance.collectives)]
    known = max(fluid_bound(jobs), chain(instance))
    if sum(len(job.legs) * len(job.machines) * 2 ** len(job.machines) for job in jobs) > MAX_ARCS:
        return known
    least = [job_class(instance, n, size, "fluid") for n, size in enumerate(least_sizes)]
    return head_tail_bound(jobs, least, known)


def chain(instance: Instance) -> float:
    """Shortest way of the largest chunk through all its stages, with all lags, from its release."""
    bounds = []
    for number, collective in enumerate(instance.collectives):
        size = -(-_elements(collective) // collective.chunks) * collective.element_bytes
        job = job_class(instance, number, size)
        bounds.append(collective.release + _shortest_passage(job))
    return max(bounds)


def _shortest_passage(job: JobClass) -> float:
    return sum(cheapest_path(job.machines, layer) for layer in job.layers(job.passage))


BOUNDS: Mapping[str, Bound] = MappingProxyType(
    {
        "ideal": Bound(ideal, False, "all bytes at the full bandwidth of the network"),
        "fluid": Bound(fluid, False, "load of the busiest dimension, best split of the bytes over orders"),
        "order_count": Bound(order_count, True, "load of the busiest dimension, whole chunks per order"),
        "head_tail": Bound(head_tail, False, "load of a dimension between the stages before and after, lags alone"),
        "head_tail_equal": Bound(head_tail_equal, True, "load of a dimension between the stages before and after"),
        "chain": Bound(chain, False, "one chunk through all its stages"),
    }
)
"""The bounds by name."""


def bounds(instance: Instance, *, equal_sizes: bool = True) -> dict[str, float]:
    """All bounds that hold, in picoseconds by name; with free sizes those that need equal chunks are left out."""
    return {name: b.compute(instance) for name, b in BOUNDS.items() if equal_sizes or not b.equal_sizes_only}
