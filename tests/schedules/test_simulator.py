"""Simulation of plans."""

from collections.abc import Callable

import numpy as np
import pytest

from themis_opt.base.errors import CyclicPlan, InputError
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

UNIT = 10**9  # one unit of figure 5, a reduce-scatter of 64 MB on dim1: 1 ms
Run = Callable[[Instance, str], Schedule]


@pytest.mark.parametrize(("policy", "units"), [("baseline+fifo", 8), ("themis+scf", 7), ("themis+fifo", 8)])
def test_figure_5_takes_seven_units_with_themis_and_smallest_chunk_first(
    figure_5: Instance, run: Run, policy: str, units: int
) -> None:
    """Themis (ISCA 2022), sections 4.1 and 4.4, figures 5 and 7."""
    assert run(figure_5, policy).makespan == units * UNIT


def two_dimensions(*collectives: Collective, latency: str = "0 ns") -> Instance:
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1 GB/s", latency=latency)
    network = Network(dimensions=(dimension, dimension))
    return Instance(network=network, collectives=collectives)


def all_to_all(chunks: int = 1, **fields: object) -> Collective:
    """Each chunk of 2000 bytes holds a dimension for 1 us."""
    return Collective(kind=CollectiveKind.ALL_TO_ALL, size=2000 * chunks, chunks=chunks, **fields)


def chunks(*paths: tuple[int, ...]) -> Chunks:
    return Chunks(np.full(len(paths), 2000), np.array(paths))


MICROSECOND = 10**6


@pytest.mark.parametrize(
    ("second", "latency", "rule", "starts"),
    [
        ((0, 1), "0 us", "lag", [0, 1, 1, 2]),
        ((1, 0), "0 us", "lag", [0, 1, 0, 1]),
        ((0, 1), "3 us", "lag", [0, 4, 1, 5]),
        ((0, 1), "3 us", "occupy", [0, 4, 4, 8]),
    ],
    ids=["pipeline", "opposite orders", "beside a lag", "held by a latency"],
)
def test_two_chunks_share_the_dimensions(second: tuple[int, int], latency: str, rule: str, starts: list[int]) -> None:
    instance = two_dimensions(all_to_all(2), latency=latency).replace(latency=rule)
    schedule = simulate(instance, Plan((chunks((0, 1), second),)))
    assert (schedule.start / MICROSECOND).tolist() == starts


def test_the_result_of_a_stage_lags_behind_its_end() -> None:
    schedule = simulate(two_dimensions(all_to_all(), latency="3 us"), Plan((chunks((0, 1)),)))
    assert [(a / MICROSECOND).tolist() for a in (schedule.start, schedule.end, schedule.ready)] == [
        [0, 4],
        [1, 5],
        [4, 8],
    ]


ON_DIM1 = all_to_all(dimensions=("dim1",))


@pytest.mark.parametrize(
    ("instance", "plan", "starts"),
    [
        (
            two_dimensions(all_to_all(), all_to_all(release="5 us")),
            Plan((chunks((0, 1)), chunks((0, 1)))),
            [0, 1, 5, 6],
        ),
        (two_dimensions(ON_DIM1, ON_DIM1), Plan((chunks((0,)), chunks((0,)))), [0, 1]),
        (
            two_dimensions(all_to_all(2)),
            Plan((chunks((0, 1), (0, 1)),), "fifo", (np.array([2, 0]), None)),
            [1, 2, 0, 1],
        ),
        (
            two_dimensions(all_to_all(2)),  # Themis, section 4.6: dim2 waits for chunk 0 although chunk 1 is there
            Plan((chunks((0, 1), (1, 0)),), "fifo", (None, np.array([1, 2]))),
            [0, 1, 2, 3],
        ),
    ],
    ids=["a release", "one dimension for two", "a sequence beats the dispatch rule", "a sequence makes a stage wait"],
)
def test_stages_start_in_turn(instance: Instance, plan: Plan, starts: list[int]) -> None:
    assert (simulate(instance, plan).start / MICROSECOND).tolist() == starts


@pytest.mark.parametrize("specification", ["baseline+lifo", "themis+scf", "random+longest_remaining"])
def test_an_enforced_plan_reproduces_the_schedule(mixed: Instance, run: Run, specification: str) -> None:
    schedule = run(mixed, specification)
    again = simulate(mixed, schedule.enforced_plan())
    assert np.array_equal(again.start, schedule.start)


