"""The search for schedules of training iterations, step by step of its table."""

from typing import Any

import pytest
from layered_iterations import layers, scheduled
from samples import every
from small_iterations import iteration, microseconds, tensor

from formulations.limits import Limits
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import take_turns
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.table import PERIOD_STEPS
from themis_opt.solving.bounds import bounds


def searched(
    instance: Instance, seconds: float = 0.1, *, start: Schedule | None = None, without: str = "nothing"
) -> Incumbent:
    """What the steps, those of an engine left out, make of a schedule in some seconds of work."""
    limits = Limits(seconds=seconds, workers=1, deterministic=True)
    incumbent = Incumbent(limits, start or scheduled(instance, "fused"), max(bounds(instance).values()))
    take_turns(incumbent, [step for step in PERIOD_STEPS if step.engine != without])
    return incumbent


@pytest.mark.parametrize("launching", every(4, LAUNCHING))
@pytest.mark.parametrize("rules", [{"ag_order": "reverse"}, {"latency": "occupy", "chunks": 5}])
def test_the_search_is_legal_no_worse_than_its_start_and_no_faster_than_its_bounds(
    launching: str, rules: dict[str, Any]
) -> None:
    start = scheduled(layers(4, **rules), launching)
    incumbent = searched(start.instance, start=start)
    validate(incumbent.best)
    assert incumbent.bound <= incumbent.best.makespan <= start.makespan


def test_the_search_is_better_than_every_policy_where_these_expose_communication() -> None:
    instance = layers(5, task=50)
    best = min(scheduled(instance, launching).makespan for launching in LAUNCHING)
    assert searched(instance, 1.0).best.makespan < best


def test_collectives_that_compute_hides_are_proven_optimal() -> None:
    """All but that of the first layer, which nothing hides."""
    plain = layers(3, task=1000)
    instance = plain.replace(iteration=plain.iteration.replace(tensors=plain.iteration.tensors[1:]))
    incumbent = searched(instance)
    assert incumbent.best.makespan == incumbent.bound == instance.compute


def test_launches_that_are_fastest_only_if_a_resource_waits_are_tried() -> None:
    """One launch takes 80 us; two take 81 us, and 74 us where the gather of the first one waits for the second one."""
    pair = {"kind": "switch", "size": 2, "bandwidth": "10 GB/s", "latency": "1 us", "launch_overhead": "4 us"}
    tensors = [tensor("g0", 120, "b0", "f0"), tensor("g1", 60, "b1", "f1")]
    tasks = {"f0": 14.0, "f1": 15.0, "b1": 14.0, "b0": 9.0}
    instance = iteration(tasks, tensors, network={"dimensions": [pair | {"algorithm": "ring"}]}, latency="occupy")
    best = searched(instance, 1.0).best
    validate(best)
    assert (microseconds(best.makespan), len(best.plan.launches)) == (74.0, 2)


def test_annealing_improves_what_launches_and_groups_leave() -> None:
    instance = layers(6, size=8 * 2**20, chunks=4)
    start = searched(instance, 0.3, without="annealing")
    better = searched(instance, 0.3)
    assert better.best.makespan - better.bound < (start.best.makespan - start.bound) / 2
