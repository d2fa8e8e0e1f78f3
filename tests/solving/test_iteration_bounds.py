"""Bounds on the time of an iteration: by hand, and below every schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iteration_strategies import iteration_instances, specifications
from small_iterations import PAIR, iteration, run, tensor, two_layers

from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import load
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds

ROUNDING = 1e-9  # fraction of a time that floating point may cost


def bounds_of(instance: Instance) -> dict[str, float]:
    """The bounds in microseconds."""
    return {name: bound / 10**6 for name, bound in bounds(instance).items()}


LAUNCHED, LATE = (
    {"dimensions": [PAIR | {cost: time}]} for cost, time in (("launch_overhead", "3 us"), ("latency", "1 us"))
)
SIX = tensor("a", 6, "work", "work")


@pytest.mark.parametrize(
    ("name", "instance", "expected"),
    [
        ("compute", two_layers(), 40),
        ("communication", two_layers(60, 70), 130),
        ("communication", iteration({"work": 1}, [SIX, tensor("b", 8, "work", "work", kind="all_to_all")]), 6 + 4),
        ("communication", iteration({"work": 1}, [SIX], network=LAUNCHED), 6 + 6),  # an all-reduce has two stages
        ("communication", iteration({"work": 1}, [SIX], network=LATE, latency="lag"), 6),
        ("communication", iteration({"work": 1}, [SIX], network=LATE, latency="occupy"), 8),
        ("critical_path", two_layers(), 44),  # nothing hides the gradient that is ready last and needed first
        ("critical_path", two_layers(20, 40), 10 + 10 + 60),  # from one forward2 to the next, both in one window
        ("ideal", iteration({"work": 10}, [tensor("a", 8, "work", "work")], dimensions=2), 10 + 6),  # all bandwidth
        ("ideal", iteration({"work": 10}, [SIX], network=LATE), 16),
        ("critical_path", iteration({"work": 10}, [SIX], network=LATE), 17),  # all but the last lag can be hidden
    ],
)
def test_bounds_by_hand(name: str, instance: Instance, expected: float) -> None:
    assert bounds_of(instance)[name] == pytest.approx(expected)


@pytest.mark.parametrize("first", range(4))
def test_tensors_whose_windows_overlap_share_one_that_is_of_neither(first: int) -> None:
    """Both are sent between the end of t0 and the start of t3, outside of which two of four tasks lie.

    With whichever of them the iteration begins.
    """
    tensors = [tensor("a", 10, "t0", "t2"), tensor("b", 10, "t1", "t3")]
    instance = iteration({f"t{(first + n) % 4}": 1 for n in range(4)}, tensors)
    assert bounds_of(instance)["critical_path"] == pytest.approx(2 + 20)


def test_blocking_tensors_add_up_along_the_path() -> None:
    tensors = [tensor("a", 6, "forward", "backward", parallelism="model"), tensor("b", 7, "backward", "forward")]
    assert bounds_of(iteration({"forward": 10, "backward": 20}, tensors))["critical_path"] == pytest.approx(43)


@pytest.mark.parametrize("later", [(4,), (), (4, 3)])
def test_the_path_of_a_pipeline_goes_through_messages_between_its_stages(later: tuple[float, ...]) -> None:
    """And through all those that the next period needs; the other stage works beside it."""
    tasks = {"forward0": 10.0, "forward1": 15.0, "backward1": 5.0, "backward0": 10.0}
    tensors = [
        tensor("activations", 6, "forward0", "forward1"),
        tensor("errors", 6, "backward1", "backward0"),
        *(tensor(f"gradients{size}", size, "backward0", "forward0") for size in later),
    ]
    document = iteration(tasks, tensors).model_dump(mode="json", exclude_unset=True)
    for task in document["iteration"]["tasks"]:
        task["stage"] = int(task["name"][-1])
    assert bounds_of(Instance.model_validate(document))["critical_path"] == pytest.approx(
        10 + 6 + 20 + 6 + 10 + sum(later)
    )


@pytest.mark.parametrize(
    "specification", ["fused/hourglass", "wait_free/hourglass", "priority/themis+scf", "dear:threshold=1B/hourglass"]
)
@pytest.mark.parametrize("kilobytes", [(4, 10), (20, 40), (60, 70)])
def test_one_dimension_leaves_no_room_below_the_best_schedule(specification: str, kilobytes: tuple[int, int]) -> None:
    instance = two_layers(*kilobytes, chunks=8)
    assert run(instance, specification).makespan >= max(bounds(instance).values()) * (1 - ROUNDING)


def test_the_bound_is_attained_where_all_but_the_last_gradient_hides() -> None:
    instance = two_layers()
    assert run(instance, "wait_free/baseline+fifo").makespan == pytest.approx(max(bounds(instance).values()))


@pytest.mark.parametrize("policy", ["priority/hourglass", "dear/hourglass"])
@pytest.mark.parametrize("iterations", [2, 3])
def test_a_network_that_is_still_filling_up_is_not_faster_than_the_bounds(policy: str, iterations: int) -> None:
    instance = load("v100-256.bert-large")
    assert isinstance(instance, Instance)
    schedule = simulate(instance, make_policy(policy)(instance), iterations)
    validate(schedule)
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - ROUNDING)


@given(st.data())
def test_no_bound_is_above_a_valid_schedule(data: st.DataObject) -> None:
    instance, specification = data.draw(iteration_instances()), data.draw(specifications)
    schedule = simulate(instance, make_policy(specification)(instance))
    validate(schedule)
    proven, period = bounds(instance), schedule.period
    assert max(proven.values()) <= schedule.makespan * (1 + ROUNDING)
    assert proven["ideal"] <= proven["critical_path"] * (1 + ROUNDING)
    assert period.exposed >= 0
    if period.is_steady:
        assert period.exposed_by("data") + period.exposed_by("model") == period.exposed
        assert period.exposed <= period.communicating <= schedule.makespan
        assert 0 <= period.overlap <= 1
        assert 0 < schedule.utilisation <= 1 + ROUNDING


def test_the_window_of_every_tensor_counts_in_a_step_of_many() -> None:
    """Of 1200 tensors of 2 us each only one task of 1 us hides a part: half as long again as the tasks."""
    count = 2400
    tensors = [tensor(f"x{n}", 2, f"t{n}", f"t{(n + 2) % count}") for n in range(0, count, 2)]
    instance = iteration({f"t{n}": 1 for n in range(count)}, tensors)
    assert bounds_of(instance)["critical_path"] == pytest.approx(1.5 * count)


def test_start_ups_of_the_buckets_that_overlapping_needs_are_part_of_the_bound() -> None:
    """Of one bucket all gradients have to be ready, and each of many costs 2 us on every dimension."""
    tasks = {f"forward{n}": 0.4 for n in range(24)} | {f"backward{n}": 0.8 for n in reversed(range(24))}
    tensors = [tensor(f"gradients{n}", 8, f"backward{n}", f"forward{n}") for n in range(24)]
    dimension = {"kind": "switch", "size": 4, "latency": "0.5 us"}
    network = {"dimensions": [dimension | {"bandwidth": bandwidth} for bandwidth in ("8 GB/s", "2 GB/s")]}
    instance = iteration(tasks, tensors, network=network, chunks=4, latency="occupy")
    proven = bounds_of(instance)
    best = Exact(seconds=1.0, workers=1, deterministic=True).solve(instance).schedule
    assert 1.15 * proven["critical_path"] < proven["pieces"] <= best.makespan / 10**6
