"""Iterations that are solved by hand, and what a schedule says of them."""

import numpy as np
import pytest
from small_iterations import FOUR_TASKS, PAIR, iteration, microseconds, run, tensor, two_layers

import themis_opt
from themis_opt.base.errors import CyclicPlan, InputError
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

FIFO = "baseline+fifo"


def test_a_fused_all_reduce_is_fully_exposed() -> None:
    """Forward 10, backward 20, all-reduce 7, update 5 us."""
    gradients = [tensor("gradients", 7, "backward", "update")]
    schedule = run(iteration({"forward": 10, "backward": 20, "update": 5}, gradients), f"fused/{FIFO}")
    assert microseconds(schedule.makespan) == 42
    assert microseconds(schedule.period.exposed) == 7


def test_gradients_of_a_layer_hide_behind_the_backward_pass_of_the_next() -> None:
    assert microseconds(run(two_layers(), f"wait_free/{FIFO}").makespan) == 40 + 4


def test_lags_delay_results_but_not_other_stages() -> None:
    """Two stages of one step each: an all-reduce of 7 us takes 2 us more."""
    network = {"dimensions": [PAIR | {"latency": "1 us"}]}
    gradients = [tensor("gradients", 7, "backward", "forward")]
    instance = iteration({"forward": 10, "backward": 20}, gradients, network=network)
    assert microseconds(run(instance, f"fused/{FIFO}").period.exposed) == 9


def test_a_tensor_needed_in_the_same_iteration_blocks_the_task() -> None:
    blocking = [tensor("activations", 6, "forward", "backward", parallelism="model")]
    schedule = run(iteration({"forward": 10, "backward": 20}, blocking), f"fused/{FIFO}")
    assert microseconds(schedule.makespan) == 36
    assert np.diff(schedule.task_start[:, 1]).tolist() == [36_000_000] * 3


def test_priority_serves_first_what_an_urgent_tensor_waits_for() -> None:
    """Sums and their message take 9 us, in front of gradients that are ready as soon and needed as late as the sums."""
    tensors = [
        tensor("gradients", 6, "work", "work"),
        tensor("sums", 4, "work", "work"),
        tensor("message", 5, "work", "next", after=["sums"]),
    ]
    instance = iteration({"work": 10.0, "next": 10.0}, tensors)
    assert microseconds(run(instance, f"priority/{FIFO}").makespan) == 10 + 9 + 10


LARGE_BEHIND_SMALL = two_layers(18, 60, "reduce_scatter", chunks=3)
"""The network takes 30 us for the second layer, in three chunks, and 9 us for the first."""


def test_first_come_first_served_lets_the_next_forward_pass_wait_for_the_last_layer() -> None:
    """The second layer holds the network from 30 to 60, then comes the first."""
    assert microseconds(run(LARGE_BEHIND_SMALL, f"wait_free/{FIFO}").makespan) == 69


def test_priority_serves_the_layer_that_is_needed_first() -> None:
    """At 50 the first layer overtakes two chunks of the second, which forward2 then waits for."""
    schedule = run(LARGE_BEHIND_SMALL, f"priority/{FIFO}")
    assert microseconds(schedule.makespan) == 59
    assert schedule.period.is_steady


def test_all_to_all_overtakes_every_other_collective() -> None:
    """It waits for one chunk of 10 us, not for three."""
    tensors = [
        tensor("gradients", 60, "first", "first", kind="reduce_scatter"),
        tensor("tokens", 8, "second", "third", kind="all_to_all", parallelism="model"),
    ]
    instance = iteration({"first": 1, "second": 5, "third": 1}, tensors, chunks=3)
    schedule = run(instance, f"fused:order=layer/{FIFO}")
    launches = [launch.name for launch in schedule.plan.launches]
    assert microseconds(schedule.period.launch_ready[0, launches.index("tokens")]) == 11 + 4
    assert microseconds(schedule.period.launch_ready[0, launches.index("gradients")]) == 1 + 30 + 4


def test_the_newest_launch_can_go_first() -> None:
    """Three chunks of 10 us each; 9 us of the newer launch go before the second of them."""
    schedule = run(LARGE_BEHIND_SMALL, f"wait_free:order=newest/{FIFO}")
    names = [launch.name for launch in schedule.plan.launches]
    assert microseconds(schedule.period.launch_ready[0, names.index("gradients1")]) == 49


def test_iterations_are_added_until_they_repeat_each_other() -> None:
    schedule = run(two_layers(), f"wait_free/{FIFO}")
    assert schedule.period.is_steady
    assert len(set(np.diff(schedule.task_start[1:, 0]).tolist())) == 1


@pytest.fixture(scope="module")
def alternating() -> Schedule:
    """Stages of two iterations take turns on one resource, so that every second period is longer."""
    scattered = [tensor("t", 2000, "first", "second", kind="reduce_scatter", needed_in="next", parallelism="model")]
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["inner", "outer"], "shared": True}
    network = {"dimensions": [PAIR | {"size": 4}]}
    instance = iteration({"first": 0, "second": 0}, scattered, network=network, splits=[split])
    return run(instance, "fused/themis+fifo")


