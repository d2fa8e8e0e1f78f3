"""No link carries more than its bandwidth: what ports send and receive, and the time that stages are charged."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import networkx
import numpy as np
import pytest
from samples import every

from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.policies.baseline import Baseline
from themis_opt.problem.cost import occupancy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.problem.wiring import KIND_RULES, Algorithm, Kind, grid
from themis_opt.schedules.messages import stage_ways
from themis_opt.schedules.port_traffic import BusiestPort, Port, busiest_port, port_blocks
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.verification import verify

SIZES = (*range(2, 18), 20, 21, 25, 27, 31, 32, 33, 36, 48, 49, 63, 64)
WIRED = [(kind, algorithm) for kind, rule in KIND_RULES.items() for algorithm in rule.algorithms]
RAILS = [{"name": "fast", "bandwidth": "60 GB/s"}, {"name": "late", "bandwidth": "40 GB/s", "extra_latency": "3 us"}]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compression": {"compression": 1.7},
    "packets": {"packet": {"payload": 4096, "header": 30}},
    "rails": {"rails": RAILS, "bandwidth": "100 GB/s"},
    "sums": {"reduction": "200 GB/s"},
    "launches and latency": {"launch_overhead": "1 us", "latency": "2 us"},
    "all": {"compression": 2.0, "packet": {"payload": 512, "header": 40}, "rails": RAILS, "latency": "1 us"},
}
SHAPES: dict[Kind, Any] = {
    Kind.RING: networkx.cycle_graph,
    Kind.LINE: networkx.path_graph,
    Kind.MESH2D: lambda size: snake(*grid(size)),
}


def snake(rows: int, columns: int) -> networkx.Graph:
    """A grid whose second row is numbered back, and every other one after it."""
    numbers = {
        (row, k): row * columns + (columns - 1 - k if row % 2 else k) for row in range(rows) for k in range(columns)
    }
    return networkx.relabel_nodes(networkx.grid_2d_graph(rows, columns), numbers)


def dimensions_of(kind: Kind, algorithm: Algorithm, **options: Any) -> list[Dimension]:
    """One of every size that can be."""
    pairs_only = algorithm is Algorithm.ADASUM
    sizes = [size for size in SIZES if not kind.rule.flaw(size) and not (pairs_only and size & (size - 1))]
    fields: dict[str, Any] = {"kind": kind, "algorithm": algorithm, "bandwidth": "100 GB/s"} | options
    return [Dimension(size=size, **fields) for size in sizes]


Blocks = dict[tuple[Phase, int], Fraction]  # at the busiest port, by phase and number of NPUs


def blocks_of(dimensions: list[Dimension]) -> Blocks:
    return {(phase, d.size): max(port_blocks(phase, d, d.size).values()) for d in dimensions for phase in Phase}


def shortfalls(
    dimensions: list[Dimension], blocks: Blocks, kind: CollectiveKind = CollectiveKind.ALL_REDUCE
) -> list[tuple[Phase, int]]:
    """Stages of a chunk of 7 MB that end before their busiest port is done, where collectives are of some kind."""
    instances = [
        Instance(
            network=Network(dimensions=dimensions[first : first + 6]),
            collectives=(Collective(kind=kind, size="1 MiB"),),
        )
        for first in range(0, len(dimensions), 6)
    ]
    return [
        (phase, dimension.size)
        for instance in instances
        for k, dimension in enumerate(instance.network.dimensions)
        for phase in Phase
        if held(instance, phase, k) < seconds_at_port(dimension, blocks[phase, dimension.size]) * PICOSECONDS_PER_SECOND
    ]


def held(instance: Instance, phase: Phase, k: int) -> int:
    size, scattered = np.array([7_000_000]), np.array([instance.network.sizes[k]])
    return int(occupancy(instance, phase, k, size, scattered)[0])


def seconds_at_port(dimension: Dimension, blocks: Fraction) -> float:
    carried = float(blocks) * 7_000_000 / dimension.size / dimension.compression
    header = dimension.packet.header / dimension.packet.payload if dimension.packet else 0.0
    return carried * (1 + header) / dimension.bandwidth * (1 - 1e-12)


def assert_none(wired: str, num_stages: int, too_short: dict[str, list[tuple[Phase, int]]]) -> None:
    """No stage is too short with any option; `-s` prints how many were counted."""
    print(f"{wired}: {num_stages * len(OPTIONS)} stages counted, {sum(map(len, too_short.values()))} too short")
    assert too_short == {name: [] for name in OPTIONS}


@pytest.mark.parametrize(("kind", "algorithm"), every(2, WIRED))
def test_no_stage_is_shorter_than_its_busiest_port(kind: Kind, algorithm: Algorithm) -> None:
    """For every phase and option, and up to 64 NPUs."""
    blocks = blocks_of(dimensions_of(kind, algorithm))
    too_short = {
        name: shortfalls(dimensions_of(kind, algorithm, **options), blocks) for name, options in OPTIONS.items()
    }
    assert_none(f"{kind} {algorithm}", len(blocks), too_short)


@pytest.mark.parametrize("collective", every(3, CollectiveKind))
def test_no_stage_through_a_switch_that_sums_is_shorter_than_its_busiest_port(collective: CollectiveKind) -> None:
    """Whether its collectives go one way or both, which are two resources then."""
    wired = {
        options: dimensions_of(Kind.SWITCH, Algorithm.RING, in_network=True, **OPTIONS[options]) for options in OPTIONS
    }
    blocks = blocks_of(wired["plain"])
    too_short = {name: shortfalls(dimensions, blocks, collective) for name, dimensions in wired.items()}
    assert_none(f"{collective} through a switch that sums", len(blocks), too_short)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_both_directions_of_a_switch_that_sums_keep_to_the_bandwidth(kind: str) -> None:
    """Of many chunks, whose reduce-scatters and all-gathers overlap, one direction is busy nearly all the time."""
    switch = Dimension(kind=Kind.SWITCH, size=8, bandwidth="100 GB/s", in_network=True)
    port = verify(baseline(kind, switch, chunks=64)).busiest_port
    assert port.direction == ("received" if kind == "all_gather" else "sent")
    assert 0.95 < port.share <= 1 + 1e-9


def test_dimensions_that_share_a_link_fill_its_port_together() -> None:
    leaf = Dimension(kind=Kind.SWITCH, size=4, bandwidth="50 GB/s", name="leaf")
    spine = Dimension(kind=Kind.SWITCH, size=4, bandwidth="25 GB/s", name="spine", shares="leaf")
    port = busiest_port(baseline("all_to_all", leaf, spine))
    assert (port.dimension, port.bytes, port.bandwidth) == ("leaf+spine", pytest.approx(150e6), 50e9)
    assert port.share == pytest.approx(1.0)


@pytest.mark.parametrize("size", [2, 4, 6, 9])
@pytest.mark.parametrize(("kind", "algorithm"), [pair for pair in WIRED if pair[0] in SHAPES])
def test_messages_cross_the_wires_of_all_shortest_ways_evenly(kind: Kind, algorithm: Algorithm, size: int) -> None:
    """Counted by networkx, whose wires are those of the kind; the links of an NPU in the corner share the bandwidth."""
    if (algorithm is Algorithm.ADASUM and size & (size - 1)) or kind.rule.flaw(size):
        return
    wires = SHAPES[kind](size)
    links = min(degree for _, degree in wires.degree)
    dimension = Dimension(kind=kind, algorithm=algorithm, size=size, bandwidth=1e9)
    for phase in Phase:
        expected = Counter[Port]()
        for share, pattern in stage_ways(phase, kind, algorithm, size):
            for step in pattern:
                for source, target in zip(step.source.ravel().tolist(), step.target.ravel().tolist(), strict=True):
                    ways = list(networkx.all_shortest_paths(wires, source, target))
                    for way in ways:
                        expected.update(
                            {Port(*link): share * links / len(ways) for link in networkx.utils.pairwise(way)}
                        )
        assert port_blocks(phase, dimension, size) == expected


def ring(size: int, **fields: Any) -> Dimension:
    return Dimension(kind=Kind.RING, size=size, bandwidth="100 GB/s", **fields)


def baseline(kind: str, *dimensions: Dimension, chunks: int = 1) -> Schedule:
    collective = Collective(kind=CollectiveKind(kind), size="100 MB", chunks=chunks)
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return simulate(instance, Baseline()(instance))


def test_the_busiest_port_of_an_all_to_all_on_a_ring_is_busy_all_the_time() -> None:
    """Each of the two links of an NPU carries half of 100 MB x 16 / 8."""
    port = busiest_port(baseline("all_to_all", ring(8)))
    assert port == BusiestPort(
        dimension="dim1", port="NPU 0 sends to NPU 1", direction="sent", bytes=100e6, bandwidth=50e9, share=1.0
    )


def test_the_root_of_a_reduce_receives_twice() -> None:
    """In the reduce-scatter every NPU receives 3 of 4 blocks, in the gather the root alone."""
    port = busiest_port(baseline("reduce", Dimension(kind=Kind.SWITCH, size=4, bandwidth="1 GB/s", compression=2.0)))
    assert (port.port, port.direction) == ("NPU 0 receives", "received")
    assert (port.bytes, port.share) == (pytest.approx(75e6), pytest.approx(1.0))


def test_the_busiest_port_is_that_of_the_slowest_dimension() -> None:
    slow = Dimension(kind=Kind.SWITCH, size=4, bandwidth="10 GB/s", name="nic")
    port = busiest_port(baseline("all_gather", ring(4), slow))
    assert (port.dimension, port.bytes) == ("nic", pytest.approx(75e6 / 4))
    assert 0.5 < port.share < 1


def test_what_passes_a_dimension_of_many_npus_is_taken_from_the_cost_model() -> None:
    port = busiest_port(baseline("reduce_scatter", ring(1000)))
    assert (port.direction, port.bytes) == ("sent", pytest.approx(100e6 * 999 / 1000))


def test_more_bytes_than_a_port_can_carry_until_the_makespan_are_refused() -> None:
    schedule = baseline("all_reduce", ring(4, latency="1 us"))
    half = {name: getattr(schedule, name) // 2 for name in ("start", "end", "ready")}
    with pytest.raises(InvalidSchedule, match="more than the 50 GB/s it has") as caught:
        verify(replace(schedule, **half))
    assert caught.value.rule == "port"
