"""Hypothesis strategies for instances, plans and schedules."""

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Kind, Network, Packet, Rail
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

MAX_ELEMENTS = 10**6

bandwidths = st.one_of(
    st.sampled_from(["1 MB/s", "1 GB/s", "25 GiB/s", "400 Gb/s", "1.6 TB/s"]),
    st.integers(10**6, 10**12),
    st.floats(1e6, 1e13),
)


def times(longest: int) -> st.SearchStrategy[str]:
    """Times from nothing to `longest` picoseconds, nothing being frequent."""
    return st.one_of(st.just("0 ps"), st.integers(0, longest).map("{} ps".format))


packets = st.builds(Packet, payload=st.integers(1, 9000), header=st.integers(0, 200))


def dimensions(max_size: int = 16) -> st.SearchStrategy[Dimension]:
    """Dimensions with every option of the cost model."""
    grids = _dimensions(max_size, **GRIDS, size=_grid_sizes(max_size))
    plain = st.one_of(_dimensions(max_size), _dimensions(max_size, **LINES), grids)
    return st.one_of(plain, plain, st.builds(_with_rails, plain, st.lists(rails, min_size=1, max_size=3)))


rails = st.builds(
    Rail, name=st.just("?"), bandwidth=bandwidths, extra_latency=times(10**6), extra_launch_overhead=times(10**7)
)


def _with_rails(dimension: Dimension, links: list[Rail]) -> Dimension:
    named = tuple(rail.replace(name=f"rail{number}") for number, rail in enumerate(links))
    others = dimension.model_dump(mode="json", exclude_unset=True, exclude={"bandwidth"})
    return Dimension(**others, rails=named)


FLAGS = st.booleans()
KINDS = st.sampled_from([kind for kind in Kind if kind.rule.can_reduce])
ALGORITHMS = st.none() | st.sampled_from([Algorithm.RING, Algorithm.DIRECT, Algorithm.HALVING_DOUBLING])
LINES: dict[str, Any] = {"kind": st.just(Kind.LINE), "algorithm": st.none(), "in_network": st.just(False)}
GRIDS: dict[str, Any] = LINES | {"kind": st.just(Kind.MESH2D)}


def _grid_sizes(max_size: int) -> st.SearchStrategy[int]:
    return st.sampled_from([size for size in range(4, max(max_size, 4) + 1) if not Kind.MESH2D.rule.flaw(size)])


def _dimensions(
    max_size: int,
    kind: st.SearchStrategy[Kind] = KINDS,
    algorithm: st.SearchStrategy[Algorithm | None] = ALGORITHMS,
    in_network: st.SearchStrategy[bool] = FLAGS,
    size: st.SearchStrategy[int] | None = None,
) -> st.SearchStrategy[Dimension]:
    return st.builds(
        Dimension,
        kind=kind,
        size=st.integers(2, max_size) if size is None else size,
        bandwidth=bandwidths,
        latency=times(10**7),
        algorithm=algorithm,
        in_network=in_network,
        packet=st.none() | packets,
        launch_overhead=times(10**6),
        compression=st.sampled_from([1.0, 1.5, 2.0]) | st.floats(1, 100),
        reduction=st.none() | bandwidths,
    )


ANY_DIMENSION = dimensions()


def plain_dimensions() -> st.SearchStrategy[Dimension]:
    """Dimensions without launch overhead and packets."""
    kinds = st.sampled_from([kind for kind in Kind if kind is not Kind.MESH2D])
    return st.builds(Dimension, kind=kinds, size=st.integers(2, 16), bandwidth=bandwidths, latency=times(10**7))


def networks(
    dimension: st.SearchStrategy[Dimension] = ANY_DIMENSION, max_dimensions: int = 4, min_dimensions: int = 1
) -> st.SearchStrategy[Network]:
    """Networks of one to four dimensions."""
    several = st.lists(dimension, min_size=min_dimensions, max_size=max_dimensions).map(tuple)
    return st.builds(Network, dimensions=several)


