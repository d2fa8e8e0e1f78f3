"""What holds for every instance and every legal plan."""

from dataclasses import replace

import numpy as np
from hypothesis import given, target
from planning import schedule_of
from strategies import dimensions, enforced_plans, instances, networks, plain_dimensions, schedules

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.schedules.verification import verify
from themis_opt.solving.bounds import bounds

TOLERANCE = 1e-9
FAST_POLICIES = ("baseline+fifo", "themis+fifo", "themis+scf", "random+longest_remaining")
SMALL_NETWORKS = networks(dimensions(max_size=4), max_dimensions=3)


@given(schedules())
def test_simulated_schedules_are_valid(schedule: Schedule) -> None:
    validate(schedule)


@given(schedules())
def test_enforced_plans_repeat_their_schedule(schedule: Schedule) -> None:
    again = simulate(schedule.instance, schedule.enforced_plan())
    for name in ("start", "end", "ready"):
        assert np.array_equal(getattr(again, name), getattr(schedule, name))


@given(SMALL_NETWORKS.flatmap(lambda n: schedules(network=n)))
def test_simulated_schedules_move_all_data(schedule: Schedule) -> None:
    verify(schedule)


@given(SMALL_NETWORKS.flatmap(lambda n: enforced_plans(network=n)))
def test_schedules_of_enforced_plans_move_all_data(enforced: tuple[Instance, Plan]) -> None:
    verify(simulate(*enforced))


@given(schedules())
def test_no_bound_exceeds_a_makespan(schedule: Schedule) -> None:
    for name, bound in bounds(schedule.instance, equal_sizes=schedule.has_equal_sizes).items():
        target(bound / schedule.makespan, label=name)
        assert bound <= schedule.makespan * (1 + TOLERANCE), name


@given(instances())
def test_no_bound_exceeds_the_makespan_of_a_policy(instance: Instance) -> None:
    makespan = min(schedule_of(instance, name).makespan for name in FAST_POLICIES)
    for name, bound in bounds(instance).items():
        assert bound <= makespan * (1 + TOLERANCE), name


@given(schedules())
def test_utilisation_never_exceeds_one(schedule: Schedule) -> None:
    assert 0 < schedule.utilisation <= 1 + TOLERANCE


@given(schedules())
def test_waiting_longer_before_every_release_delays_the_makespan_by_as_much(schedule: Schedule) -> None:
    wait = 1000
    instance = schedule.instance
    later = tuple(c.replace(release=f"{c.release + wait} ps") for c in instance.collectives)
    delayed = simulate(instance.replace(collectives=later), schedule.plan)
    assert delayed.makespan == schedule.makespan + wait


@given(networks(plain_dimensions()).flatmap(lambda n: schedules(network=n, latency="lag", max_chunks=3)))
def test_cutting_every_chunk_in_two_equal_parts_never_takes_longer(schedule: Schedule) -> None:
    """Beyond the picosecond that each stage is rounded up by."""
    instance = schedule.instance
    doubled = instance.replace(
        collectives=tuple(c.replace(size=2 * c.size, chunks=2 * c.chunks) for c in instance.collectives)
    )
    whole = simulate(doubled, _scaled(schedule.enforced_plan(), 2))
    halves = simulate(doubled, _halved(whole.plan))
    assert halves.makespan <= whole.makespan + halves.plan.num_stages


def _scaled(plan: Plan, factor: int) -> Plan:
    return replace(plan, chunks=tuple(Chunks(c.sizes * factor, c.paths) for c in plan.chunks))


def _halved(plan: Plan) -> Plan:
    """Every chunk of an enforced plan in two parts that follow each other everywhere."""
    chunks = tuple(Chunks(np.repeat(c.sizes // 2, 2), np.repeat(c.paths, 2, axis=0)) for c in plan.chunks)
    parts: dict[int, list[int]] = {}
    number = 0
    for offset, whole in zip(plan.offsets, plan.chunks, strict=False):
        num_stages = whole.paths.shape[1]
        for chunk in range(len(whole.paths)):
            for position in range(num_stages):
                parts[offset + chunk * num_stages + position] = [number + position, number + num_stages + position]
            number += 2 * num_stages
    sequences = tuple(
        np.array([p for s in sequence for p in parts[int(s)]], dtype=np.int64) for sequence in plan.sequences
    )
    return Plan(chunks, plan.dispatch, sequences)
