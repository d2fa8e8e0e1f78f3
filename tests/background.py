"""Waiting for what commands in the background do, without a guess of how fast the machine is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

Found = TypeVar("Found")

PATIENCE = 300
"""Seconds after which a test gives up; only a command that hangs needs them."""

FRAME_BYTES = 24 + 4096


def wait_until(condition: Callable[[], Found], *processes: psutil.Popen) -> Found:
    """What a condition finds once it holds; fails at once if a process that has to bring it about ends before."""
    end = time.monotonic() + PATIENCE
    while True:
        ended = [process for process in processes if process.poll() is not None]
        if found := condition():
            return found
        assert not ended, f"{ended} ended too early"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def has_rows(store: Path) -> bool:
    """Whether a batch that has its store open, and therefore locked, has committed a row to it.

    The journal (https://www.sqlite.org/fileformat.html#walformat) is a header and frames of a page each; the last frame
    of a commit has the size of the database at its bytes 4 to 8, the others zero.
    """
    journal, found = store.with_name(f"{store.name}-wal"), False
    frames = journal.read_bytes()[32:] if journal.exists() else b""
    for begin in range(0, len(frames) - FRAME_BYTES + 1, FRAME_BYTES):
        frame = frames[begin : begin + FRAME_BYTES]
        found |= b'"seed"' in frame
        if found and any(frame[4:8]):
            return True
    return False


def kill(*processes: psutil.Process) -> None:
    """End processes that a test started, with their children."""
    for process in processes:
        if process.is_running():
            for child in [*process.children(recursive=True), process]:
                child.kill()
        process.wait()
