"""NCCL: its choice of an algorithm by its cost model, and what that choice looks like in this one.

Constants and formulas are those of NCCL 2.30, https://github.com/NVIDIA/nccl, ``src/graph/tuning.cc``.  The innermost
dimension is the node, connected by NVLink; all others are the network between nodes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Literal, NamedTuple

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hierarchical import Hierarchical
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Plan

NcclAlgorithm = Literal["ring", "tree", "nvls", "pat"]
Protocol = Literal["LL", "LL128", "Simple"]

MICROSECOND = 1e6  # picoseconds


class NcclConstants(NamedTuple):
    """Of one algorithm with one protocol: microseconds per call and per hop, and the share of the bandwidth it gets."""

    base: float
    inside: float
    between: float
    bandwidth: float


# For NVLink inside a node; NVLS with the switches of Hopper, and trees between nodes
NCCL_CONSTANTS: Mapping[tuple[NcclAlgorithm, Protocol], NcclConstants] = {
    ("ring", "LL"): NcclConstants(6.6, 0.6, 2.7, 0.5),
    ("ring", "LL128"): NcclConstants(14.0, 1.9, 4.0, 0.92),
    ("ring", "Simple"): NcclConstants(8.4, 3.4, 14.0, 1.0),
    ("tree", "LL"): NcclConstants(6.8, 0.6, 5.0, 0.5 * 0.92),
    ("tree", "LL128"): NcclConstants(14.0, 1.25, 8.5, 0.92 * 0.92),
    ("tree", "Simple"): NcclConstants(8.4, 4.0, 14.0, 0.92),
    ("nvls", "Simple"): NcclConstants(0.0, 25.0, 20.9, 0.85),
    ("pat", "Simple"): NcclConstants(8.0, 4.0, 14.0, 0.75),
}
# Those that NCCL chooses among; the other kinds run in rings, or between pairs of NPUs
NCCL_ALGORITHMS: Mapping[CollectiveKind, tuple[NcclAlgorithm, ...]] = {
    CollectiveKind.ALL_REDUCE: ("ring", "tree", "nvls"),
    CollectiveKind.REDUCE_SCATTER: ("ring", "pat"),
    CollectiveKind.ALL_GATHER: ("ring", "pat"),
}


class NcclEstimate(NamedTuple):
    """What NCCL's model says of a collective, in picoseconds; it is no schedule, and no bound holds for it."""

    time: float
    algorithm: NcclAlgorithm
    protocol: Protocol


@dataclass(frozen=True)
class Nccl:
    """The fixed order, served as the algorithm does that the cost model of NCCL prefers.

    Rings scatter the whole buffer before they gather it, which is the fixed order with stages served as they arrive
    (:class:`~themis_opt.policies.baseline.Baseline`); so are PAT's aggregated trees.  Trees and NVLS reduce a piece of
    the buffer and broadcast it before the next (:class:`~themis_opt.policies.hierarchical.Hierarchical`).

    The schedule is timed by the costs of the instance: hops of one flat ring through all nodes, trees that send what is
    not scattered, protocols and their bandwidths are in :func:`estimates` alone, and sums in switches are a property of
    the instance.  One algorithm serves all collectives of an instance, the one that is best for the largest.

    `algorithm`: what to use; ``auto`` is the one of least estimated time.
    """

    algorithm: Literal["auto", "ring", "tree", "nvls", "pat"] = "auto"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`. Raises InputError if NCCL does not have the algorithm asked for."""
        largest = max(instance.exchanges, key=lambda exchange: exchange.size)
        ranked = estimates(instance, largest)
        if self.algorithm != "auto" and self.algorithm not in {estimate.algorithm for estimate in ranked}:
            rule = (
                f"is no algorithm of NCCL for {largest.kind} here; it has {', '.join(_algorithms(instance, largest))}"
            )
            raise InputError(rule, field="algorithm", value=self.algorithm)
        chosen = ranked[0].algorithm if self.algorithm == "auto" else self.algorithm
        return Hierarchical()(instance) if chosen in ("tree", "nvls") else Baseline()(instance)


def estimates(instance: Instance, exchange: Exchange) -> list[NcclEstimate]:
    """What the model of NCCL says of a collective: every algorithm with every protocol, the fastest first.

    A call takes its latency and bytes / bus bandwidth.  The bus bandwidth is that of the narrowest dimension: of as
    many rings as there are NPUs inside it, each of which crosses it once.  Corrections for single message sizes, for
    PCI and for more than two NVLink domains are left out.
    """
    share = float(exchange.kind.rule.bus_share(math.prod(instance.fabric.sizes[k] for k in exchange.span)))
    bytes_time = share * exchange.size / _bus_bandwidth(instance, exchange) * PICOSECONDS_PER_SECOND
    return sorted(
        NcclEstimate(_latency(instance, exchange, *pair) * MICROSECOND + bytes_time / constants.bandwidth, *pair)
        for pair, constants in NCCL_CONSTANTS.items()
        if pair[0] in _algorithms(instance, exchange)
    )


def _algorithms(instance: Instance, exchange: Exchange) -> tuple[NcclAlgorithm, ...]:
    """The algorithms NCCL chooses among; NVLS where the switch of the node sums and multicasts."""
    has_nvls = instance.fabric.dimensions[exchange.span[0]].in_network
    algorithms = NCCL_ALGORITHMS.get(exchange.kind, ("ring",))
    return tuple(algorithm for algorithm in algorithms if algorithm != "nvls" or has_nvls)


def _bus_bandwidth(instance: Instance, exchange: Exchange) -> float:
    """Bytes per second that flat rings through all NPUs sustain."""
    inside = accumulate((instance.fabric.sizes[k] for k in exchange.span), mul, initial=1)
    return min(instance.fabric.bandwidths[k] * npus for k, npus in zip(exchange.span, inside, strict=False))


def _latency(instance: Instance, exchange: Exchange, algorithm: NcclAlgorithm, protocol: Protocol) -> float:
    """Microseconds of latency of one call on n NPUs in N nodes."""
    base, inside, between, _ = NCCL_CONSTANTS[algorithm, protocol]
    node = instance.fabric.sizes[exchange.span[0]]
    npus = math.prod(instance.fabric.sizes[k] for k in exchange.span)
    nodes = npus // node
    levels = int(math.log2(nodes))
    match algorithm:
        case "ring":
            times = len(exchange.kind.rule.phases)
            return base + times * ((npus - nodes) * inside + (nodes - 1) * between)
        case "tree":
            return base + 2 * ((node - 1) * inside + levels * between)
        case "nvls":
            return base + inside + 2 * levels * between
        case "pat":
            return base + levels * between / 3.5 + 2.8 * npus
