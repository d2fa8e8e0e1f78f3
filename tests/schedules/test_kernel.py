"""The event loop, interpreted and compiled."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_opt.base import compiled
from themis_opt.base.arrays import read_only
from themis_opt.schedules.kernel import LOOP, Operations, start_times


def operations(
    resource: list[int], duration: list[int], edges: list[tuple[int, int]] | None = None, **fields: Any
) -> Operations:
    """Operations with the given arcs of precedence, served first in first out unless told otherwise."""
    count, edges = len(resource), sorted(edges or [])
    out = [sum(a == i for a, _ in edges) for i in range(count)]
    arrays: dict[str, np.ndarray] = {
        "lag": np.zeros(count, dtype=np.int64),
        "release": np.zeros(count, dtype=np.int64),
        "major": np.zeros(count),
        "minor": np.zeros(count, dtype=np.int64),
        "time_sign": np.ones(count, dtype=np.int64),
        "enforced": np.zeros(max(resource) + 1, dtype=np.bool_),
    }
    return Operations(
        resource=np.array(resource),
        duration=np.array(duration),
        successor_start=np.concatenate([[0], np.cumsum(out, dtype=np.int64)]),
        successor=np.array([b for _, b in edges], dtype=np.int64),
        num_predecessors=np.array([sum(b == i for _, b in edges) for i in range(count)]),
        **(arrays | {name: np.array(value) for name, value in fields.items()}),
    )


def starts(*arguments: Any, **fields: Any) -> list[int]:
    return start_times(operations(*arguments, **fields)).tolist()


CASES: dict[str, tuple[list[int], list[int], list[tuple[int, int]], dict[str, Any], list[int]]] = {
    "one resource serves one after another": ([0, 0, 0], [3, 4, 5], [], {}, [0, 3, 7]),
    "two resources serve side by side": ([0, 1], [3, 4], [], {}, [0, 0]),
    "a successor waits for duration and lag": ([0, 1], [3, 4], [(0, 1)], {"lag": [2, 0]}, [0, 5]),
    "a lag does not hold the resource": ([0, 0], [3, 4], [], {"lag": [100, 0]}, [0, 3]),
    "an operation waits for all predecessors": ([0, 1, 2], [3, 8, 1], [(0, 2), (1, 2)], {}, [0, 0, 8]),
    "nothing starts before its release": ([0, 0], [3, 4], [], {"release": [10, 0]}, [10, 0]),
    "a release later than a result counts": ([0, 1], [3, 4], [(0, 1)], {"release": [0, 7]}, [0, 7]),
    "smaller major keys go first": ([0, 0, 0], [3, 4, 5], [], {"major": [2.0, 1.5, 1.0]}, [9, 5, 0]),
    "minor keys break ties": ([0, 0, 0], [3, 4, 5], [], {"minor": [2, 1, 0]}, [9, 5, 0]),
    "a negative time sign serves the newest first": (
        [0, 0, 0], [9, 4, 5], [], {"release": [0, 1, 2], "time_sign": [-1, -1, -1]}, [0, 14, 9],
    ),
    "an enforced resource waits for the next in sequence": (
        [0, 0], [3, 4], [], {"release": [0, 10], "major": [1.0, 0.0], "enforced": [True]}, [14, 10],
    ),
    "what holds nothing follows in one instant": ([0, 0, 1], [0, 0, 0], [(0, 2)], {}, [0, 0, 0]),
}  # fmt: skip
"""Resources, durations, arcs and more of operations, and when they start."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_operations_start_as_early_as_rules_and_keys_allow(case: tuple[Any, ...]) -> None:
    resource, duration, edges, fields, expected = case
    assert starts(resource, duration, edges, **fields) == expected


def test_all_arrivals_of_one_instant_are_queued_before_any_choice() -> None:
    """Operations 0 and 1 end at 3; of their successors the second has the smaller key."""
    assert starts([0, 1, 2, 2], [3, 3, 1, 1], [(0, 2), (1, 3)], major=[0.0, 0.0, 2.0, 1.0]) == [0, 0, 4, 3]


def test_operations_that_wait_for_each_other_never_start() -> None:
    """Resource 0 wants 1 before 0, resource 1 wants 2 before 3; 0 -> 2 and 3 -> 1."""
    cyclic = starts(
        [0, 0, 1, 1, 2],
        [1, 1, 1, 1, 1],
        [(0, 2), (3, 1)],
        major=[1.0, 0.0, 0.0, 1.0, 0.0],
        enforced=[True, True, False],
    )
    assert cyclic == [-1, -1, -1, -1, 0]


@st.composite
def random_operations(draw: st.DrawFn) -> Operations:
    count, num_resources = draw(st.integers(1, 25)), draw(st.integers(1, 4))

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    resource = each(st.integers(0, num_resources - 1))
    arcs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = draw(st.lists(st.sampled_from(arcs), unique=True, max_size=2 * count)) if arcs else []
    enforced = draw(st.lists(st.booleans(), min_size=max(resource) + 1, max_size=max(resource) + 1))
    major = np.array(each(st.sampled_from([0.0, 0.5, 1.0])))
    order = draw(st.permutations(range(count)))
    for r in range(max(resource) + 1):
        if enforced[r]:
            served = [i for i in order if resource[i] == r]
            major[served] = np.arange(len(served))
    return operations(
        resource,
        each(st.integers(0, 5) | st.integers(0, 2**40)),
        edges,
        lag=each(st.integers(0, 5)),
        release=each(st.integers(0, 5) | st.integers(0, 2**40)),
        major=major,
        minor=each(st.integers(0, 2)),
        time_sign=[draw(st.sampled_from([-1, 1]))] * count,
        enforced=enforced,
    )


def interpreted_starts(work: Operations, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(compiled, "_patient", True)  # whatever tuned in this process before
    monkeypatch.setattr(LOOP, "patience", 10**9)
    monkeypatch.delitem(vars(LOOP), "compiled", raising=False)
    return start_times(work)


def compiled_starts(work: Operations, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(LOOP, "patience", 0)
    return start_times(work)


@given(random_operations())
def test_interpreted_and_compiled_loop_agree(work: Operations) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fast = compiled_starts(work, monkeypatch)
    with pytest.MonkeyPatch.context() as monkeypatch:
        slow = interpreted_starts(work, monkeypatch)
    assert slow.tolist() == fast.tolist()


@given(random_operations())
def test_the_loop_leaves_its_input_alone(work: Operations) -> None:
    before = [array.copy() for array in work]
    start_times(work)
    assert all(np.array_equal(a, b) for a, b in zip(before, work, strict=True))


@given(random_operations())
def test_served_operations_obey_resources_releases_and_arcs(work: Operations) -> None:
    start = start_times(work)
    end = start + work.duration
    for i in np.flatnonzero(start >= 0):
        assert start[i] >= work.release[i]
        for j in work.successor[work.successor_start[i] : work.successor_start[i + 1]]:
            assert start[j] < 0 or start[j] >= end[i] + work.lag[i]
        for j in np.flatnonzero((work.resource == work.resource[i]) & (start >= 0)):
            assert i == j or start[i] >= end[j] or start[j] >= end[i]


def test_the_loop_is_compiled_once_whatever_arrays_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    work = operations([0, 1], [1, 1], [(0, 1)])
    for arrays in (work, Operations(*map(read_only, work))):
        compiled_starts(arrays, monkeypatch)
    assert len(LOOP.compiled.signatures) == 1
