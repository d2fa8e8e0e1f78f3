"""The process of a command: when it began, how it ends, and when Ctrl-C has to wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread
from time import monotonic

PROCESS_START = monotonic()

UNMET = 1
"""Exit code of a request that was not met: the asked gap was not reached, or runs of a batch failed."""

BAD_INPUT = 2
INTERRUPTED = 130


def remaining(time_limit: float) -> float:
    """Seconds left of a limit that counts from the start of the process."""
    return max(time_limit - (monotonic() - PROCESS_START), 0.0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait until results are written; outside the main thread it does not arrive anyway."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)
    try:
        yield
    finally:
        signal(SIGINT, before)
