"""The steps that prove, cell by cell: bounds hold, schedules improve, time is kept, runs are repeatable."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from planning import schedule_of

from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.schedules.incumbent import Step
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.refuter import RefuteCounts, usual_oracles
from themis_opt.search.start import starting_schedule
from themis_opt.solving.bounds import bounds
from themis_opt.solving.makespan_bounds import chunk_counts

GAP = 0.01


def problem(
    kind: str = "all_reduce", chunks: int = 4, launch: str = "0 us", dimensions: int = 2, order: str = "free"
) -> Instance:
    """4 MiB on dimensions of which each is a quarter as fast as the one before."""
    network = [
        {"kind": "switch", "size": 4, "bandwidth": f"{100 / 4**k} GB/s", "latency": "5 us", "launch_overhead": launch}
        for k in range(dimensions)
    ]
    collectives = [{"kind": kind, "size": "4 MiB", "chunks": chunks}]
    return Instance.model_validate({"network": {"dimensions": network}, "collectives": collectives, "ag_order": order})


COSTLY = problem(launch="10 us")


class Heard(list[tuple[float, float]]):
    """What was reported."""

    def __call__(self, makespan: float, bound: float) -> None:
        self.append((makespan, bound))


def known(instance: Instance, free_sizes: bool, seconds: float, heard: Heard | None = None) -> Incumbent:
    """An incumbent with a poor schedule and the bounds that are there at once."""
    bound = max(bounds(instance, equal_sizes=not free_sizes).values())
    start = schedule_of(instance, "baseline+fifo")
    limits = Limits(seconds=seconds, workers=1, gap=GAP, deterministic=True)
    return Incumbent(limits, start, bound, heard or Heard(), free_sizes=free_sizes)


def test_never_worse_and_bounds_hold() -> None:
    heard, step = Heard(), RefuteCounts()
    incumbent = known(COSTLY, True, 1.0, heard)
    ratio = incumbent.best.makespan / incumbent.bound
    assert step.applies(incumbent)
    step.run(incumbent)
    assert 1 <= incumbent.best.makespan / incumbent.bound < ratio
    assert incumbent.bound <= starting_schedule(COSTLY).makespan
    assert all(one[0] >= other[0] and one[1] <= other[1] for one, other in pairwise(heard))
    validate(incumbent.best)


def test_no_time_proves_next_to_nothing() -> None:
    """A list of cells that is not complete is not taken for all of them, either."""
    incumbent = known(COSTLY, True, 1e-9)
    RefuteCounts().run(incumbent)
    assert incumbent.bound <= 1.001 * max(bounds(COSTLY, equal_sizes=False).values())


def of_one_chunk(instance: Instance) -> list[Schedule]:
    """All schedules of one chunk."""
    size, orders = np.array([instance.exchanges[0].size]), list(permutations(range(len(instance.network.dimensions))))
    return [
        simulate(instance, Plan((Chunks(size, np.array([[*scatter, *gather]])),)))
        for scatter, gather in product(orders, orders)
    ]


def test_one_chunk_is_a_number_of_chunks() -> None:
    """It is best where launches on one dimension take longest, and the bound never exceeds it."""
    slow, fast = problem(launch="900 us").network.dimensions[0], problem().network.dimensions[1]
    instance = problem(chunks=3).replace(network=Network(dimensions=(slow, fast)))
    schedules = sorted(of_one_chunk(instance), key=lambda schedule: schedule.makespan)
    limits = Limits(seconds=1.0, workers=1, gap=0.0, deterministic=True)
    incumbent = Incumbent(limits, schedules[-1], free_sizes=True)
    RefuteCounts().run(incumbent)
    assert incumbent.bound <= schedules[0].makespan < schedules[-1].makespan


def test_filling_the_pipeline_is_seen() -> None:
    """What is proven is above what launches and bytes alone do, and below what fast policies reach with any number."""
    instance = problem(launch="10 us", chunks=6)
    incumbent = known(instance, True, 1.0)
    at_once = incumbent.bound
    RefuteCounts().run(incumbent)
    assert incumbent.bound > 1.01 * at_once
    for count in range(1, 7):
        assert starting_schedule(problem(launch="10 us", chunks=count)).makespan >= incumbent.bound


def test_where_chunks_cost_little_nothing_is_proven() -> None:
    incumbent = known(problem(launch="1 ns", chunks=64), True, 1.0)
    at_once = incumbent.bound
    RefuteCounts().run(incumbent)
    assert incumbent.bound == at_once


def applies(step: Step, instance: Instance, free_sizes: bool) -> bool:
    schedule = schedule_of(instance, "baseline")
    return step.applies(Incumbent(Limits(), schedule, free_sizes=free_sizes))


@pytest.mark.parametrize(
    ("step", "instance", "free_sizes", "expected"),
    [
        (RefuteCounts(), problem(launch="1 us"), True, True),
        (RefuteCounts(), problem(launch="1 us"), False, False),
        (RefuteCounts(), problem(), True, False),
        (RefuteCounts(), problem(launch="1 us", dimensions=1), True, False),
    ],
)
def test_steps_apply_where_they_help(step: Step, instance: Instance, free_sizes: bool, expected: bool) -> None:
    assert applies(step, instance, free_sizes) is expected


@pytest.mark.parametrize(
    ("dimensions", "names"),
    [
        (2, ["LoadsOracle", "TreeOracle"]),
        (6, ["LoadsOracle", "TreeOracle"]),
        (7, ["LoadsOracle"]),
        (8, []),
    ],
)
def test_fast_oracles_are_asked_where_their_tables_are_small(dimensions: int, names: list[str]) -> None:
    instance = problem(dimensions=dimensions)
    oracles = usual_oracles(instance, chunk_counts(instance), 4, 1e12)
    assert [type(oracle).__name__ for oracle in oracles] == names
