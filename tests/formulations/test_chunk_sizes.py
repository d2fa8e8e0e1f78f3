"""The sizes programme on cases that are solved by hand."""

import numpy as np
import pytest

from formulations.chunk_sizes import SizingData, best_shares


def data(**changes: object) -> SizingData:
    """Two jobs of one group, each one operation, on machines of speed 1 and 1/3."""
    fields = {
        "rate": np.array([1.0, 3.0]),
        "fixed": np.zeros(2),
        "lag": np.zeros(2),
        "release": np.zeros(2),
        "job": np.array([0, 1]),
        "group": np.array([0, 0]),
        "results": np.zeros((0, 2), dtype=np.int64),
        "sequences": np.zeros((0, 2), dtype=np.int64),
    }
    return SizingData(**(fields | changes))


def test_parallel_jobs_end_together() -> None:
    assert best_shares(data()) == pytest.approx([0.75, 0.25])


def test_a_lag_takes_from_the_share_of_its_job() -> None:
    """y + 1/2 = 3 (1 - y)."""
    assert best_shares(data(lag=np.array([0.5, 0.0]))) == pytest.approx([0.625, 0.375])


def test_a_late_release_takes_from_the_share_of_its_job() -> None:
    """y = 1/5 + 3 (1 - y)."""
    assert best_shares(data(release=np.array([0.0, 0.2]))) == pytest.approx([0.8, 0.2])


def test_a_job_that_only_hurts_gets_nothing() -> None:
    assert best_shares(data(rate=np.array([1.0, 1.0]), lag=np.array([0.0, 2.0]))) == pytest.approx([1.0, 0.0])


def test_jobs_in_sequence_prefer_the_faster() -> None:
    assert best_shares(data(sequences=np.array([[0, 1]]))) == pytest.approx([1.0, 0.0])


def test_shares_sum_to_one_in_every_group() -> None:
    assert best_shares(data(group=np.array([0, 1]))) == pytest.approx([1.0, 1.0])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ArithmeticError):
        best_shares(data(fixed=np.ones(2), sequences=np.array([[0, 1], [1, 0]])))
