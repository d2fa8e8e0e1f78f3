"""Chunks of few elements: a schedule that no whole number of larger units gives."""

from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.orders import MoveElements, moves_of_elements
from themis_opt.search.start import usual_schedule
from themis_opt.search.table import STEPS

RAILS = [
    {"name": "r0", "bandwidth": "1 GB/s", "extra_launch_overhead": "500 ns"},
    {"name": "r1", "bandwidth": "2 GB/s", "extra_latency": "100 ns"},
]

COARSE = Instance.model_validate(
    {
        "network": {
            "dimensions": [
                {"kind": "fully_connected", "size": 2, "latency": "12345 ps", "rails": RAILS, "in_network": True}
                | {"algorithm": "ring"},
                {"kind": "switch", "size": 2, "latency": "1.7 us", "bandwidth": "1 GB/s", "in_network": True}
                | {"packet": {"payload": 65536, "header": 30}},
            ]
        },
        "collectives": [{"kind": "reduce", "size": 8_000_000, "chunks": 4, "element_bytes": 1_000_000}],
        "ag_order": "free",
    }
)
"""Eight elements in four chunks."""


def test_single_elements_move_where_chunks_have_few() -> None:
    start = usual_schedule(COARSE)
    incumbent = Incumbent(Limits(5, workers=1, deterministic=True), start, free_sizes=True)
    assert MoveElements() in STEPS
    assert MoveElements().applies(incumbent)
    MoveElements().run(incumbent)
    assert start.plan.chunks[0].sizes.tolist() == 4 * [2_000_000]
    assert sorted(incumbent.best.plan.chunks[0].sizes.tolist()) == [1_000_000, 1_000_000, 2_000_000, 4_000_000]
    assert incumbent.best.makespan < 0.94 * start.makespan


def test_a_move_takes_one_element_and_keeps_all_bytes() -> None:
    (first,) = moves_of_elements(usual_schedule(COARSE))
    assert sorted(first[0].tolist()) == [1_000_000, 2_000_000, 2_000_000, 3_000_000]


def test_fine_and_equal_chunks_stay() -> None:
    fine = COARSE.replace(collectives=(COARSE.collectives[0].replace(element_bytes=2),))
    for instance, free_sizes in ((fine, True), (COARSE, False)):
        incumbent = Incumbent(Limits(1), usual_schedule(instance), free_sizes=free_sizes)
        assert not MoveElements().applies(incumbent)


def test_elements_of_one_collective_move_at_a_time() -> None:
    one = COARSE.collectives[0]
    both = COARSE.replace(collectives=(one.replace(name="first"), one.replace(name="second", size=9_000_000)))
    schedule = usual_schedule(both)
    before = [chunks.sizes for chunks in schedule.plan.chunks]
    moves = list(moves_of_elements(schedule))
    assert {sum(not (a == b).all() for a, b in zip(before, after, strict=True)) for after in moves} == {1}
    assert all([sizes.sum() for sizes in after] == [8_000_000, 9_000_000] for after in moves)
