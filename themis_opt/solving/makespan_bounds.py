"""Lower bounds on the makespan of collectives, each valid alone.

All are in picoseconds.  They hold for schedules of the cost model in which every reduce-scatter of a chunk
precedes every all-gather of it; :mod:`themis_opt.solving.cut` holds for every algorithm.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from formulations.chunk_count import ChunkCount
from formulations.fluid import fluid_bound
from formulations.head_tail import LoadWindow, head_tail_proof
from formulations.lattice import JobClass, cheapest_path
from formulations.limits import PROVEN_GAP, Limits
from themis_opt.base.registries import Registry
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.solving.cut import cut
from themis_opt.solving.lowering import job_class, rounded_down, without_fixed

BOUND_RESOLUTION = 2**26
"""Ticks into which the order-count bound divides the makespan: rounding a thousand stages down hides 2e-5 of it."""


ORDER_COUNT_WORK = 0.5  # seconds of work for the order counts
MAX_BOUND_ARCS = 5_000
"""Lattice arcs up to which heads and tails, and chunk counts, are looked at, in about a fifth of a second."""


@dataclass(frozen=True)
class Bound:
    """A bound and where it holds.

    `compute`: from an instance to picoseconds.
    `equal_sizes_only`: whether it needs chunks that differ by at most one element; the others hold for any sizes of at
      most the instance's number of chunks.
    `meaning`: what it says, in a few words.
    `any_algorithm`: whether it holds against any algorithm, and not only within the model: one stage per dimension and
      phase.
    `is_slow`: whether it asks a solver, and has to wait for the others where time is short.
    """

    compute: Callable[[Instance], float]
    equal_sizes_only: bool
    meaning: str
    any_algorithm: bool = False
    is_slow: bool = False

    @property
    def scope(self) -> str:
        """Against what it holds, in words."""
        return "against any algorithm" if self.any_algorithm else "within the model"


def ideal(instance: Instance) -> float:
    """Least total bytes over the summed bandwidth of the dimensions in use."""
    jobs = [job_class(instance, exchange, exchange.size, "bytes") for exchange in instance.exchanges]
    total = sum(cheapest_path(job.machines, layer) for job in jobs for layer in job.layers(job.load))
    return total * PICOSECONDS_PER_SECOND / sum(instance.bandwidth_by_resource.values())


@lru_cache(maxsize=1)  # other bounds are no less
def fluid(instance: Instance) -> float:
    """Linear relaxation over all chunk sizes and orders (:mod:`formulations.fluid`)."""
    return fluid_bound(_linear_jobs(instance))


def _linear_jobs(instance: Instance) -> list[JobClass]:
    """All collectives, each as one chunk, with times that are linear in bytes."""
    return [job_class(instance, exchange, exchange.size, "fluid") for exchange in instance.exchanges]


def order_count(instance: Instance, work: float = ORDER_COUNT_WORK) -> float:
    """Integer flow of equal chunks (:mod:`formulations.order_count`), at least the fluid bound."""
    from formulations.order_count import order_count_bound  # loads CP-SAT, which few instances need

    jobs = [
        job_class(instance, exchange, least_equal(exchange), count=exchange.chunks) for exchange in instance.exchanges
    ]
    relaxed = fluid(instance)
    tick = max(1, int(relaxed) // BOUND_RESOLUTION)
    limits = Limits(work, deterministic=True, gap=PROVEN_GAP / 10)
    counted = order_count_bound([rounded_down(job, tick) for job in jobs], limits) * tick
    return max(relaxed, float(counted))


def head_tail(instance: Instance, *, equal: bool = False) -> float:
    """The fluid relaxation with the least lags before and after every stage (:mod:`formulations.head_tail`).

    `equal`: with the passage of an equal chunk instead.
    """
    known = max(fluid(instance), chain(instance))
    return known if _num_arcs(instance) > MAX_BOUND_ARCS else window_proof(instance, known, equal=equal)[0]


def window_proof(instance: Instance, known: float, *, equal: bool) -> tuple[float, dict[LoadWindow, float]]:
    """That bound without a limit on its work, and the weights of windows that prove it."""
    sizes = [least_equal(exchange) if equal else 0 for exchange in instance.exchanges]
    least = [job_class(instance, *pair, "fluid") for pair in zip(instance.exchanges, sizes, strict=True)]
    return head_tail_proof(_linear_jobs(instance), least, known)


def _elements(exchange: Exchange) -> int:
    return exchange.size // exchange.element_bytes


def least_equal(exchange: Exchange) -> int:
    """Bytes of the smallest of equal chunks."""
    return _elements(exchange) // exchange.chunks * exchange.element_bytes


def chunk_counts(instance: Instance) -> ChunkCount:
    """The data of :mod:`formulations.chunk_count`, in picoseconds."""
    whole = _linear_jobs(instance)
    least = [job_class(instance, exchange, 0, "fluid") for exchange in instance.exchanges]
    jobs = [without_fixed(*pair) for pair in zip(whole, least, strict=True)]
    return ChunkCount(jobs, least, [exchange.chunks for exchange in instance.exchanges])


def chunk_count(instance: Instance) -> float:
    """What is fixed for every chunk, and few chunks being long, over all numbers (:mod:`formulations.chunk_count`)."""
    known = chain(instance)
    if _num_arcs(instance) > MAX_BOUND_ARCS or not instance.ports.is_plain:
        return known
    return chunk_counts(instance).bound(known)


def _num_arcs(instance: Instance) -> int:
    return sum(
        len(exchange.kind.rule.phases) * len(exchange.span) * 2 ** len(exchange.span) for exchange in instance.exchanges
    )


@lru_cache(maxsize=1)
def chain(instance: Instance) -> float:
    """Shortest way of the largest chunk through all its stages, with all lags, from its release."""
    bounds = []
    for exchange in instance.exchanges:
        size = -(-_elements(exchange) // exchange.chunks) * exchange.element_bytes
        job = job_class(instance, exchange, size)
        passage = sum(cheapest_path(job.machines, layer) for layer in job.layers(job.passage))
        bounds.append(exchange.release + passage)
    return max(bounds)


MAKESPAN_BOUNDS: Mapping[str, Bound] = Registry(
    "themis_opt.bounds",
    {
        "ideal": Bound(ideal, False, "all bytes at the full bandwidth of the network"),
        "fluid": Bound(fluid, False, "load of the busiest dimension, best split of the bytes over orders"),
        "order_count": Bound(order_count, True, "load of the busiest dimension, whole chunks per order", is_slow=True),
        "head_tail": Bound(head_tail, False, "load of a dimension between the stages before and after, lags alone"),
        "head_tail_equal": Bound(
            partial(head_tail, equal=True), True, "load of a dimension between the stages before and after"
        ),
        "chain": Bound(chain, False, "one chunk through all its stages"),
        "chunk_count": Bound(chunk_count, False, "what every chunk costs, or how long few chunks are"),
        "cut": Bound(cut, False, "bytes between groups of NPUs over the links between them", any_algorithm=True),
    },
)
"""The bounds by name."""
