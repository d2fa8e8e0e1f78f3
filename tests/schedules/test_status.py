"""What a gap is called."""

import pytest

from themis_opt.schedules.results import status_of


@pytest.mark.parametrize(
    ("gap", "status"),
    [(0, "optimal"), (1e-4, "optimal"), (2e-4, "near-optimal"), (0.01, "near-optimal"), (0.011, "feasible")],
)
def test_a_gap_has_one_status(gap: float, status: str) -> None:
    assert status_of(gap) == status
