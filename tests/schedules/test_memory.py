"""What an NPU holds over time, by hand, and the limit that an instance sets."""

import pytest
from sharded_iterations import sharded
from small_iterations import MICROSECOND, run, two_layers

from themis_opt.base.errors import InvalidSchedule
from themis_opt.problem.instance import Instance
from themis_opt.schedules.memory import memory_curves
from themis_opt.schedules.schedule import Schedule

POLICY = "wait_free/baseline"


def with_task(instance: Instance, name: str, **changes: object) -> Instance:
    document = instance.model_dump(mode="json", exclude_unset=True)
    for task in document["iteration"]["tasks"]:
        if task["name"] == name:
            task.update(changes)
    return Instance.model_validate(document)


def one_period(schedule: Schedule) -> list[tuple[float, float]]:
    """Microseconds from the begin of an iteration, and kB held from then on."""
    begin, end = schedule.task_start[-2:, 0].tolist()
    (curve,) = memory_curves(schedule)
    pairs = zip(curve.time.tolist(), curve.held.tolist(), strict=True)
    return [((time - begin) / MICROSECOND, held / 1000) for time, held in pairs if begin <= time < end]


def test_gathers_are_held_from_launch_to_use_and_gradients_until_they_are_scattered() -> None:
    schedule = run(sharded(8, 8), POLICY)
    assert schedule.makespan == 48 * MICROSECOND
    # Both gathers leave when the iteration ends, 4 us before the next forward pass, which waits for the first.
    assert one_period(schedule) == [(10, 16), (20, 24), (30, 24), (34, 16), (40, 8), (44, 16)]


def test_parameters_and_activations_are_held_too() -> None:
    instance = with_task(sharded(8, 8), "forward1", activation_bytes="3 kB", freed_after="backward1")
    schedule = run(with_task(instance, "update1", parameter_bytes="1 kB"), POLICY)
    assert one_period(schedule) == [(0, 20), (10, 20), (20, 28), (30, 28), (34, 20), (40, 9), (44, 17)]


def test_activations_are_given_up_at_the_end_of_their_task_if_nothing_else_is_said() -> None:
    schedule = run(with_task(sharded(8, 8), "forward1", activation_bytes="3 kB"), POLICY)
    assert one_period(schedule)[:2] == [(0, 19), (10, 16)]


def test_all_reduced_gradients_are_held_in_place() -> None:
    assert run(two_layers(), POLICY).memory_peak == 0


@pytest.mark.parametrize(("memory", "is_enough"), [("24 kB", True), ("23999 B", False)])
def test_a_schedule_above_the_limit_is_refused(memory: str, is_enough: bool) -> None:
    instance = sharded(8, 8, memory=memory)
    if is_enough:
        assert run(instance, POLICY).fits
        return
    with pytest.raises(InvalidSchedule, match=r"an NPU holds 24 kB at .*, may hold 23999 B") as caught:
        run(instance, POLICY)
    assert caught.value.rule == "memory"


def test_collectives_alone_have_no_memory() -> None:
    document = {"network": two_layers().network, "collectives": [{"kind": "all_gather", "size": 128}], "memory": 9}
    with pytest.raises(ValueError, match="memory"):
        Instance.model_validate(document)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "all_reduce", "freed_after": "forward1"}, "freed_after is for an all_gather"),
        ({"kind": "all_gather", "freed_after": "nowhere"}, "freed_after names 'nowhere', there is no such task"),
    ],
)
def test_what_is_given_up_is_gathered_and_used(fields: dict[str, str], message: str) -> None:
    document = two_layers().model_dump(mode="json", exclude_unset=True)
    document["iteration"]["tensors"][0].update(fields)
    with pytest.raises(ValueError, match=message):
        Instance.model_validate(document)
