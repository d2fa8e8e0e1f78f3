"""Verification on data: sound schedules pass, corrupted ones are refused with the rule ``data``."""

from dataclasses import replace

import numpy as np
import pytest

from themis_opt.base.errors import InvalidSchedule
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.random_orders import RandomOrders
from themis_opt.policies.themis import Themis
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.verification import verify

RING = Dimension(kind=Kind.RING, size=3, bandwidth="100 GB/s", latency="500 ns")
DIRECT = Dimension(kind=Kind.FULLY_CONNECTED, size=4, bandwidth="50 GB/s", latency="500 ns")
SWITCH = Dimension(kind=Kind.SWITCH, size=6, bandwidth="25 GB/s", latency="500 ns")
LINE = Dimension(kind=Kind.LINE, size=5, bandwidth="25 GB/s", latency="500 ns")
GRID = Dimension(kind=Kind.MESH2D, size=6, bandwidth="25 GB/s", latency="500 ns")
NETWORKS = {
    "one dimension": (SWITCH,),
    "every algorithm": (RING, DIRECT, SWITCH),
    "powers of two": (RING.replace(size=4), DIRECT, SWITCH.replace(size=8)),
    "four dimensions": (RING, DIRECT.replace(size=2), SWITCH.replace(size=5), RING.replace(size=2)),
    "in-network reduction": (RING, SWITCH.replace(in_network=True)),
    "mesh": (LINE, LINE.replace(size=2), LINE.replace(size=4)),
    "line and others": (RING, LINE, DIRECT),
    "grids": (GRID, SWITCH, GRID.replace(size=4)),
    "compression": (RING, DIRECT.replace(compression=1.7)),
}


def instance_of(
    *dimensions: Dimension, kinds: tuple[CollectiveKind, ...] = (CollectiveKind.ALL_REDUCE,), **fields
) -> Instance:
    collectives = tuple(Collective(kind=kind, size="1 MiB", **{"chunks": 8, **fields}) for kind in kinds)
    return Instance(network=Network(dimensions=dimensions), collectives=collectives)


def schedule_of(instance: Instance, *paths: tuple[int, ...]) -> Schedule:
    """The schedule of a collective in which every chunk has its path."""
    sizes = equal_sizes(replace(instance.exchanges[0], max_chunks=len(paths)))
    return simulate(instance, Plan((Chunks(sizes, np.array(paths)),)))


def with_starts_swapped(schedule: Schedule, one: int, other: int) -> Schedule:
    start = schedule.start.copy()
    start[[one, other]] = start[[other, one]]
    return replace(schedule, start=start)


def refusal(schedule: Schedule) -> str:
    with pytest.raises(InvalidSchedule) as caught:
        verify(schedule)
    assert caught.value.rule == "data"
    return caught.value.detail