def test_a_cyclic_plan_is_refused_naming_the_cycle() -> None:
    """Each dimension wants the chunk that visits it second to go first."""
    plan = Plan((chunks((0, 1), (1, 0)),), "fifo", (np.array([3, 0]), np.array([1, 2])))
    with pytest.raises(CyclicPlan) as caught:
        simulate(two_dimensions(all_to_all(2)), plan)
    for stage in ("chunk 0 all_to_all on dim1", "chunk 1 all_to_all on dim1", "chunk 0 all_to_all on dim2"):
        assert f"all_to_all1 {stage}" in str(caught.value)


def test_a_sequence_against_the_path_of_one_chunk_is_cyclic() -> None:
    """The dimension is to gather before it scatters."""
    collective = Collective(kind=CollectiveKind.ALL_REDUCE, size=2000, chunks=1, dimensions=("dim1",))
    with pytest.raises(CyclicPlan, match=r"reduce_scatter on dim1 <- .* all_gather on dim1 <- "):
        simulate(two_dimensions(collective), Plan((chunks((0, 0)),), "fifo", (np.array([1, 0]), None)))


@pytest.mark.parametrize("sequence", [[], [0], [0, 0], [0, 1], [0, 2, 2]])
def test_a_sequence_must_list_each_stage_of_its_dimension_once(sequence: list[int]) -> None:
    plan = Plan((chunks((0, 1), (0, 1)),), "fifo", (np.array(sequence, dtype=np.int64), None))
    with pytest.raises(InputError, match=r"sequences.dim1: must list each of the stages of the resource once"):
        simulate(two_dimensions(all_to_all(2)), plan)


def test_there_must_be_a_sequence_per_dimension() -> None:
    plan = Plan((chunks((0, 1)),), "fifo", (None,))
    with pytest.raises(InputError, match="one entry per dimension"):
        simulate(two_dimensions(all_to_all()), plan)


def test_a_plan_that_could_outlast_the_clock_is_refused() -> None:
    instance = two_dimensions(all_to_all(release="1000000 s"), latency="2000000 s")
    with pytest.raises(InputError, match="clock"):
        simulate(instance, Plan((chunks((0, 1)),)))


def test_stages_shorter_than_a_tick_of_the_clock_keep_their_order() -> None:
    """A few bytes scattered over half a trillion NPUs take less than a picosecond, and hold one."""
    wide = Dimension(kind=Kind.SWITCH, size=2**13, bandwidth="1 TB/s")
    collective = Collective(kind=CollectiveKind.ALL_REDUCE, size=8, chunks=4)
    instance = Instance(network=Network(dimensions=(wide,) * 3), collectives=(collective,))
    schedule = simulate(instance, make_policy("random+lifo")(instance))
    assert schedule.costs.occupancy.min() == 1
    assert simulate(instance, schedule.enforced_plan()).start.tolist() == schedule.start.tolist()


def test_utilisation_is_bytes_over_what_could_have_been_sent(figure_5: Instance, run: Run) -> None:
    """Themis (ISCA 2022), section 6: 2 x 256 MB x 15/16 in 7 ms at 72 GB/s."""
    schedule = run(figure_5, "themis+scf")
    assert schedule.utilisation == pytest.approx(2 * 256e6 * 15 / 16 / (7e-3 * 72e9))


def test_utilisation_ignores_dimensions_that_no_collective_spans() -> None:
    schedule = simulate(two_dimensions(all_to_all(dimensions=("dim2",))), Plan((chunks((1,)),)))
    assert schedule.utilisation == pytest.approx(1)


def test_a_sequence_lists_the_stages_by_start(figure_5: Instance, run: Run) -> None:
    schedule = run(figure_5, "themis+scf")
    starts = schedule.start[schedule.sequence(0)]
    assert (np.diff(starts) > 0).all()


def test_equal_sizes_are_recognised_in_any_order(hetero: Instance, run: Run) -> None:
    instance = hetero.overridden(chunks=3)
    plan = run(instance, "baseline").plan
    backwards = Plan((Chunks(plan.chunks[0].sizes[::-1].copy(), plan.chunks[0].paths),))
    assert simulate(instance, backwards).has_equal_sizes


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 1.5),
        ("reduce_scatter", 0.75),
        ("all_gather", 0.75),
        ("all_to_all", 0.75),
        ("broadcast", 1),
        ("reduce", 1),
    ],
)
def test_bus_bandwidth_has_the_factor_of_nccl_tests(kind: str, factor: float, run: Run) -> None:
    dimension = Dimension(kind=Kind.RING, size=4, bandwidth="1 GB/s")
    collective = Collective(kind=CollectiveKind(kind), size="1 MB", chunks=1)
    schedule = run(Instance(network=Network(dimensions=(dimension,)), collectives=(collective,)), "baseline")
    assert schedule.bus_bandwidth == pytest.approx(factor * schedule.algorithm_bandwidth)
