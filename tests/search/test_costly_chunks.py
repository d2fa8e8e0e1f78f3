"""How many chunks, where each costs something: a decision of the free-size policies."""

import pytest
from planning import schedule_of

import themis_opt
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.annealing import Annealing
from themis_opt.solving.lowering import chunk_overhead

COSTS = {"launch_overhead": 2_000_000, "packet": Packet(payload=4096, header=30)}


def with_costs(instance: Instance) -> Instance:
    """Launches of 2 us, and packets."""
    return instance.replace(network=instance.network.with_costs(COSTS))


def costly(network: str, size: str, latency: str = "lag", chunks: int = 64) -> Instance:
    """An instance of the paper whose launches, packets and perhaps latency hold the dimension."""
    instance = themis_opt.load(f"{network}.all_reduce.100MiB")
    return with_costs(instance.overridden(size=size, latency=latency, chunks=chunks))


@pytest.mark.parametrize("policy", ["hourglass:sizes=free", "exact:sizes=free:seconds=1:workers=1:deterministic=true"])
def test_one_chunk_where_headers_dominate(policy: str) -> None:
    """2 x (40 + 30) B at 1 TB/s; every chunk more pays two headers more."""
    ring = {"kind": "ring", "size": 64, "bandwidth": "1 TB/s", "packet": {"payload": 65536, "header": 30}}
    collective = {"kind": "all_reduce", "size": "40 B", "chunks": 8}
    instance = Instance.model_validate({"network": {"dimensions": [ring]}, "collectives": [collective]})
    assert schedule_of(instance, policy).makespan == 140


@pytest.mark.parametrize(
    ("network", "size", "latency", "best_known", "most"),
    [
        ("2d-sw_sw", "100 MiB", "occupy", 832.77, 1.01),
        ("3d-sw_sw_sw_hetero", "16 MiB", "occupy", 133.46, 1.01),
        ("3d-sw_sw_sw_hetero", "100 MiB", "lag", 586.09, 1.02),
        ("4d-ring_sw_sw_sw", "100 MiB", "occupy", 376.73, 1.04),
    ],
)
def test_hourglass_chooses_the_number_of_chunks_well(
    network: str, size: str, latency: str, best_known: float, most: float
) -> None:
    """`best_known`: by long searches, in microseconds."""
    instance = costly(network, size, latency)
    schedule = simulate(instance, Hourglass("free")(instance))
    validate(schedule)
    assert schedule.makespan <= most * best_known * 1e6


def test_annealing_sheds_chunks_that_cost_more_than_they_are_good_for() -> None:
    instance = costly("3d-sw_sw_sw_homo", "1 MiB", chunks=8)
    start = schedule_of(instance, "themis+scf")
    annealing = Annealing(start, resizes=True)
    annealing.run(20_000, 2e-2, 5e-4)
    best = annealing.best()
    validate(best)
    assert len(best.plan.chunks[0].sizes) < 8
    assert best.makespan < start.makespan


def test_annealing_resizes_every_kind_of_collective(every_kind: Instance) -> None:
    instance = with_costs(every_kind.overridden(chunks=4))
    start = schedule_of(instance, "themis+scf")
    annealing = Annealing(start, resizes=True)
    annealing.run(5_000, 2e-2, 5e-4)
    validate(annealing.best())


def test_overhead_of_chunks_is_what_they_hold_the_busiest_dimension_for() -> None:
    """Four launches of 2 us on every dimension: 2 chunks, scattered and gathered; and a header each at 100 GiB/s."""
    assert chunk_overhead(costly("2d-sw_sw", "16 MiB", chunks=2)) == pytest.approx(4 * (2e6 + 30e12 / (100 * 2**30)))
    assert chunk_overhead(themis_opt.load("2d-sw_sw.all_reduce.100MiB")) == 0
