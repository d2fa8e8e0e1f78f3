"""Bytes, occupation and lag of every stage, by hand."""

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from counted_calls import count_calls
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import instances, plans

from themis_opt.base.errors import InputError
from themis_opt.problem.cost import StageCosts, check_clock, path_costs, steps
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import COLLECTIVE_RULES, PHASE_RULES, CollectiveKind, Phase

RS, AG, A2A, SC, GA = Phase.REDUCE_SCATTER, Phase.ALL_GATHER, Phase.ALL_TO_ALL, Phase.SCATTER, Phase.GATHER
GIGABYTE_PER_SECOND = {"kind": "switch", "bandwidth": "1 GB/s"}


def dimension(**fields: Any) -> Dimension:
    return Dimension.model_validate(GIGABYTE_PER_SECOND | {"size": 4} | fields)


def instance(kind: str, *dimensions: Dimension, size: int = 960, **rules: Any) -> Instance:
    collective = Collective(kind=CollectiveKind(kind), size=size, chunks=1)
    return Instance(network=Network(dimensions=dimensions), collectives=(collective,), **rules)


def costs(kind: str, path: list[int], *dimensions: Dimension, size: int = 960, **rules: Any) -> StageCosts:
    """Costs of one chunk of all bytes along a path."""
    problem = instance(kind, *dimensions, size=size, **rules)
    return path_costs(problem, problem.collectives[0].kind, np.array([size]), np.array([path]))


@pytest.mark.parametrize(
    ("algorithm", "size", "phase", "number"),
    [
        *(("ring", size, phase, size - 1) for size in (2, 3, 5, 8) for phase in Phase if phase is not Phase.SEND),
        *(("line", size, phase, size - 1) for size in (2, 3, 5, 8) for phase in Phase if phase is not Phase.SEND),
        *(
            ("mesh2d", size, phase, number)
            for size, number in ((4, 2), (6, 3), (35, 10))
            for phase in (RS, AG, A2A, SC, GA)
        ),
        *((algorithm, size, Phase.SEND, 1) for algorithm in ("ring", "line", "halving_doubling") for size in (2, 5)),
        *(("direct", size, phase, 1) for size in (2, 3, 5, 8) for phase in Phase),
        *(("halving_doubling", 2, phase, 1) for phase in (RS, AG, SC, GA)),
        *(("halving_doubling", 3, phase, 2) for phase in (RS, AG, SC, GA)),
        *(("halving_doubling", 8, phase, 3) for phase in (RS, AG, SC, GA)),
        *(("halving_doubling", 9, phase, 4) for phase in (RS, AG, SC, GA)),
        *(("halving_doubling", 1000, phase, 10) for phase in (RS, AG, SC, GA)),
        *(("halving_doubling", 2**39, phase, 39) for phase in (RS, AG)),
        *(("halving_doubling", 2**39 + 1, phase, 40) for phase in (RS, AG)),
        ("halving_doubling", 9, A2A, 1),
    ],
)
def test_steps_of_an_algorithm(algorithm: str, size: int, phase: Phase, number: int) -> None:
    kind = algorithm if algorithm in ("line", "mesh2d") else "switch"
    assert steps(dimension(kind=kind, algorithm=algorithm, size=size), phase) == number


@pytest.mark.parametrize(("phase", "number"), [(RS, 1), (AG, 1), (A2A, 7), (SC, 7), (GA, 7)])
def test_reducing_in_the_network_takes_one_step(phase: Phase, number: int) -> None:
    assert steps(dimension(algorithm="ring", size=8, in_network=True), phase) == number


FOUR, THREE, SHARP = dimension(size=4), dimension(size=3), dimension(in_network=True)


