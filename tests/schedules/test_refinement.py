"""Gathers that are the scatters backwards."""

from collections.abc import Callable

import numpy as np
import pytest

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.refinement import mirrored
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_a_mirrored_plan_takes_no_more_than_twice_its_scatters(
    hetero: Instance, run: Callable[[Instance, str], Schedule], ag_order: str
) -> None:
    """But for the latency of a step between both halves."""
    schedule = run(hetero.overridden(chunks=8, ag_order=ag_order), "themis+scf")
    plan = mirrored(schedule)
    both = simulate(schedule.instance, plan)
    validate(both)
    (chunks,) = plan.chunks
    assert np.array_equal(chunks.paths, chunks.paths[:, ::-1])
    scatter = schedule.end.reshape(8, 2, -1)[:, 0].max()
    assert both.makespan <= 2 * scatter + 40 * max(d.latency for d in hetero.network.dimensions)


def test_mirroring_is_for_one_all_reduce_alone(
    hetero: Instance, mixed: Instance, run: Callable[[Instance, str], Schedule]
) -> None:
    (exchange,) = hetero.collectives
    gather = hetero.replace(collectives=(exchange.replace(kind=CollectiveKind.ALL_GATHER),))
    for instance in (gather, mixed, themis_opt.load("2d-sw_sw.resnet-50")):
        assert mirrored(run(instance, "baseline+fifo")) is None
