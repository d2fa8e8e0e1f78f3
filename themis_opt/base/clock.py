"""The clock of limits on time, which stands still while the main thread waits for the compiler."""

from threading import current_thread, main_thread
from time import monotonic


class SearchClock:
    """Seconds that pass, without those for which the main thread stopped it; other threads stop nothing."""

    def __init__(self) -> None:
        self._stops, self._stopped_at, self._lost = 0, 0.0, 0.0

    def now(self) -> float:
        """Seconds since some moment."""
        return (self._stopped_at if self._stops else monotonic()) - self._lost

    def stop(self) -> None:
        """Let no time pass until as many calls of :meth:`go`."""
        if current_thread() is main_thread():
            if not self._stops:
                self._stopped_at = monotonic()
            self._stops += 1

    def go(self) -> None:
        """Go on, where this ends the first stop."""
        if current_thread() is main_thread():
            self._stops -= 1
            if not self._stops:
                self._lost += monotonic() - self._stopped_at


SEARCH_CLOCK = SearchClock()
