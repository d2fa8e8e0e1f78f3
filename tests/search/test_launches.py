"""The step that chooses launches."""

import numpy as np
import pytest
from layered_iterations import layers, scheduled
from samples import every
from sharded_iterations import fastest_of_all, random_schedule, random_step, sharded
from small_iterations import iteration, run, tensor

from formulations.limits import Limits
from themis_opt.policies.launching.common import Launching, fusible, of_runs, whole
from themis_opt.policies.planning import plan_launches
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import take_turns
from themis_opt.schedules.plan import Launch, TaskOf
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import Launches, candidates, moved, neighbours, with_buckets


def improved(start: Schedule, seconds: float = 1.0) -> Incumbent:
    """What the step alone makes of a schedule."""
    incumbent = Incumbent(Limits(seconds=seconds, deterministic=True), start)
    take_turns(incumbent, [Launches()])
    return incumbent


@pytest.mark.parametrize("launching", every(3, LAUNCHING))
def test_the_step_is_no_worse_than_any_launching_policy(launching: str) -> None:
    instance = layers(4, task=50)
    assert improved(scheduled(instance, "fused")).best.makespan <= scheduled(instance, launching).makespan


def test_changed_buckets_are_faster_than_all_candidates() -> None:
    """Where each launch costs something, a few tensors are fused that no even cut fuses."""
    instance = layers(8, task=10, size=2**20, latency="occupy")
    policy = make_policy("hourglass")
    plans = (plan_launches(instance, c.launches, c.order, policy) for c in candidates(instance))
    best = improved(scheduled(instance, "fused"), seconds=3.0).best
    assert best.makespan < min(simulate(instance, plan).makespan for plan in plans)


def test_launches_have_few_chunks_where_each_costs_something() -> None:
    instance = layers(4, task=10, size=2**20, latency="occupy", chunks=16)
    best = improved(scheduled(instance, "fused"), seconds=3.0).best
    assert max(len(chunks.sizes) for chunks in best.plan.chunks) < 16
    assert best.makespan < min(scheduled(instance, launching).makespan for launching in LAUNCHING)


def test_large_launches_have_more_chunks_than_small_ones() -> None:
    pair = {"kind": "switch", "size": 4, "bandwidth": "8 GB/s", "latency": "1 us"}
    tensors = [tensor("large", 16384, "backward1", "forward1"), tensor("small", 64, "backward0", "forward0")]
    tasks = {"forward0": 1.0, "forward1": 1.0, "backward1": 2.0, "backward0": 2.0}
    network = {"dimensions": [pair, pair | {"bandwidth": "2 GB/s"}]}
    instance = iteration(tasks, tensors, network=network, chunks=8, latency="occupy")
    best = improved(scheduled(instance, "fused")).best
    launched = sorted(zip(best.launched, best.plan.chunks, strict=True), key=lambda launch: launch[0].size)
    counts = [len(chunks.sizes) for _, chunks in launched]
    assert counts[0] < counts[-1]


def test_what_others_wait_for_is_urgent() -> None:
    """A reduce-scatter goes before gathers that are needed sooner, since an all-reduce on another dimension follows."""
    tensors = [
        tensor("gathered", 30, "a", "b", kind="all_gather", dimensions=["dim1"], freed_after="b"),
        tensor("scattered", 30, "a", "c", kind="reduce_scatter", dimensions=["dim1"]),
        tensor("reduced", 30, "a", "c", dimensions=["dim2"], after=["scattered"]),
    ]
    instance = iteration({"a": 1.0, "b": 1.0, "c": 1.0}, tensors, dimensions=2)
    best = improved(run(instance, "wait_free/baseline")).best
    assert [launch.name for launch in best.plan.launches if launch.urgent] == ["scattered"]


def test_candidates_that_take_too_long_are_left_out() -> None:
    start = scheduled(layers(50, chunks=64), "fused")
    assert improved(start, seconds=0.01).best is start


class TooEarly(Launching):
    """Launches that no task waits for in time."""

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        last = TaskOf(len(instance.tasks) - 1, 1)
        return tuple(whole(instance, bucket, before=last) for bucket in fusible(instance))


def test_an_illegal_plan_is_refused_when_it_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    start = scheduled(layers(1, task=50, size=2**24), "fused")
    monkeypatch.setattr(LAUNCHING, "load", lambda name: TooEarly)
    validate(improved(start).best)


def test_policies_come_first_where_gathers_may_leave_at_different_times() -> None:
    fits, *first = [candidate.buckets for candidate in candidates(sharded(40, 40, 40))][: 1 + len(LAUNCHING)]
    assert fits is not None
    assert first == [None] * len(LAUNCHING)