@pytest.mark.parametrize(
    ("kind", "path", "dimensions", "sent"),
    [
        ("reduce_scatter", [0, 1], [FOUR, THREE], [720, 160]),  # 3/4 on four NPUs, then 2/3 of 240 on three
        ("all_gather", [1, 0], [FOUR, THREE], [160, 720]),  # 80 bytes x 2 on three NPUs, then 240 x 3 on four
        ("all_reduce", [0, 1, 0, 1], [FOUR, THREE], [720, 160, 240, 640]),
        ("broadcast", [0, 1, 0, 1], [FOUR, THREE], [720, 160, 240, 640]),  # the root, and its peers 2/3 of 240 each
        ("reduce", [0, 1, 0, 1], [FOUR, THREE], [720, 160, 240, 640]),  # the root receives 80 from three, 320 from two
        ("all_to_all", [0, 1], [FOUR, THREE], [720, 640]),  # the same in any order
        ("all_to_all", [1, 0], [FOUR, THREE], [640, 720]),
        ("reduce_scatter", [0], [dimension(compression=3)], [240]),
        # Of an all-to-all on a line floor(P / 2) NPUs on one side send 960 / P bytes to each on the other side.
        *(
            ("all_to_all", [0], [dimension(kind="line", size=size)], [sent])
            for size, sent in ((2, 480), (3, 640), (4, 960), (5, 1152), (6, 1440))
        ),
        # 2 x 2: over a link go 2 x 1 of 4 blocks, two links are the bandwidth; 2 x 3: 2 x 2 of 6; 3 x 3: 3 x 2 of 9.
        *(
            ("all_to_all", [0], [dimension(kind="mesh2d", size=size)], [sent])
            for size, sent in ((4, 960), (6, 1280), (9, 1280))
        ),
        # In the network m goes out in a reduce-scatter of m bytes, and m (P - 1) / P comes in in an all-gather.
        ("reduce_scatter", [0], [SHARP], [960]),
        ("all_gather", [0], [SHARP], [720]),
        ("all_to_all", [0], [SHARP], [720]),
        # A switch has nothing to multicast or to sum where different blocks go from a root or to it.
        ("broadcast", [0, 0], [SHARP], [720, 720]),
        ("reduce", [0, 0], [SHARP], [960, 720]),
        # 5/4 of what is held on the side with most, so that scatters and gathers of different chunks overlap.
        ("all_reduce", [1, 0, 0, 1], [SHARP, THREE], [640, 400, 400, 640]),
    ],
)
def test_bytes_of_960_that_the_busiest_npu_sends(
    kind: str, path: list[int], dimensions: list[Dimension], sent: list[float]
) -> None:
    assert costs(kind, path, *dimensions).sent.tolist() == [sent]


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
@pytest.mark.parametrize(("algorithm", "num_steps"), [("ring", 7), ("direct", 1), ("halving_doubling", 3)])
def test_the_stages_of_rooted_collectives(kind: str, algorithm: str, num_steps: int) -> None:
    """Each of the two takes 7/8 of the bytes past the busiest NPU, in the steps of its algorithm."""
    result = costs(kind, [0, 0], dimension(size=8, algorithm=algorithm, latency="1 ns"))
    assert result.sent.tolist() == [[840, 840]]
    assert result.lag.tolist() == [[num_steps * 1000] * 2]


@given(st.permutations(range(4)), st.permutations(range(4)), st.lists(st.integers(2, 16), min_size=4, max_size=4))
def test_an_all_reduce_sends_twice_all_but_its_own_share(first: list[int], second: list[int], sizes: list[int]) -> None:
    """2 S (N - 1) / N bytes over all dimensions in any order."""
    size, npus = 10**6, int(np.prod(sizes))
    sent = costs("all_reduce", first + second, *(dimension(size=s) for s in sizes), size=size).sent.sum()
    assert sent == pytest.approx(2 * size * (npus - 1) / npus)


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_gather"])
def test_equal_states_have_equal_bytes_to_the_last_bit(kind: str) -> None:
    sizes = (3, 5, 7, 11)
    dimensions = [dimension(size=s) for s in sizes]
    by_state: dict[frozenset[int], set[float]] = {}
    for path in permutations(range(4)):
        held = costs(kind, list(path), *dimensions, size=999_998).held_after[0].tolist()
        for position, value in enumerate(held):
            by_state.setdefault(frozenset(path[: position + 1]), set()).add(value)
    assert all(len(values) == 1 for values in by_state.values())


def test_a_stage_and_its_mirror_send_equal_bytes_to_the_last_bit() -> None:
    sizes = (3, 5, 7)
    sent = costs("all_reduce", [2, 0, 1, 1, 0, 2], *(dimension(size=s) for s in sizes), size=1_000_002).sent[0]
    assert sent.tolist() == sent[::-1].tolist()


OVERHEAD, PACKETS = {"launch_overhead": "5 ns"}, {"payload": "100 B", "header": "7 B"}


