"""Each bound on cases that can be solved by hand."""

from typing import Any

import pytest
from planning import schedule_of

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.bounds import bounds, bounds_of
from themis_opt.solving.makespan_bounds import order_count

UNIT = 10**9  # one unit of figure 5: 1 ms
MICROSECOND = 10**6


def bound(name: str, instance: Instance) -> float:
    return bounds_of(instance)[name].compute(instance)


def instance(
    kind: str, *bandwidths: str, chunks: int = 1, size: int = 6000, fields: Any = None, **dimension: Any
) -> Instance:
    """Dimensions of two NPUs; on 1 GB/s, half of 2000 bytes take 1 us; `fields` of the collective."""
    network = Network(
        dimensions=tuple(Dimension(kind=Kind.SWITCH, size=2, bandwidth=b, **dimension) for b in bandwidths)
    )
    collective = Collective(kind=CollectiveKind(kind), size=size, chunks=chunks, **fields or {})
    return Instance(network=network, collectives=(collective,))


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("ideal", 480 / 72),  # 2 x 256 MB x 15/16 at 72 GB/s
        ("fluid", 20 / 3),  # both dimensions can be filled
        ("order_count", 7),  # n of 8 half paths visit dim2 first: 8 - 0.75 n and 4 + 1.5 n units on the two; n = 2
        ("chain", 3),  # one chunk scatters in 1 + 0.5 units, and gathers back in as much
    ],
)
def test_bounds_of_figure_5(figure_5: Instance, name: str, units: float) -> None:
    assert bound(name, figure_5) == pytest.approx(units * UNIT, rel=1e-6)


LATE = {"latency": "5 us"}
LAUNCHED = {"launch_overhead": "5 us", "chunks": 3}


@pytest.mark.parametrize(
    ("name", "one", "microseconds"),
    [
        ("ideal", instance("reduce_scatter", "1 GB/s", "1 GB/s", fields={"dimensions": ("dim1",)}), 3),
        ("fluid", instance("reduce_scatter", "1 GB/s", fields={"release": "10 us"}), 3 + 10),
        ("fluid", instance("reduce_scatter", "1 GB/s", reduction="500 MB/s"), 3 * 3),
        ("fluid", instance("reduce_scatter", "1 GB/s", **LATE), 3 + 5),
        ("fluid", instance("all_reduce", "1 GB/s", **LATE).replace(latency="occupy"), 2 * (3 + 5)),
        ("fluid", instance("reduce_scatter", "1 GB/s", **LAUNCHED), 3 + 5),  # those of one chunk
        ("fluid", instance("all_to_all", "1 GB/s", "100 GB/s"), 3),  # whatever the order
        ("order_count", instance("reduce_scatter", "1 GB/s", **LAUNCHED), 3 + 15),
        ("order_count", instance("all_to_all", "1 GB/s", "1 GB/s", **LATE), 2 * (3 + 5)),  # comes second somewhere
        ("chain", instance("all_reduce", "1 GB/s", chunks=3, **LATE), 2 * (1 + 5)),
        ("chain", instance("reduce_scatter", "1 GB/s", chunks=2, size=10), 0.003),  # the larger chunk, of 3 elements
    ],
)
def test_what_bounds_count(name: str, one: Instance, microseconds: float) -> None:
    assert bound(name, one) == pytest.approx(microseconds * MICROSECOND, rel=1e-6)


def test_ideal_takes_the_order_with_least_bytes() -> None:
    """With in-network reduction 6000 + 1500 (2 NPUs there) beat 3000 + 3000... whichever is less counts."""
    plain, sharp = (Dimension(kind=Kind.SWITCH, size=4, bandwidth="1 GB/s", in_network=flag) for flag in (False, True))
    collective = Collective(kind=CollectiveKind.REDUCE_SCATTER, size=6000, chunks=1)
    problem = Instance(network=Network(dimensions=(plain, sharp)), collectives=(collective,))
    assert bound("ideal", problem) == pytest.approx((4500 + 1500) / 2 * 1000)


def test_order_count_without_time_is_still_a_bound(figure_5: Instance) -> None:
    bound = order_count(figure_5, work=1e-6)
    assert bound <= 7 * UNIT * (1 + 1e-9)


def test_a_reversed_gather_order_never_lowers_a_bound(mixed: Instance) -> None:
    small = mixed.overridden(chunks=3)
    free, reverse = bounds(small), bounds(small.overridden(ag_order="reverse"))
    assert all(reverse[name] >= free[name] * (1 - 1e-6) for name in free)


def test_free_sizes_leave_out_bounds_of_equal_chunks(figure_5: Instance) -> None:
    assert set(bounds(figure_5, equal_sizes=False)) == {"ideal", "fluid", "head_tail", "chain", "chunk_count", "cut"}


def test_rounding_to_the_clock_never_leaves_a_bound_above_a_makespan() -> None:
    """A stage of a millionth more than a picosecond."""
    one = instance("reduce_scatter", repr(1e12 / (1 + 9e-7)), size=2)
    schedule = schedule_of(one, "baseline")
    assert max(bounds(one).values()) <= schedule.makespan * (1 + 1e-9)


def test_order_count_leaves_little_room_above_the_ideal(hetero: Instance) -> None:
    """At 64 chunks of an all-reduce of 100 MiB."""
    assert order_count(hetero) == pytest.approx(bound("ideal", hetero), rel=0.02)
