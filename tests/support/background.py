"""Waiting for what commands in the background do, without a guess of how fast the machine is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

import psutil

Found = TypeVar("Found")

PATIENCE = 300  # seconds after which a test gives up; only a command that hangs needs them
LISTENING = (
    "import runpy, signal\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "runpy.run_module('themis_opt', run_name='__main__')\n"
)
"""The command with Ctrl-C enabled: background jobs of a shell, and what they start, begin with it ignored."""

JOURNAL_HEADER, FRAME_HEADER = 32, 24  # bytes of the headers of a journal of SQLite and of its frames


def wait_until(condition: Callable[[], Found], *processes: psutil.Popen) -> Found:
    """What a condition finds once it holds; fails at once if a process that has to bring it about ends before."""
    end = time.monotonic() + PATIENCE
    while True:
        ended = [process for process in processes if process.poll() is not None]
        if answer := condition():
            return answer
        assert not ended, f"{ended} ended too early"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def read_until(text: str, stream: IO[str]) -> None:
    """Read lines of a process up to the first that holds a text."""
    assert any(text in line for line in stream), f"ended without {text!r}"


def has_rows(store: Path) -> bool:
    """Whether a batch that has its store open, and therefore locked, has committed a row to it.

    The journal (https://www.sqlite.org/fileformat.html#walformat) is a header, with the size of a page at its bytes 8
    to 12, and frames of a page each; the last frame of a commit has the size of the database at its bytes 4 to 8, the
    others zero.
    """
    journal, has_row = store.with_name(f"{store.name}-wal"), False
    content = journal.read_bytes() if journal.exists() else b""
    step = FRAME_HEADER + int.from_bytes(content[8:12])
    for begin in range(JOURNAL_HEADER, len(content) - step + 1, step):
        frame = content[begin : begin + step]
        has_row |= b'"seed"' in frame
        if has_row and any(frame[4:8]):
            return True
    return False


def kill(*processes: psutil.Process) -> None:
    """End processes that a test started, with their children, and close what was read of them."""
    for process in processes:
        if process.is_running():
            for child in [*process.children(recursive=True), process]:
                child.kill()
        process.wait()
        for stream in (getattr(process, name, None) for name in ("stdin", "stdout", "stderr")):
            if stream is not None:
                stream.close()
