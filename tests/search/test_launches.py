"""The step that chooses launches."""

import pytest
from layered_iterations import layers, scheduled

from formulations.limits import Limits
from themis_opt.policies.launching.common import Launching, fusible, whole
from themis_opt.policies.planning import plan_launches
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, TaskOf
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import Launches, candidates, even_buckets, neighbours, with_buckets
from themis_opt.search.steps import Turn, take_turns


def improved(start: Schedule, seconds: float = 1.0) -> Incumbent:
    """What the step alone makes of a schedule."""
    incumbent = Incumbent(Limits(seconds=seconds, deterministic=True), start)
    take_turns(incumbent, [Turn(Launches(), 1.0)])
    return incumbent


def test_every_candidate_is_a_legal_plan() -> None:
    instance = layers(5)
    for candidate in candidates(instance):
        policy = make_policy("themis+scf")
        plan = plan_launches(instance, candidate.launches, candidate.order, policy)
        validate(simulate(instance, plan))


def test_neighbours_carry_every_tensor_once() -> None:
    instance = layers(6)
    for candidate in neighbours(instance, with_buckets(instance, even_buckets(instance, 3))):
        assert sorted(t for launch in candidate.launches for t in launch.tensors) == list(range(6))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_even_buckets_are_at_most_as_many_as_asked_for(count: int) -> None:
    buckets = even_buckets(layers(5), count)
    assert len(buckets) <= count
    assert sorted(t for bucket in buckets for t in bucket) == list(range(5))


@pytest.mark.parametrize("launching", LAUNCHING)
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


def test_ctrl_c_keeps_the_best_launches() -> None:
    instance, reports = layers(4), []

    def stop(makespan: float, bound: float) -> None:
        reports.append(makespan)
        if len(reports) == 2:
            raise KeyboardInterrupt

    incumbent = Incumbent(Limits(seconds=1.0, deterministic=True), scheduled(instance, "fused"), report=stop)
    take_turns(incumbent, [Turn(Launches(), 1.0)])
    assert incumbent.interrupted
    assert [incumbent.best.makespan] == reports[1:]


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
