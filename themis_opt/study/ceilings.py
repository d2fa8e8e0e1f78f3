"""What libraries can reach on a network: the time that each way to serve a collective takes at least.

A ceiling counts the bytes that the busiest NPU sends along every dimension, and a latency for every step that waits for
the one before; pipelines of parts hide the shorter of the two.  It is no bound: another algorithm may be faster.  The
innermost dimension is the box of n NPUs, each with a NIC; N boxes hold P NPUs, and S bytes are exchanged.

* *flat rings* through all NPUs, one for every NIC: of S / n bytes each, of which (P - 1) / P leave every NPU in each
  phase.  Of the hops of a ring 1 / n leave the box.
* *double trees* over the boxes: chains inside, and two binary trees outside, each of half of the bytes.  A box is a
  leaf of one of them, and sends S to its parents and S to its children (S in all between two boxes).
* *NVLS*: the switch of the box sums and copies, so that an NPU sends S for the sums, and its part S / n once; between
  boxes the parts go along double trees.
* *hierarchical*: reduce-scatter inside, all-reduce outside, all-gather inside, with all dimensions busy at once.

Sources: NCCL 2.30, ``src/graph/tuning.cc``; P. Sanders, J. Speck, J. L. Traeff, Two-tree algorithms for full bandwidth
broadcast, reduction and scan, Parallel Computing 35 (2009).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import CollectiveKind
from themis_opt.problem.wiring import Kind

ALL_PAIRS = (Kind.SWITCH, Kind.FULLY_CONNECTED)
"""Kinds of dimensions in which any two NPUs exchange without a detour, as rings and trees of libraries assume."""

HIERARCHICAL = "hierarchical"  # the way that libraries of two levels run, and NCCL does not

BUSIEST_OF_TREES = {2: 1.0, 3: 1.5}
"""Multiples of the bytes that the busiest of so many boxes sends along double trees; 2 among more boxes."""


@dataclass(frozen=True)
class Boxes:
    """A collective of `size` bytes on dimensions, of which the innermost is a box; see the module for n, N and P."""

    dimensions: tuple[Dimension, ...]
    kind: CollectiveKind
    size: int

    @property
    def per_box(self) -> int:
        """NPUs of a box."""
        return self.dimensions[0].size

    @property
    def npus(self) -> int:
        """NPUs in all."""
        return math.prod(dimension.size for dimension in self.dimensions)

    @property
    def inside(self) -> list[int]:
        """For each dimension the NPUs of all dimensions inside it."""
        return list(accumulate((one.size for one in self.dimensions[:-1]), mul, initial=1))

    def time(self, loads: Mapping[int, float], steps: Mapping[int, float]) -> float:
        """Picoseconds of the bytes of the busiest dimension, or of the latencies of steps if these take longer."""
        slowest = max(load / self.dimensions[k].bandwidth for k, load in loads.items())
        waits = sum(count * self.dimensions[k].latency for k, count in steps.items())
        return max(slowest * PICOSECONDS_PER_SECOND, waits)


def _crossings(boxes: Boxes) -> dict[int, float]:
    """The share of the hops of a ring through all NPUs that are along each dimension."""
    last = len(boxes.dimensions) - 1
    return {
        k: (1 if k == last else 1 - 1 / dimension.size) / inside
        for k, (dimension, inside) in enumerate(zip(boxes.dimensions, boxes.inside, strict=True))
    }


def _rings(boxes: Boxes) -> float:
    phases, shares = len(boxes.kind.rule.phases), _crossings(boxes)
    sent = float(boxes.kind.rule.bus_share(boxes.npus)) * boxes.size
    return boxes.time(
        {k: sent * share for k, share in shares.items()},
        {k: phases * (boxes.npus - 1) * share for k, share in shares.items()},
    )


def _outside(boxes: Boxes) -> tuple[dict[int, float], dict[int, float]]:
    """Bytes and steps of double trees between boxes, by dimension."""
    outer = Boxes(boxes.dimensions[1:], boxes.kind, boxes.size)
    busiest = BUSIEST_OF_TREES.get(outer.npus, 2.0) * boxes.size / boxes.per_box
    shares, levels = _crossings(outer), 2 * math.log2(outer.npus)
    return (
        {k + 1: busiest * share for k, share in shares.items()},
        {k + 1: levels * share for k, share in shares.items()},
    )


def _trees(boxes: Boxes) -> float:
    loads, steps = _outside(boxes)
    chain = 2 * (boxes.per_box - 1)
    return boxes.time({0: chain / boxes.per_box * boxes.size, **loads}, {0: chain, **steps})


def _nvls(boxes: Boxes) -> float:
    loads, steps = _outside(boxes) if len(boxes.dimensions) > 1 else ({}, {})
    return boxes.time({0: (1 + 1 / boxes.per_box) * boxes.size, **loads}, {0: 2, **steps})


def _hierarchical(boxes: Boxes) -> float:
    phases = len(boxes.kind.rule.phases)
    sizes = [dimension.size for dimension in boxes.dimensions]
    held = dict(enumerate(zip(sizes, boxes.inside, strict=True)))
    loads = {k: phases * (size - 1) / size * boxes.size / inside for k, (size, inside) in held.items()}
    return boxes.time(loads, {k: phases * math.log2(size) for k, size in enumerate(sizes)})


LIBRARY_WAYS: Mapping[str, Callable[[Boxes], float]] = {
    "flat rings": _rings,
    "double trees": _trees,
    "NVLS": _nvls,
    HIERARCHICAL: _hierarchical,
}


def ceilings(instance: Instance) -> dict[str, float]:
    """Picoseconds that the ways of libraries take at least, by name, the slowest first.

    Empty for several collectives, for other kinds than all-reduce, reduce-scatter and all-gather, and for networks
    whose dimensions are no switches and no groups of all pairs.

    Examples
    --------
    >>> import themis_opt
    >>> superpod = themis_opt.load("dgx_h100_superpod.all_reduce.1GiB")
    >>> [f"{name}: {time / 1e9:.1f} ms" for name, time in ceilings(superpod).items()]
    ['double trees: 5.4 ms', 'flat rings: 5.3 ms', 'hierarchical: 5.2 ms']
    """
    if len(instance.exchanges) != 1 or instance.tasks:
        return {}
    (exchange,) = instance.exchanges
    dimensions = tuple(instance.fabric.dimensions[k] for k in exchange.span)
    kinds = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
    if exchange.kind not in kinds or not all(one.kind in ALL_PAIRS for one in dimensions):
        return {}
    boxes = Boxes(dimensions, exchange.kind, exchange.size)
    names = ["flat rings"]
    if exchange.kind is CollectiveKind.ALL_REDUCE:
        names += ["double trees"] * (len(dimensions) > 1) + ["NVLS"] * dimensions[0].in_network
    names += [HIERARCHICAL] * (len(dimensions) > 1)
    times = {name: LIBRARY_WAYS[name](boxes) for name in names}
    return dict(sorted(times.items(), key=lambda row: -row[1]))
