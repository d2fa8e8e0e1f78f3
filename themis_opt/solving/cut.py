r"""The cut bound: what no algorithm can beat, whatever it sends where and in which order.

Divide the N NPUs of a collective of S bytes in M = N / p groups of the p NPUs that differ in the dimensions of a set K
alone.  What goes from one group to another goes over the other dimensions, and over dimension k an NPU sends, and
receives, at most :math:`B_k` bytes per second: its bandwidth counts both directions of a ring, all links of a fully
connected dimension and the port of a switch; at the end of a line it is that of the one link, which in the mean over
the line is :math:`2 (P_k - 1) / P_k` times as much, and at the corner of a grid of R rows and C columns that of both
links, in the mean :math:`2 - 1 / R - 1 / C` times as much.  So, for every K that is not all dimensions,

.. math:: T \ge c \, S \Big/ \sum_{k \notin K} B_k

with the share c that an NPU must send to other groups in the mean over all groups, or with the share that the NPUs of
one group, at the ends of all lines, must send or receive.  Both are

- :math:`(M - 1) / (M p)` for all-gather, since every group receives the :math:`S (M - 1) / M` bytes of the others, and
  for reduce-scatter, since as many bytes of sums of every group belong to others;
- :math:`(M - 1) / M` for all-to-all, where every NPU has as much for the NPUs of other groups, and for sends, where all
  groups but the last one send all they hold;
- :math:`2 (M - 1) / (M p)` for all-reduce in the mean, where every message is about one element: when the first group
  knows the result, each other has sent one message about it, and then each other receives one, which makes 2 (M - 1)
  per element, the number of one-way messages of gossip (F. Harary, A. Schwenk, 1974,
  https://doi.org/10.1016/0016-0032(74)90061-5); of one group 1 / p, since it contributes to everything;
- :math:`1 / p` for broadcast, where the group of the root sends all there is, and any other receives it, and for
  reduce; in the mean over all groups :math:`(M - 1) / (M p)`.

With K empty it is the bus bandwidth of nccl-tests.  Where a dimension outside of K reduces and multicasts in the
network, messages may count once however many they reach, or are summed.  Then what groups send and what they receive
differ in the mean: :math:`1 / (M p)` and :math:`(M - 1) / (M p)` for all-gather and broadcast, the reverse for
reduce-scatter and reduce, and either :math:`1 / p` for all-reduce, to which every group contributes; the others stay.

Compressed data count as they are on the wire, in packets with their share of a header.  Latency, launches and sums are
left out.  The means of several collectives add up where they are released at or after one moment.  Collectives that
span some dimensions run in all groups along them at the same time.  On product networks the throughput of the best
algorithms for all-gather is that of the worst cut (ForestColl, https://arxiv.org/abs/2402.06787).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Literal, NamedTuple

from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import has_launches

ExchangeGroup = tuple[CollectiveKind, tuple[int, ...]]
"""Kind and span of collectives or tensors that could be one: they cross cuts alike."""


Side = Literal["sent", "received", "one group"]
"""What is counted: in the mean over all groups what they send or receive, or the most of one group."""


class SlowestCut(NamedTuple):
    """Picoseconds from time 0 on, the dimensions of K, what is counted, and the exchanges that cross the cut."""

    time: float
    inside: tuple[int, ...]
    side: Side
    exchanges: Sequence[Exchange]


def cut(instance: Instance) -> float:
    """Picoseconds that collectives need at least, with any algorithm."""
    return worst_cut(instance).time


def worst_cut(instance: Instance) -> SlowestCut:
    """The cut that takes longest: of one collective, or of all that are released after one."""
    releases = sorted({exchange.release for exchange in instance.exchanges})
    groups = [[exchange for exchange in instance.exchanges if exchange.release >= release] for release in releases]
    groups += [] if has_launches(instance) else [[exchange] for exchange in instance.exchanges]
    return max((worst_across(instance, group) for group in groups), key=lambda cut: cut.time)


def worst_across(instance: Instance, exchanges: Sequence[Exchange]) -> SlowestCut:
    """The worst cut of exchanges that are there from the first release of one of them on."""
    size_by_group = group_sizes(exchanges)
    used = sorted({k for _, span in size_by_group for k in span})
    sides: list[Side] = ["sent"]
    sides += ["received"] if any(instance.fabric.dimensions[k].in_network for k in used) else []
    sides += ["one group"] if len(exchanges) == 1 else []
    proper_subsets = (inside for count in range(len(used)) for inside in combinations(used, count))
    cuts = [
        (_time(instance, size_by_group, set(inside), side), inside, side) for inside in proper_subsets for side in sides
    ]
    time, inside, side = max(cuts)
    return SlowestCut(min(exchange.release for exchange in exchanges) + time, inside, side, exchanges)


def group_sizes(exchanges: Iterable[Exchange]) -> Counter[ExchangeGroup]:
    """Bytes of every group."""
    sizes = Counter[ExchangeGroup]()
    for exchange in exchanges:
        sizes[exchange.kind, exchange.span] += exchange.size
    return sizes


def collectives_of(instance: Instance, size_by_group: Mapping[ExchangeGroup, int]) -> tuple[Collective, ...]:
    """A collective for each group, in as many chunks as there may be."""
    names = instance.fabric.dimension_names
    return tuple(
        Collective(
            name=f"group{number}",
            kind=kind,
            size=size,
            chunks=min(size, MAX_CHUNKS),
            dimensions=tuple(names[k] for k in span),
            element_bytes=1,
        )
        for number, ((kind, span), size) in enumerate(size_by_group.items())
    )


def _time(instance: Instance, size_by_group: Mapping[ExchangeGroup, int], inside: set[int], side: Side) -> float:
    """Picoseconds for what crosses one cut, whose K is `inside`."""
    across = {k for _, span in size_by_group for k in span} - inside
    sent = sum(size * _share(instance, group, inside, side) for group, size in size_by_group.items())
    speeds: dict[int, float] = {}
    for k in across:  # dimensions that share a link hold it in turn, so it counts once
        speed = _bytes_per_second(instance.fabric.dimensions[k], mean=side != "one group")
        speeds[instance.links[k]] = max(speeds.get(instance.links[k], 0.0), speed)
    return sent * PICOSECONDS_PER_SECOND / sum(speeds.values())


def _share(instance: Instance, group: ExchangeGroup, inside: set[int], side: Side) -> float:
    """Share of a collective that an NPU exchanges with other groups."""
    kind, span = group
    every = instance.fabric.dimensions
    outside = [k for k in span if k not in inside]
    groups, npus = prod(every[k].size for k in outside), prod(every[k].size for k in inside & set(span))
    multicast = any(every[k].in_network for k in outside)
    mean, receives = side != "one group", side == "received"
    return float(kind.rule.crossing_share(groups, npus, multicast=multicast, mean=mean, receives=receives))


def _bytes_per_second(dimension: Dimension, mean: bool) -> float:
    """Bytes, as they are before compression and without headers, that an NPU sends per second at most."""
    header = dimension.packet.header / dimension.packet.payload if dimension.packet else 0.0
    links = float(dimension.kind.rule.capacity(dimension.size)) if mean else 1
    return dimension.bandwidth * links * dimension.compression / (1 + header)


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