@pytest.mark.parametrize("dimensions", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("kind", CollectiveKind)
def test_random_orders_move_the_data_of_every_collective(
    kind: CollectiveKind, dimensions: tuple[Dimension, ...]
) -> None:
    instance = instance_of(*dimensions, kinds=(kind,))
    verify(simulate(instance, RandomOrders()(instance)))


@pytest.mark.parametrize("policy", [Baseline(), Themis(), Themis(dispatch="scf")])
def test_the_schedules_of_the_policies_pass(policy) -> None:
    instance = instance_of(RING, DIRECT, SWITCH, kinds=tuple(CollectiveKind))
    verify(simulate(instance, policy(instance)))


@pytest.mark.parametrize("gather_order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_all_gather_need_not_reverse_the_order_of_reduce_scatter(gather_order: tuple[int, ...]) -> None:
    verify(schedule_of(instance_of(RING, DIRECT, SWITCH), (0, 1, 2, *gather_order)))


@pytest.mark.parametrize("kind", CollectiveKind)
def test_a_collective_on_some_of_the_dimensions_passes(kind: CollectiveKind) -> None:
    instance = instance_of(
        RING.replace(name="x"), DIRECT.replace(name="y"), SWITCH.replace(name="z"), kinds=(kind,), dimensions=("z", "x")
    )
    report = verify(simulate(instance, RandomOrders()(instance)))
    assert report.sizes == ((3, 6),)


@pytest.mark.parametrize("kind", CollectiveKind)
def test_a_large_network_is_run_on_smaller_dimensions(kind: CollectiveKind) -> None:
    instance = instance_of(RING.replace(size=15), DIRECT.replace(size=32), SWITCH.replace(size=12), kinds=(kind,))
    report = verify(simulate(instance, RandomOrders()(instance)))
    assert (report.reduced, report.sizes, report.num_npus) == (True, ((3, 2, 3),), 18)


def test_a_large_grid_is_run_on_a_smaller_grid() -> None:
    instance = instance_of(GRID.replace(size=300), RING, kinds=(CollectiveKind.ALL_TO_ALL,))
    report = verify(simulate(instance, RandomOrders()(instance)))
    assert (report.reduced, report.sizes) == (True, ((6, 3),))


def test_collectives_of_one_kind_and_span_share_their_paths() -> None:
    instance = instance_of(RING, DIRECT, kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_REDUCE))
    assert verify(simulate(instance, Baseline()(instance))).num_paths == 1


def without_start(schedule: Schedule) -> Schedule:
    return replace(schedule, start=schedule.start[:-1])


TWO = instance_of(RING, DIRECT)
WHOLE = schedule_of(TWO, (0, 1, 1, 0))
SCATTER = instance_of(RING, DIRECT, kinds=(CollectiveKind.REDUCE_SCATTER,))
ON_X = instance_of(RING.replace(name="x"), DIRECT, kinds=(CollectiveKind.ALL_GATHER,), dimensions=("x",))


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (
            with_starts_swapped(WHOLE, 1, 2),
            "all_reduce1 chunk 0: all_gather on dim2 finds 4 of 4 blocks along it on every NPU",
        ),
        (with_starts_swapped(WHOLE, 0, 1), "reduce_scatter on dim2 takes every NPU 9 blocks"),
        (schedule_of(TWO, (0, 1, 1, 0), (0, 0, 1, 0)), "chunk 1: reduce_scatter on dim1 finds 1 of 3 blocks"),
        (schedule_of(TWO, (1, 1)), "NPU (0, 0) ends with a wrong block (0, 0)"),
        (schedule_of(SCATTER, (0,)), "NPU (0, 0) ends with (1, 4) blocks"),
        (schedule_of(ON_X, (1,)), "leaves the dimensions"),
        (without_start(WHOLE), "3 start times for 4 stages"),
    ],
    ids=["gather before scatter", "another order", "twice", "left out", "no scatter", "outside", "a time too few"],
)
def test_wrong_data_are_refused(schedule: Schedule, words: str) -> None:
    assert words in refusal(schedule)


def test_the_detail_names_the_collective_and_the_corrupted_chunk() -> None:
    instance = instance_of(RING, DIRECT, name="gradients")
    schedule = simulate(instance, Baseline()(instance))
    assert refusal(with_starts_swapped(schedule, 4 * 3, 4 * 3 + 3)).startswith("gradients chunk 3: ")


def test_a_missing_last_gather_of_an_all_reduce_is_refused() -> None:
    schedule = schedule_of(instance_of(RING, DIRECT), (0, 1, 1, 0))
    (chunks,) = schedule.plan.chunks
    plan = Plan((Chunks(chunks.sizes, chunks.paths[:, :-1].copy()),))
    shorter = replace(schedule, plan=plan, start=schedule.start[:-1], end=schedule.end[:-1], ready=schedule.ready[:-1])
    assert "3 stages" in refusal(shorter)


def test_a_cost_model_that_counts_other_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = schedule_of(instance_of(RING, DIRECT), (0, 1, 1, 0))
    monkeypatch.setattr("themis_opt.schedules.verification.steps", lambda dimension, phase: 9)
    assert "the cost model counts" in refusal(schedule)
