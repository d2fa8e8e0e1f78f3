"""The event loop of annealing, which begins where a plan differs and ends where it is too long."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import schedules

from themis_opt.schedules.event_loop import NEVER, makespan_of
from themis_opt.schedules.kernel import workspace
from themis_opt.schedules.schedule import Schedule
from themis_opt.search import annealing_loop
from themis_opt.search.annealing import Annealing

HOT = 2e-2  # hot enough to accept many worse plans
WITHIN = annealing_loop.makespan_within


def from_the_begin(operations: Any) -> tuple[int, np.ndarray]:
    """Makespan and start times of a whole simulation."""
    space = workspace(len(operations.resource), len(operations.enforced))
    return makespan_of(operations, space), space.start


@given(start=schedules(), seed=st.integers(0, 2**16))
def test_what_is_served_again_is_served_as_in_a_whole_simulation(start: Schedule, seed: int) -> None:
    def checked(
        operations: Any, space: Any, known: Any, since: int, remaining: Any, tail: Any, limit: float, arriving: Any
    ) -> int:
        whole, begins = from_the_begin(operations)
        left = remaining.copy()  # which is changed; no limit that the plan just keeps cuts it off
        assert WITHIN(operations, space, known, since, left, tail, whole, arriving) == whole
        makespan = WITHIN(operations, space, known, since, remaining, tail, limit, arriving)
        is_same = makespan == whole and np.array_equal(space.start, begins)
        assert is_same or (makespan == NEVER and whole > limit)
        return makespan

    annealing = Annealing(start, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealing_loop, "makespan_within", checked)
        annealing_loop.anneal(annealing._problem, annealing._state, 60, HOT * start.makespan, start.makespan / 100, 0)
