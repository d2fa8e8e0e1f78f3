"""The linear programme on chunk sizes of a period, solved by hand."""

from dataclasses import replace

import numpy as np
import pytest

from formulations.period_sizes import PeriodSizingData, best_period_shares

TASK, FIRST, SECOND = range(3)


def two_chunks(*, waits: list[tuple[int, int, int]], rates: tuple[float, float] = (2.0, 4.0)) -> PeriodSizingData:
    """A task of 1 and two chunks of one collective, which would take these times with all bytes."""
    return PeriodSizingData(
        rate=np.array([0.0, *rates]),
        fixed=np.array([1.0, 0.0, 0.0]),
        job=np.array([0, 0, 1]),
        group=np.array([0, 0]),
        waits=np.array(waits),
        lag=np.zeros(len(waits)),
    )


def test_chunks_on_different_resources_take_equally_long() -> None:
    """Both between the task and the next one: 2 y = 4 (1 - y)."""
    data = two_chunks(waits=[(TASK, FIRST, 0), (TASK, SECOND, 0), (FIRST, TASK, 1), (SECOND, TASK, 1)])
    assert best_period_shares(data) == pytest.approx([2 / 3, 1 / 3])


def test_chunks_on_one_resource_leave_nothing_to_the_slower_one() -> None:
    data = two_chunks(waits=[(TASK, FIRST, 0), (FIRST, SECOND, 0), (SECOND, TASK, 1)])
    assert best_period_shares(data) == pytest.approx([1, 0])


def test_a_wait_for_the_period_before_the_last_leaves_two_periods() -> None:
    """The second chunk has two periods of which the first chunk leaves it 2 T - 1: 4 (1 - y) = 2 T - 1, T = 1 + 2 y."""
    data = two_chunks(waits=[(TASK, FIRST, 0), (FIRST, TASK, 1), (TASK, SECOND, 0), (SECOND, TASK, 2)])
    assert best_period_shares(data) == pytest.approx([3 / 8, 5 / 8])


def test_a_lag_counts_like_time() -> None:
    data = two_chunks(waits=[(TASK, FIRST, 0), (TASK, SECOND, 0), (FIRST, TASK, 1), (SECOND, TASK, 1)])
    lagging = replace(data, lag=np.array([0.0, 0.0, 1.0, 0.0]))
    assert best_period_shares(lagging) == pytest.approx([1 / 2, 1 / 2])


def test_waits_within_one_period_that_form_a_cycle_have_no_solution() -> None:
    with pytest.raises(ArithmeticError, match="no chunk sizes"):
        best_period_shares(two_chunks(waits=[(TASK, FIRST, 0), (FIRST, TASK, 0)]))