@pytest.mark.parametrize(
    ("fields", "rules", "occupancy", "lag"),
    [
        ({"bandwidth": "2 GB/s"}, {}, 360_000, 0),
        ({"bandwidth": "7 GB/s"}, {}, 102_858, 0),  # 102857.14 ps, rounded up
        ({"latency": "5 ns"}, {}, 720_000, 2 * 5_000),
        ({"latency": "5 ns"}, {"latency": "occupy"}, 720_000 + 2 * 5_000, 0),
        (OVERHEAD, {"latency": "lag"}, 725_000, 0),
        (OVERHEAD, {"latency": "occupy"}, 725_000, 0),
        ({"packet": PACKETS}, {}, (720 + 8 * 7) * 1000, 0),  # 8 packets of up to 100
        ({"size": 2, "compression": 2.3, "packet": PACKETS | {"payload": "10 B"}}, {"size": 46}, 17_000, 0),  # of 10 B
        ({"reduction": "2 GB/s"}, {}, (720 + 360) * 1000, 0),  # as many bytes are received and added
        ({"reduction": "2 GB/s", "compression": 3}, {}, 600_000, 0),  # in full
        ({"reduction": "2 GB/s", "in_network": True}, {}, 960_000, 0),  # by the switch
    ],
)
def test_a_reduce_scatter_of_720_bytes(fields: dict[str, Any], rules: dict[str, Any], occupancy: int, lag: int) -> None:
    """Sent at 1 GB/s, unless told otherwise."""
    result = costs("reduce_scatter", [0], dimension(**fields), **rules)
    assert (result.occupancy.item(), result.lag.item()) == (occupancy, lag)


@given(
    st.integers(2, 64),
    st.integers(2, 64),
    st.integers(1, 2**50),
    st.one_of(st.integers(1, 10**12), st.floats(1e-3, 1e13), st.sampled_from([1e9, 25e9, 200 * 2.0**30])),
    st.sampled_from([1.0, 1.1, 2.3, 3.0]) | st.floats(1, 100),
    st.none() | st.tuples(st.integers(1, 9000), st.integers(0, 200)),
    st.none() | st.integers(1, 10**12),
)
def test_occupation_is_exact(
    size: int,
    other: int,
    sent: int,
    bandwidth: float,
    compression: float,
    packet: tuple[int, int] | None,
    reduction: int | None,
) -> None:
    """Against fractions, in the second of two dimensions, where a chunk of `sent` bytes is 1/`other` of it."""
    framing = packet and {"payload": f"{packet[0]} B", "header": f"{packet[1]} B"}
    last = dimension(
        kind="ring", size=size, bandwidth=bandwidth, compression=compression, packet=framing, reduction=reduction
    )
    network = Network(dimensions=(dimension(size=other), last))
    problem = Instance(network=network, collectives=(Collective(kind="reduce_scatter", size=2, chunks=1),))
    here = Fraction(sent * (size - 1), other * size) / Fraction(repr(compression))
    wire = here + (math.ceil(here / packet[0]) * packet[1] if packet else 0)
    exact = wire / Fraction(repr(float(bandwidth)))
    if reduction:
        exact += here * Fraction(repr(compression)) / reduction
    assume(exact < 10**6)
    result = path_costs(problem, CollectiveKind.REDUCE_SCATTER, np.array([sent]), np.array([[0, 1]]))
    assert result.occupancy[0, 1] == math.ceil(exact * 10**12)


@pytest.mark.parametrize(
    ("kind", "path", "dimensions", "occupancy"),
    [
        *(
            ("reduce_scatter", [0], [dimension(size=6, reduction="2 GB/s", algorithm=algorithm)], [800 + 400])
            for algorithm in ("ring", "direct", "halving_doubling")
        ),
        # Inside a line NPUs add up what comes from both sides.
        *(
            ("reduce_scatter", [0], [dimension(kind="line", size=size, reduction="1 GB/s")], [sent + added])
            for size, sent, added in ((2, 480, 480), (3, 640, 4 * 320), (6, 800, 7 * 160))
        ),
        # Only phases that reduce add up.
        *(
            (kind, [0] * len(held), [dimension(reduction="2 GB/s")], held)
            for kind, held in (
                *(("all_reduce", [1080, 720]), ("reduce", [1080, 720]), ("broadcast", [720, 720])),
                *(("all_gather", [720]), ("all_to_all", [720])),
            )
        ),
        # Chunks that are scattered already have less to add up.
        ("reduce_scatter", [0, 1], [dimension(size=s, reduction="2 GB/s") for s in (4, 3)], [720 + 360, 160 + 80]),
    ],
)
def test_what_npus_add_up_takes_time(
    kind: str, path: list[int], dimensions: list[Dimension], occupancy: list[int]
) -> None:
    """Of 960 bytes, in nanoseconds."""
    assert costs(kind, path, *dimensions).occupancy.tolist() == [[1000 * time for time in occupancy]]


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [4, 6, 12])
def test_the_links_of_a_corner_bring_a_grid_all_it_has_not(kind: str, size: int) -> None:
    result = costs(kind, [0], dimension(kind="mesh2d", size=size, latency="1 ns"))
    assert result.occupancy.item() == 960 * (size - 1) // size * 1000
    assert result.lag.item() == {4: 2, 6: 3, 12: 5}[size] * 1000


