"""The programme of chunk sizes, and that of a period, on cases that are solved by hand."""

import numpy as np
import pytest

from formulations.chunk_sizes import END, SizingData, best_shares

ENDS = np.array([[0, END, 1, 1], [1, END, 1, 1]])


def data(**changes: object) -> SizingData:
    """Two jobs of one group, each one operation, on machines of speed 1 and 1/3."""
    fields = {
        "rate": np.array([1.0, 3.0]),
        "fixed": np.zeros(2),
        "lag": np.zeros(2),
        "release": np.zeros(2),
        "job": np.array([0, 1]),
        "group": np.array([0, 0]),
        "waits": ENDS,
    }
    return SizingData(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "shares"),
    [
        ({}, [0.75, 0.25]),  # both end together
        ({"lag": np.array([0.5, 0.0])}, [0.625, 0.375]),  # y + 1/2 = 3 (1 - y)
        ({"release": np.array([0.0, 0.2])}, [0.8, 0.2]),  # y = 1/5 + 3 (1 - y)
        ({"rate": np.ones(2), "lag": np.array([0.0, 2.0])}, [1.0, 0.0]),  # the second only hurts
        ({"waits": np.array([[0, 1, 0, 0], *ENDS])}, [1.0, 0.0]),  # in sequence the faster is better
        ({"group": np.array([0, 1])}, [1.0, 1.0]),
    ],
)
def test_shares_of_two_jobs(changes: dict[str, np.ndarray], shares: list[float]) -> None:
    assert best_shares(data(**changes)) == pytest.approx(shares)


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ArithmeticError):
        best_shares(data(fixed=np.ones(2), waits=np.array([[0, 1, 0, 0], [1, 0, 0, 0], *ENDS])))


TASK, FIRST, SECOND = range(3)


def two_chunks(*, waits: list[tuple[int, int, int]], lag: float = 0.0) -> SizingData:
    """A task of 1 and two chunks of one collective, which would take these times with all bytes."""
    return SizingData(
        rate=np.array([0.0, 2.0, 4.0]),
        fixed=np.array([1.0, 0.0, 0.0]),
        lag=np.array([0.0, lag, 0.0]),
        release=np.zeros(3),
        job=np.array([0, 0, 1]),
        group=np.array([0, 0]),
        waits=np.array([(*wait, 1) for wait in waits]),
    )


APART = [(TASK, FIRST, 0), (TASK, SECOND, 0), (FIRST, TASK, 1), (SECOND, TASK, 1)]


@pytest.mark.parametrize(
    ("waits", "lag", "shares"),
    [
        # On different resources, both between the task and the next one: 2 y = 4 (1 - y), or with a lag 2 y + 1.
        (APART, 0.0, [2 / 3, 1 / 3]),
        (APART, 1.0, [1 / 2, 1 / 2]),
        # On one resource nothing is left to the slower one.
        ([(TASK, FIRST, 0), (FIRST, SECOND, 0), (SECOND, TASK, 1)], 0.0, [1, 0]),
        # The second has two periods of which the first leaves it 2 T - 1: 4 (1 - y) = 2 T - 1, T = 1 + 2 y.
        ([(TASK, FIRST, 0), (FIRST, TASK, 1), (TASK, SECOND, 0), (SECOND, TASK, 2)], 0.0, [3 / 8, 5 / 8]),
    ],
)
def test_shares_are_those_by_hand(waits: list[tuple[int, int, int]], lag: float, shares: list[float]) -> None:
    assert best_shares(two_chunks(waits=waits, lag=lag)) == pytest.approx(shares)


def test_waits_within_one_period_that_form_a_cycle_have_no_solution() -> None:
    with pytest.raises(ArithmeticError, match="no chunk sizes"):
        best_shares(two_chunks(waits=[(TASK, FIRST, 0), (FIRST, TASK, 0)]))
