"""Ctrl-C while results are written."""

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread


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