def test_the_longest_period_counts_where_iterations_alternate(alternating: Schedule) -> None:
    assert not alternating.period.is_steady
    assert alternating.makespan == np.diff(alternating.task_start[:, 0])[-8:].max()


def test_utilisation_is_a_mean_where_iterations_alternate(alternating: Schedule) -> None:
    assert 0.9 < alternating.utilisation <= 1


def test_tensors_that_arrive_later_and_later_count_before_they_stop_a_task() -> None:
    """Its 101 us per iteration of 100 us hide behind the next forward pass for 98 iterations."""
    late = [tensor("gradients", 101, "first", "last", needed_in="next")]
    schedule = run(iteration({"first": 1, "middle": 98, "last": 1}, late), f"priority/{FIFO}")
    assert not schedule.period.is_steady
    assert microseconds(schedule.makespan) == 101
    assert schedule.utilisation == pytest.approx(1)


@pytest.mark.parametrize(("shared", "expected"), [(False, 10 + 6), (True, 10 + 6 + 6)])
def test_shared_parts_of_a_dimension_take_turns(shared: bool, expected: float) -> None:
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["inner", "outer"], "shared": shared}
    tensors = [
        tensor("a", 6, "work", "work", dimensions=["inner"]),
        tensor("b", 6, "work", "work", dimensions=["outer"]),
    ]
    instance = iteration({"work": 10}, tensors, network={"dimensions": [PAIR | {"size": 4}]}, splits=[split])
    assert microseconds(run(instance, f"fused/{FIFO}").makespan) == expected


@pytest.mark.parametrize("launching", ["wait_free", "priority", "dear:threshold=1MB", "ddp"])
@pytest.mark.parametrize("chunk_policy", [FIFO, "themis+scf", "hourglass"])
def test_enforcing_the_sequences_of_a_schedule_repeats_it(launching: str, chunk_policy: str) -> None:
    schedule = run(two_layers(3000, 7000, dimensions=2, chunks=4), f"{launching}/{chunk_policy}")
    enforced = schedule.enforced_plan()
    assert simulate(schedule.instance, enforced).makespan == schedule.makespan


def test_sequences_that_wait_for_each_other_are_refused() -> None:
    schedule = run(two_layers(), f"wait_free/{FIFO}")
    plan = schedule.enforced_plan()
    (sequence,) = plan.sequences
    with pytest.raises(CyclicPlan, match="wait for each other"):
        simulate(schedule.instance, plan.enforcing((sequence[::-1],), plan.shifts))


def test_waits_count_for_the_parallelism_of_the_tensor_waited_for() -> None:
    tensors = [
        tensor("activations", 6, "forward", "backward", parallelism="model"),
        tensor("gradients", 7, "backward", "forward"),
    ]
    schedule = run(iteration({"forward": 10, "backward": 20}, tensors), f"fused/{FIFO}")
    assert microseconds(schedule.period.exposed_by("model")) == 6
    assert microseconds(schedule.period.exposed_by("data")) == 7


@pytest.mark.parametrize("specification", ["fused/themis+scf", "wait_free/hourglass", "priority/baseline+fifo"])
def test_waits_of_all_kinds_add_up_to_the_exposed_time(specification: str) -> None:
    instance = themis_opt.load("2d-sw_sw.dlrm")
    assert isinstance(instance, Instance)
    schedule = run(instance, specification)
    assert schedule.period.exposed_by("data") + schedule.period.exposed_by("model") == schedule.period.exposed > 0


def test_communication_counts_once_where_collectives_overlap() -> None:
    """Both dimensions are busy from 30 to 40, and the network carries the first layer until 44."""
    schedule = run(two_layers(), f"wait_free/{FIFO}")
    assert microseconds(schedule.period.communicating) == 14


def test_overlap_is_the_hidden_share_of_communication() -> None:
    assert run(two_layers(), f"wait_free/{FIFO}").period.overlap == pytest.approx(1 - 4 / 14)


def test_one_chunk_uses_one_of_two_dimensions_at_a_time() -> None:
    assert run(two_layers(dimensions=2), f"fused/{FIFO}").utilisation == pytest.approx(0.5)


def test_dimensions_without_tensors_do_not_count_as_idle() -> None:
    gradients = [tensor("gradients", 7, "backward1", "forward1", dimensions=["dim2"])]
    assert run(iteration(FOUR_TASKS, gradients, dimensions=2), f"fused/{FIFO}").utilisation == pytest.approx(1)


def test_iterations_longer_than_the_clock_are_refused() -> None:
    instance = iteration({"work": 10}, [tensor("t", 4, "work", "work")])
    long = instance.replace(
        iteration=instance.iteration.replace(tasks=({"name": "work", "duration": "1000000 s"},)).model_dump(mode="json")
    )
    with pytest.raises(InputError, match="more than the clock holds"):
        run(long, f"fused/{FIFO}")


def test_a_tensor_longer_than_the_clock_is_refused() -> None:
    with pytest.raises(InputError, match="the clock holds"):
        run(iteration({"work": 10}, [tensor("t", 10**12, "work", "work")]), f"fused/{FIFO}")
