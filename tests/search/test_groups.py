"""The step that searches each group of launches as a separate collective."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from layered_iterations import layers, scheduled

from formulations.limits import Limits
from themis_opt.schedules.validation import validate
from themis_opt.search.groups import Groups, are_apart
from themis_opt.search.incumbent import Incumbent
from themis_opt.solving.sizing import resized


@dataclass(frozen=True)
class Resize:
    """A search of collectives: the best sizes."""

    seconds: float = 0.0
    engine: str = ""

    def applies(self, incumbent: Incumbent) -> bool:
        return True

    def run(self, incumbent: Incumbent) -> None:
        assert incumbent.free_sizes
        assert not incumbent.best.has_period
        assert 0 < incumbent.bound <= incumbent.best.makespan
        assert incumbent.left <= self.seconds
        incumbent.offer(resized(incumbent.best))


def improved(launching: str, seconds: float, *, each: float, size: int = 2**24) -> Incumbent:
    """What the step alone makes of the schedule of a launching policy, with so many seconds for each group."""
    start = scheduled(layers(3, size=size, chunks=3), launching)
    incumbent = Incumbent(Limits(seconds=seconds, deterministic=True), start)
    Groups([Resize(each)]).run(incumbent)
    return incumbent


@pytest.mark.parametrize("launching", ["fused", "wait_free"])
def test_chunks_of_groups_are_improved(launching: str) -> None:
    best = improved(launching, 3.0, each=3.0).best
    validate(best)
    assert best.makespan < scheduled(best.instance, launching).makespan


def test_groups_share_the_time() -> None:
    improved("wait_free", 3.0, each=3.0)
    with pytest.raises(AssertionError):
        improved("wait_free", 3.0, each=0.9)
    with pytest.raises(AssertionError):
        improved("fused", 3.0, each=2.9)


@pytest.mark.parametrize(("launching", "apart"), [("fused", True), ("priority", False)])
def test_groups_meet_where_communication_takes_longer_than_compute(launching: str, apart: bool) -> None:
    assert are_apart(scheduled(layers(3, size=2**24), launching)) == apart


@pytest.mark.parametrize(
    ("windows", "apart"),
    [
        ([], True),
        ([("a", 10, 20), ("a", 15, 30), ("b", 30, 40)], True),
        ([("a", 10, 20), ("a", 15, 31), ("b", 30, 40)], False),
        ([("a", 15, 31), ("a", 10, 20), ("b", 30, 40)], False),
        ([("b", 31, 40), ("b", 29, 35), ("a", 10, 30)], False),
        ([("b", 29, 40), ("b", 31, 35), ("a", 10, 30)], False),
        ([("a", 10, 20), ("b", 30, 110)], True),
        ([("a", 10, 20), ("b", 30, 111)], False),
    ],
)
def test_groups_are_apart_where_one_ends_before_the_next_begins(
    windows: list[tuple[str, int, int]], apart: bool
) -> None:
    """Two chunks of each launch in the middle one of three periods of 100, and the first group again in the next."""
    begins = [time for _, begin, _ in windows for time in (begin + 1, begin)]
    ends, none = [end for _, _, end in windows], [0] * len(windows)
    launches = [SimpleNamespace(after=name, after_launches=()) for name, _, _ in windows]
    chunks = [(np.array([2 * number, 2 * number + 1]), None) for number in range(len(windows))]
    schedule: Any = SimpleNamespace(
        num_iterations=3,
        makespan=100,
        plan=SimpleNamespace(launches=launches, ends_of_chunks=chunks),
        period=SimpleNamespace(
            stage_start=np.array([none * 2, begins, none * 2]), launch_ready=np.array([none, ends, none])
        ),
    )
    assert are_apart(schedule) == apart