def test_the_reference_is_no_slower_than_any_buckets_and_launch_points_that_fit() -> None:
    """All of three layers are tried, in the order of their use; neighbours of one candidate alone are slower."""
    generator = np.random.default_rng(3)
    instance = random_step(generator, 3).replace(chunks=1)
    schedule = random_schedule(generator, instance)
    assert schedule is not None
    limited = instance.replace(memory=f"{schedule.memory_peak} B")
    best, count = fastest_of_all(limited)
    assert count > 500
    assert Exact(seconds=1.0, workers=1, deterministic=True).solve(limited).schedule.makespan <= best


def test_a_gather_moves_by_tasks_that_take_time() -> None:
    instance = sharded(8, 8)
    moves = {launch.name: [*moved(instance, launch)] for launch in of_runs(instance, ()) if launch.kind == "all_gather"}
    assert moves == {"parameters1": [], "again1": [TaskOf(1, 0)], "parameters2": [TaskOf(0, 1)]}


EVEN = [((4, 3, 2, 1, 0),), ((4, 3), (2, 1, 0)), ((4,), (3,), (2,), (1, 0))]


def test_even_buckets_are_tried_with_fewer_and_fewer_chunks_where_each_costs_something() -> None:
    """Layers of 5, 4, 3, 2 and 1 MiB become ready in this order."""
    tried = candidates(layers(5, task=10, size=2**20, latency="occupy", chunks=8))
    evenly = [(candidate.buckets, candidate.chunks) for candidate in tried if candidate.buckets]
    assert evenly == [(buckets, (chunks,) * len(buckets)) for chunks in (8, 4, 2, 1) for buckets in EVEN]
    once = candidates(layers(5, task=10, size=2**20, chunks=8))
    assert [candidate.buckets for candidate in once if candidate.buckets] == EVEN


def test_neighbours_merge_shift_and_halve_buckets_and_chunks() -> None:
    instance = layers(5, task=10, size=2**20, latency="occupy", chunks=8)
    around = [*neighbours(instance, with_buckets(instance, ((4, 3, 2), (1, 0)), 0, 2))]
    assert [place for place, _ in around] == [0] * 4 + [1] * 4 + [2] + [3] * 2 + [4] * 2
    assert [one.in_order for _, one in around] == [True] * 2 + [False] + [True] * 10
    same = ((4, 3, 2), (1, 0))
    assert [(one.buckets, one.chunks) for _, one in around] == [
        (same, (4, 4)),
        (same, (1, 1)),
        (same, (2, 2)),
        (same, (2, 2)),
        (((4,), (3, 2), (1, 0)), (2, 2, 2)),
        (((4, 3, 2, 1, 0),), (2,)),
        (((4, 3), (2, 1, 0)), (2, 2)),
        (((4, 3, 2, 1), (0,)), (2, 2)),
        (((4, 3, 2), (1,), (0,)), (2, 2, 2)),
        (same, (4, 2)),
        (same, (1, 2)),
        (same, (2, 4)),
        (same, (2, 1)),
    ]


def test_gathers_are_tried_with_less_and_less_memory_and_in_fewer_and_fewer_buckets() -> None:
    instance = sharded(40, 10, 25, chunks=2)
    tried = [candidate for candidate in candidates(instance) if candidate.buckets]
    budgets = [candidate.budget for candidate in tried]
    assert budgets[:2] == [200_000, 200_000]
    assert sorted({*budgets[2:-2]}, reverse=True) == budgets[2:-2]
    assert budgets[2] < 200_000
    assert [candidate.in_order for candidate in tried] == [True, False] + [True] * (len(tried) - 2)
    assert [len(candidate.buckets or ()) for candidate in tried] == [8] * (len(tried) - 2) + [6, 3]


@pytest.mark.parametrize(
    ("seconds", "makespan", "left"),
    [(0.001, 147_287_680, 475e-6), (0.005, 125_592_960, 0.000875), (0.02, 114_236_800, 0.005)],
)
def test_as_many_launches_are_tried_as_ever(seconds: float, makespan: int, left: float) -> None:
    """What planning and simulating them is reckoned to take decides how many."""
    instance = layers(3, task=10, size=2**20, latency="occupy", chunks=4)
    incumbent = improved(scheduled(instance, "fused"), seconds=seconds)
    assert incumbent.best.makespan == makespan
    assert incumbent.left == pytest.approx(left)
