"""The clock of limits on time."""

from threading import Thread

import pytest

from themis_opt.base import clock
from themis_opt.base.clock import SearchClock


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the machine, set by hand."""
    seconds = [10.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    return seconds


def test_no_time_passes_until_the_first_stop_ends(seconds: list[float]) -> None:
    searching = SearchClock()
    began = searching.now()
    seconds[0] += 1.0
    searching.stop()
    seconds[0] += 20.0
    searching.stop()
    seconds[0] += 20.0
    searching.go()
    seconds[0] += 20.0
    assert searching.now() == began + 1.0
    searching.go()
    seconds[0] += 2.0
    assert searching.now() == began + 3.0


def test_other_threads_stop_nothing(seconds: list[float]) -> None:
    searching = SearchClock()
    began = searching.now()
    thread = Thread(target=searching.stop)
    thread.start()
    thread.join()
    seconds[0] += 1.0
    assert searching.now() == began + 1.0
