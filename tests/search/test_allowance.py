"""What is left of the time of a search."""

import pytest

from themis_opt.search import allowance
from themis_opt.search.allowance import Allowance


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that allowances read."""
    clock = Clock()
    monkeypatch.setattr(allowance, "monotonic", clock)
    return clock


def test_wall_time_counts_itself(clock: Clock) -> None:
    allowance = Allowance(5.0)
    clock.now += 3.0
    assert allowance.left == 2.0


def test_work_is_charged(clock: Clock) -> None:
    allowance = Allowance(5.0, counts_work=True)
    allowance.charge(3.0)
    allowance.charge(1.0)
    assert allowance.left == 1.0


@pytest.mark.parametrize("counts_work", [False, True])
def test_what_is_overdrawn_is_negative(clock: Clock, counts_work: bool) -> None:
    allowance = Allowance(5.0, counts_work)
    allowance.charge(7.0)
    clock.now += 7.0
    assert allowance.left == -2.0


@pytest.mark.parametrize("counts_work", [False, True])
def test_a_turn_ends_before_the_allowance_and_a_turn_within_it_no_later(clock: Clock, counts_work: bool) -> None:
    allowance = Allowance(5.0, counts_work)
    with allowance.turn(3.0):
        assert allowance.left == 3.0
        allowance.charge(1.0)
        clock.now += 1.0
        with allowance.turn(9.0):
            assert allowance.left == 2.0
    assert allowance.left == 4.0
