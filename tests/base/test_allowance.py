"""What is left of the time of a search."""

import signal
import weakref
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread, Timer
from time import process_time
from typing import Any

import pytest

from formulations.interruption import TimeUp, count_work, is_over
from themis_opt.base import allowance
from themis_opt.base.allowance import Allowance, cut_off


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
    monkeypatch.setattr(allowance.SEARCH_CLOCK, "now", clock)
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


def test_work_is_cut_off_where_it_is_counted() -> None:
    allowance = Allowance(5.0, counts_work=True)
    with allowance.turn(1.0), cut_off(allowance, 2.0):
        count_work(6.5)  # over its turn and the allowance, within the overtime
        with pytest.raises(TimeUp):
            count_work(1.0)
    count_work(9.0)  # nobody counts it
    assert allowance.left == -2.5


def test_a_finaliser_ends_before_time_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints an exception within it, and drops it."""
    lost_exceptions: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda lost: lost_exceptions.append(lost.exc_type))

    class Slow:
        def __del__(self) -> None:
            end = process_time() + 0.05
            while process_time() < end:
                pass

    monkeypatch.setattr(allowance, "AGAIN_SECONDS", 0.01)
    with suppress(TimeUp), cut_off(Allowance(0.01)):
        Slow()
        endless()
    assert lost_exceptions == []


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


def endless() -> None:
    while True:
        pass


def test_time_that_python_drops_is_heard_of_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a generator is given up, and in the callback of a weak reference, which are all that this work does."""

    def busy(_: object = None) -> None:
        sum(range(300))

    def given_up() -> Iterator[None]:
        try:
            yield
        finally:
            busy()

    def freed() -> None:
        while True:
            next(given_up())
            weakref.ref(type("Freed", (), {})(), busy)

    for _ in range(5):
        began = process_time()
        with suppress(TimeUp), cut_off(Allowance(0.002)):
            freed()
        assert process_time() - began < 5.0
    assert capsys.readouterr().err == ""


def test_work_is_cut_off_where_time_is_up() -> None:
    with pytest.raises(TimeUp), cut_off(Allowance(0.01)):
        endless()


@pytest.mark.parametrize("wall_seconds", [0.01, 3600.0])
def test_an_exception_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch, wall_seconds: float) -> None:
    """CPU time lets it come again soon where wall time lets it come in an hour."""
    monkeypatch.setattr(allowance, "AGAIN_SECONDS", wall_seconds)
    lost: list[str] = []
    with suppress(TimeUp), cut_off(Allowance(0.01)):
        with suppress(TimeUp):
            endless()
        lost.append("the first")
        endless()
    assert lost == ["the first"]


def test_a_timer_that_rings_before_the_time_is_up_rings_again(clock: Clock) -> None:
    early = Allowance(0.01)
    rings: list[float] = []

    def tell(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        rings.append(seconds)
        if len(rings) == 3:
            clock.now += 1.0
        return setitimer(which, seconds, interval)

    setitimer = signal.setitimer
    with pytest.MonkeyPatch.context() as patch, suppress(TimeUp), cut_off(early):
        patch.setattr(signal, "setitimer", tell)
        endless()
    assert rings[:2] == pytest.approx([0.01, 0.01])


def test_overtime_is_for_all_work_together() -> None:
    late = Allowance(0.0)
    with pytest.raises(TimeUp), cut_off(late, 0.05):
        endless()
    assert late.overtime >= 0.05
    reached: list[str] = []
    with suppress(TimeUp), cut_off(late, 0.05):
        endless()
        reached.append("the end")
    assert not reached


def test_a_compiler_may_end_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "AGAIN_SECONDS", 0.01)
    compiler: dict[str, Any] = {"__name__": "numba.core", "process_time": process_time}
    exec("def compile():\n end = process_time() + 0.05\n while process_time() < end: pass", compiler)
    ended: list[str] = []
    with suppress(TimeUp), cut_off(Allowance(0.0)):
        compiler["compile"]()
        ended.append("compiled")
        endless()
    assert ended == ["compiled"]


def test_work_that_ends_in_time_is_left_alone() -> None:
    with cut_off(Allowance(100.0)):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_work_that_is_counted_is_not_cut_off() -> None:
    with cut_off(Allowance(0.0, counts_work=True)):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_that_another_thread_takes_is_heard_while_a_thread_is_waited_for() -> None:
    """Without waking the main thread would hear of it once that has ended, which takes a minute."""
    released, answers = Event(), list[bool]()
    thread = Thread(target=lambda: answers.append(released.wait(60.0)), daemon=True)
    thread.start()
    Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        is_over(thread, None)
    assert answers == []
    released.set()