def test_inside_a_grid_npus_add_up_what_comes_from_four_sides() -> None:
    """In the middle of 3 x 3: 4 and then 3 x 4 of 9 blocks, whichever way they go first."""
    summing = dimension(kind="mesh2d", size=9, reduction="1 GB/s")
    added = costs("reduce_scatter", [0], summing, size=900).occupancy.item() - 800 * 1000
    assert added == 900 // 9 * (4 + 3 * 4) * 1000


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_a_line_with_one_link_is_a_ring_with_two_of_half_the_bandwidth(kind: str) -> None:
    path = [1, 0] * len(CollectiveKind(kind).rule.phases)
    line, ring = ([dimension(kind=k, latency="1 us"), FOUR] for k in ("line", "ring"))
    results = costs(kind, path, *line), costs(kind, path, *ring)
    assert all((one == other).all() for one, other in zip(*results, strict=True))


@given(st.data())
def test_stages_of_one_chunk_follow_from_what_it_holds(data: st.DataObject) -> None:
    """The next stage of a phase begins with what the one before left."""
    problem = data.draw(instances())
    plan = data.draw(plans(problem))
    for collective, chunks in zip(problem.exchanges, plan.chunks, strict=True):
        result = path_costs(problem, collective.kind, chunks.sizes, chunks.paths)
        assert result.held_before[:, 1:] == pytest.approx(result.held_after[:, :-1])


def test_every_collective_and_every_phase_has_a_rule() -> None:
    assert [kind.rule for kind in CollectiveKind] == list(COLLECTIVE_RULES.values())
    assert {phase for kind in CollectiveKind for phase in kind.rule.phases} == set(Phase) == set(PHASE_RULES)


@pytest.mark.parametrize(
    "slow",
    [
        dimension(latency="2e6 s"),
        dimension(launch_overhead="2e6 s"),
        dimension(bandwidth="1e-5 B/s"),
        dimension(packet={"payload": "1 B", "header": "1000 TB"}),
        dimension(reduction="1e-5 B/s"),
    ],
    ids=["latency", "overhead", "bandwidth", "headers", "reduction"],
)
def test_a_schedule_that_could_outlast_the_clock_is_refused(slow: Dimension) -> None:
    with pytest.raises(InputError, match=r"more than the .* s the clock holds"):
        check_clock(instance("all_reduce", slow))


@pytest.mark.parametrize(("chunks", "refused"), [(125_000, False), (125_001, True)])
def test_chunks_may_have_a_million_stages(chunks: int, refused: bool) -> None:
    """Two dimensions, twice, by two all-reduces."""
    collective = Collective(kind=CollectiveKind.ALL_REDUCE, size=10**9, chunks=chunks)
    network = Network(dimensions=(dimension(), dimension()))
    problem = Instance(network=network, collectives=(collective, collective.replace(name="other")))
    if not refused:
        check_clock(problem)
        return
    with pytest.raises(InputError, match=r"collectives: their chunks must have at most 1000000 stages together"):
        check_clock(problem)


def test_the_clock_is_checked_once_for_all_exchanges_of_a_kind() -> None:
    network = Network(dimensions=(dimension(), dimension()))
    many = [Collective(name=f"c{n}", kind=CollectiveKind.ALL_REDUCE, size=10**6 + 2 * n, chunks=8) for n in range(200)]
    few, all_of_them = (Instance(network=network, collectives=tuple(some)) for some in (many[:2], many))
    for problem in (few, all_of_them):
        check_clock(problem)  # what is computed once for an instance
    assert count_calls(lambda: check_clock(all_of_them)) < count_calls(lambda: check_clock(few)) + 40 * len(many)


def test_headers_of_partly_filled_packets_count_for_the_clock() -> None:
    """Each of 10 000 chunks starts a separate packet on each stage: 1e15 bytes of header at 1 GB/s."""
    slow = dimension(packet={"payload": "1000 TB", "header": "1000 TB"})
    collective = Collective(kind=CollectiveKind.ALL_REDUCE, size=20_000, chunks=10_000)
    with pytest.raises(InputError, match="clock"):
        check_clock(Instance(network=Network(dimensions=(slow,)), collectives=(collective,)))
