"""How many chunks, where each costs something: a decision of the free-size policies."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import themis_opt
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.problem.random_networks import random_instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.annealing import Annealing
from themis_opt.search.exact import Exact
from themis_opt.search.nesting import shares_by_count
from themis_opt.solving.lowering import chunk_overhead, occupancies, occupancy_parts

COSTS = {"launch_overhead": 2_000_000, "packet": Packet(payload=4096, header=30)}


def with_costs(instance: Instance) -> Instance:
    """Launches of 2 us, and packets."""
    return instance.replace(network=instance.network.with_costs(COSTS))


def costly(network: str, size: str, latency: str = "lag", chunks: int = 64) -> Instance:
    """An instance of the paper whose launches, packets and perhaps latency hold the dimension."""
    instance = themis_opt.load(f"{network}.all_reduce.100MiB")
    return with_costs(instance.overridden(size=size, latency=latency, chunks=chunks))


def found(instance: Instance, seconds: float = 1.0, *, cp_sat: bool = False) -> Schedule:
    """What the reference finds with free sizes, the same on every run; it may not stop early."""
    policy = Exact(seconds=seconds, workers=1, sizes="free", deterministic=True, gap=0.0, cp_sat=cp_sat)
    return policy.solve(instance).schedule


def test_a_larger_allowance_contains_the_smaller_ones() -> None:
    """163.4 us with 64 chunks and 156.2 us with 6 were found before the number was searched."""
    many, few = (found(costly("2d-sw_sw", "16 MiB", chunks=chunks)).makespan for chunks in (64, 6))
    assert many <= few
    assert many <= 156_200_000


@pytest.mark.parametrize(
    ("seed", "latency", "cp_sat"),
    [
        *product([0], ("lag", "occupy"), [False]),
        *(pytest.param(*case, marks=pytest.mark.benchmarks) for case in product((1, 2, 3), ("lag", "occupy"), [False])),
        (11, "lag", True),
        *(pytest.param(seed, "lag", True, marks=pytest.mark.benchmarks) for seed in (6, 9)),
    ],
)
def test_a_larger_allowance_is_never_worse(seed: int, latency: str, cp_sat: bool) -> None:
    """Also where the work ends the search, which all allowances divide alike."""
    instance = with_costs(random_instance(seed).overridden(latency=latency))
    makespans = [found(instance.overridden(chunks=count), 0.1, cp_sat=cp_sat).makespan for count in (24, 9, 6)]
    assert makespans == sorted(makespans)


def test_the_work_for_an_allowance_does_not_depend_on_the_largest() -> None:
    many, few = (shares_by_count(costly("3d-sw_sw_sw_hetero", "16 MiB", chunks=chunks)) for chunks in (64, 4))
    assert list(few) == [1, 2, 3, 4]
    assert sorted(many.values()) == list(many.values())
    assert few.items() <= many.items()
    assert max(many.values()) == 1


def test_work_is_divided_where_a_collective_is_released_late() -> None:
    instance = costly("3d-sw_sw_sw_hetero", "16 MiB")
    (own,) = instance.collectives
    assert shares_by_count(instance.replace(collectives=(own.replace(release="3 us"),)))


def test_work_is_not_divided_where_chunks_are_cheap() -> None:
    assert not shares_by_count(themis_opt.load("2d-sw_sw.all_reduce.100MiB"))


@pytest.mark.parametrize("policy", ["hourglass:sizes=free", "exact:sizes=free:seconds=1:workers=1:deterministic=true"])
def test_one_chunk_where_headers_dominate(policy: str) -> None:
    """2 x (40 + 30) B at 1 TB/s; every chunk more pays two headers more."""
    ring = {"kind": "ring", "size": 64, "bandwidth": "1 TB/s", "packet": {"payload": 65536, "header": 30}}
    collective = {"kind": "all_reduce", "size": "40 B", "chunks": 8}
    instance = Instance.model_validate({"network": {"dimensions": [ring]}, "collectives": [collective]})
    assert simulate(instance, make_policy(policy)(instance)).makespan == 140


@pytest.mark.parametrize(
    ("network", "size", "latency", "best_known"),
    [
        ("2d-sw_sw", "100 MiB", "occupy", 832.77),
        ("3d-sw_sw_sw_hetero", "16 MiB", "occupy", 133.46),
        ("3d-sw_sw_sw_hetero", "100 MiB", "lag", 586.09),
        ("4d-ring_sw_sw_sw", "100 MiB", "occupy", 376.73),
    ],
)
def test_hourglass_chooses_the_number_of_chunks_well(network: str, size: str, latency: str, best_known: float) -> None:
    """Within 6 % of the best that long searches found, in microseconds."""
    instance = costly(network, size, latency)
    schedule = simulate(instance, Hourglass("free")(instance))
    validate(schedule)
    assert schedule.makespan <= 1.06 * best_known * 1e6


def test_annealing_sheds_chunks_that_cost_more_than_they_are_good_for() -> None:
    instance = costly("3d-sw_sw_sw_homo", "1 MiB", chunks=8)
    start = simulate(instance, make_policy("themis+scf")(instance))
    annealing = Annealing(start, resizes=True)
    annealing.run(20_000, 2e-2, 5e-4)
    best = annealing.best()
    validate(best)
    assert len(best.plan.chunks[0].sizes) < 8
    assert best.makespan < start.makespan


def test_annealing_resizes_every_kind_of_collective(every_kind: Instance) -> None:
    instance = with_costs(every_kind.overridden(chunks=4))
    start = simulate(instance, make_policy("themis+scf")(instance))
    annealing = Annealing(start, resizes=True)
    annealing.run(5_000, 2e-2, 5e-4)
    validate(annealing.best())


def test_durations_of_any_size_are_those_of_the_cost_model(every_kind: Instance) -> None:
    """But for the last picosecond, which is rounded exactly there."""
    instance = with_costs(every_kind)
    for exchange in instance.exchanges:
        sizes = equal_sizes(replace(exchange, max_chunks=7))[:2]
        parts = occupancy_parts(instance, exchange)
        own = sizes[:, None, None, None]
        packets = np.ceil(parts.packets * own)
        times = np.ceil(parts.rate * own + packets * parts.header) + (packets > 0) * parts.fixed
        assert np.abs(times - occupancies(instance, exchange, sizes)).max() <= 1


def test_overhead_of_chunks_is_what_they_hold_the_busiest_dimension_for() -> None:
    """Four launches of 2 us on every dimension: 2 chunks, scattered and gathered; and a header each at 200 GB/s."""
    assert chunk_overhead(costly("2d-sw_sw", "16 MiB", chunks=2)) == pytest.approx(8e6, rel=1e-3)
    assert chunk_overhead(themis_opt.load("2d-sw_sw.all_reduce.100MiB")) == 0
