"""Which resource a stage holds, and that no link carries more than its bandwidth in either direction."""

import numpy as np
import pytest
from hypothesis import given
from planning import schedule_of
from strategies import schedules

from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules.schedule import Schedule

GIGABYTE = 10**9


def on_switch(*kinds: str, size: int = 20, chunks: int = 64) -> Instance:
    """Collectives of 1 GB by a switch that sums and copies, at 3 TB/s."""
    switch = Dimension(kind="switch", size=size, bandwidth="3 TB/s", in_network=True, name="chip")
    collectives = [Collective(kind=kind, size=GIGABYTE, chunks=chunks, name=kind) for kind in kinds]
    return Instance(network=Network(dimensions=[switch]), collectives=collectives)


@pytest.mark.parametrize("chunks", [1, 64])
@pytest.mark.parametrize(("kind", "microseconds"), [("all_gather", 316.67), ("reduce_scatter", 333.33)])
def test_one_way_a_switch_that_sums_gains_nothing(kind: str, microseconds: float, chunks: int) -> None:
    problem = on_switch(kind, chunks=chunks)
    schedule = schedule_of(problem, "baseline")
    assert schedule.makespan / 1e6 == pytest.approx(microseconds, abs=0.01)


def test_scatters_of_chunks_overlap_with_gathers_of_others() -> None:
    """m (1 + 1/P) each way, and one stage more."""
    problem = on_switch("all_reduce")
    assert problem.resource_names == ("chip out", "chip in")
    schedule = schedule_of(problem, "baseline")
    assert schedule.makespan / 1e6 == pytest.approx(350 * 65 / 64)


@pytest.mark.parametrize("kinds", [("all_reduce", "all_to_all"), ("broadcast",), ("reduce",), ("all_gather",)])
def test_a_dimension_whose_stages_need_both_directions_or_one_is_one_resource(kinds: tuple[str, ...]) -> None:
    problem = on_switch(*kinds)
    assert problem.ports.is_plain
    assert problem.resource_names == ("chip",)


@given(schedules())
def test_no_link_of_a_switch_that_sums_carries_more_than_its_bandwidth(schedule: Schedule) -> None:
    """Stages send evenly while they hold their dimension; at no moment do rates add up to more, out or in."""
    instance, plan, costs = schedule.instance, schedule.plan, schedule.costs
    dimensions, phases = plan.stage_dimensions, plan.phases(instance)
    uncompressed = costs.sent * np.array([d.compression for d in instance.fabric.dimensions])[dimensions]
    both = zip(phases, costs.held_before, costs.held_after, uncompressed, strict=True)
    out, into = np.array([both_ways(*stage) for stage in both]).T
    for k, dimension in enumerate(instance.fabric.dimensions):
        here = np.flatnonzero((dimensions == k) & (schedule.end > schedule.start))
        moments = schedule.start[here]
        under_way = (schedule.start[here] <= moments[:, None]) & (moments[:, None] < schedule.end[here])
        for sizes in (out, into) if dimension.in_network else ():
            rates = sizes[here] / (schedule.end - schedule.start)[here] * PICOSECONDS_PER_SECOND
            most = (under_way @ rates).max(initial=0.0)
            assert most / dimension.compression <= dimension.bandwidth * (1 + 1e-9)


def both_ways(phase: int, before: float, after: float, sent: float) -> tuple[float, float]:
    """Bytes that an NPU sends and receives in a stage; where the switch does not sum or copy, as many both ways."""
    rule = Phase(phase).rule
    if not rule.in_network:
        return sent, sent
    return (before, after) if rule.data is Data.SHRINK else (before, after - before)
