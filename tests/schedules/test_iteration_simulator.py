"""Iterations that are solved by hand, and what a schedule says of them."""

import numpy as np
import pytest
from small_iterations import FOUR_TASKS, PAIR, iteration, microseconds, run, tensor, two_layers

import themis_opt
from themis_opt.base.errors import CyclicPlan, InputError
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate

FIFO = "baseline+fifo"

LARGE_BEHIND_SMALL = two_layers(18, 60, "reduce_scatter", chunks=3)
"""The network takes 30 us for the second layer, in three chunks, and 9 us for the first."""

BESIDE = tensor("gradients", 7, "backward1", "forward1", dimensions=["dim2"])

FUSED = iteration({"forward": 10, "backward": 20, "update": 5}, [tensor("gradients", 7, "backward", "update")])

SUMS = [
    tensor("gradients", 6, "work", "work"),
    tensor("sums", 4, "work", "work"),
    tensor("message", 5, "work", "next", after=["sums"]),
]
"""Sums and their message take 9 us, in front of gradients that are ready as soon and needed as late as the sums."""


@pytest.mark.parametrize(
    ("instance", "launching", "compute", "exposed"),
    [
        pytest.param(FUSED, "fused", 10 + 20 + 5, 7, id="all of an all-reduce"),
        pytest.param(two_layers(), "wait_free", 40, 4, id="the first layer, as the second hides"),
        pytest.param(two_layers(4, 30), "ddp:first_cap=1B:cap=1B", 40, 20 + 4, id="all beyond the backward pass"),
        pytest.param(two_layers(10, 10), "dear:threshold=1B", 40, 5 + 5, id="the last scatter and the first gather"),
        pytest.param(LARGE_BEHIND_SMALL, "wait_free", 40, 29, id="the first layer behind 30 to 60 of the second"),
        pytest.param(LARGE_BEHIND_SMALL, "priority", 40, 19, id="two chunks that the first layer overtakes at 50"),
        pytest.param(iteration({"work": 10, "next": 10}, SUMS), "priority", 20, 9, id="what is urgent goes first"),
    ],
)
def test_what_waits_for_the_network_is_exposed(
    instance: Instance, launching: str, compute: float, exposed: float
) -> None:
    """Microseconds of tasks, and of what they wait for."""
    schedule = run(instance, f"{launching}/{FIFO}")
    assert microseconds(schedule.makespan) == compute + exposed
    assert microseconds(schedule.period.exposed) == exposed
    assert schedule.period.is_steady
    assert len(set(np.diff(schedule.task_start[1:, 0]).tolist())) == 1


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


def test_the_longest_period_counts_and_a_mean_is_used_where_iterations_alternate() -> None:
    """Stages of two iterations take turns on one resource, so that every second period is longer."""
    scattered = [tensor("t", 2000, "first", "second", kind="reduce_scatter", needed_in="next", parallelism="model")]
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["inner", "outer"], "shared": True}
    network = {"dimensions": [PAIR | {"size": 4}]}
    instance = iteration({"first": 0, "second": 0}, scattered, network=network, splits=[split])
    alternating = run(instance, "fused/themis+fifo")
    assert not alternating.period.is_steady
    assert alternating.makespan == np.diff(alternating.task_start[:, 0])[-8:].max()
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
    period = run(two_layers(), f"wait_free/{FIFO}").period
    assert microseconds(period.communicating) == 14
    assert period.overlap == pytest.approx(1 - 4 / 14)


@pytest.mark.parametrize(
    ("instance", "utilisation"),
    [
        pytest.param(two_layers(dimensions=2), 0.5, id="one chunk uses a dimension at a time"),
        pytest.param(iteration(FOUR_TASKS, [BESIDE], dimensions=2), 1, id="one of two dimensions has no tensors"),
    ],
)
def test_dimensions_that_have_work_can_be_idle(instance: Instance, utilisation: float) -> None:
    assert run(instance, f"fused/{FIFO}").utilisation == pytest.approx(utilisation)


@pytest.mark.parametrize(
    ("kilobytes", "seconds", "message"), [(4, 10**6, "more than the clock holds"), (10**12, 0, "the clock holds")]
)
def test_what_is_longer_than_the_clock_is_refused(kilobytes: float, seconds: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(iteration({"work": seconds * 10**6}, [tensor("t", kilobytes, "work", "work")]), f"fused/{FIFO}")