@st.composite
def collectives(draw: st.DrawFn, names: tuple[str, ...], max_chunks: int = 6) -> Collective:
    """Collectives of all kinds on some or all of the named dimensions."""
    chunks, element_bytes = draw(st.integers(1, max_chunks)), draw(st.sampled_from([1, 2, 4]))
    elements = draw(st.integers(chunks, 4 * chunks) | st.integers(chunks, MAX_ELEMENTS))
    span = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    return Collective(
        kind=draw(st.sampled_from(CollectiveKind)),
        size=elements * element_bytes,
        chunks=chunks,
        dimensions=draw(st.none() | span),
        release=draw(times(10**8)),
        element_bytes=element_bytes,
    )


@st.composite
def instances(draw: st.DrawFn, max_collectives: int = 3, max_chunks: int = 6, **fixed: Any) -> Instance:
    """Instances with every rule of the model; `fixed` fields are taken as they are."""
    network = fixed.pop("network", None) or draw(networks())
    some = st.lists(collectives(network.dimension_names, max_chunks), min_size=1, max_size=max_collectives)
    rules = {
        "latency": draw(st.sampled_from(["lag", "occupy"])),
        "ag_order": draw(st.sampled_from(["free", "reverse"])),
    }
    return Instance(network=network, collectives=tuple(draw(some)), **(rules | fixed))


@st.composite
def tiny_instances(draw: st.DrawFn) -> Instance:
    """Instances that can be enumerated: two dimensions and up to three chunks, of them two of two phases."""
    network = draw(networks(min_dimensions=2, max_dimensions=2))
    return draw(instances(network=network, max_collectives=2, max_chunks=3).filter(_can_be_enumerated))


def _can_be_enumerated(instance: Instance) -> bool:
    twice = sum(c.chunks for c in instance.collectives if len(c.kind.rule.phases) > 1)
    return sum(c.chunks for c in instance.collectives) <= 3 and twice <= 2


@st.composite
def chunk_sizes(draw: st.DrawFn, collective: Exchange) -> np.ndarray:
    """Equal sizes, or at most as many unequal ones, of whole elements and together the collective."""
    if draw(st.booleans()):
        return equal_sizes(collective)
    elements = collective.size // collective.element_bytes
    cuts = draw(st.sets(st.integers(1, elements - 1), max_size=collective.chunks - 1)) if elements > 1 else set()
    ends = [0, *sorted(cuts), elements]
    return np.array([b - a for a, b in pairwise(ends)], dtype=np.int64) * collective.element_bytes


@st.composite
def plans(draw: st.DrawFn, instance: Instance) -> Plan:
    """Any legal orders and sizes with any dispatch rule."""
    chunks = []
    for collective in instance.exchanges:
        sizes = draw(chunk_sizes(collective))
        mirrored = collective.kind.rule.mirrors and instance.ag_order == "reverse"
        paths = []
        for _ in sizes:
            orders = [draw(st.permutations(collective.span)) for _ in collective.kind.rule.phases]
            if mirrored:
                orders[1] = orders[0][::-1]
            paths.append([k for order in orders for k in order])
        chunks.append(Chunks(sizes, np.array(paths, dtype=np.int64)))
    return Plan(tuple(chunks), draw(st.sampled_from(sorted(DISPATCH))))


@st.composite
def schedules(draw: st.DrawFn, **fixed: Any) -> Schedule:
    """Simulated schedules of random plans on random instances."""
    instance = draw(instances(**fixed))
    return simulate(instance, draw(plans(instance)))


def enforced_plans(**fixed: Any) -> st.SearchStrategy[tuple[Instance, Plan]]:
    """Instances with plans that enforce every sequence."""
    return schedules(**fixed).map(lambda schedule: (schedule.instance, schedule.enforced_plan()))
