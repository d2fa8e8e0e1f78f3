"""The process of a command: when it began, how it ends, and when Ctrl-C has to wait."""

import io
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIG_IGN, SIGINT, SIGTERM, default_int_handler, getsignal, signal
from threading import current_thread, main_thread

from formulations.interruption import INTERRUPTING, INTERRUPTION
from themis_opt.base.clock import SEARCH_CLOCK

PROCESS_START = SEARCH_CLOCK.now()

# Exit code of a request that was not met: a gap was not reached, a named policy has no plan, or runs of a batch failed
UNMET = 1
BAD_INPUT = 2  # exit code of a mistake in options or files
INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it


def remaining(time_limit: float) -> float:
    """Seconds left of a limit that counts from the start of the process."""
    return max(time_limit - (SEARCH_CLOCK.now() - PROCESS_START), 0.0)


def leave(
    reached: float,
    asked: float | None,
    *,
    interrupted: bool = False,
    left_out: Collection[str] = (),
    is_met: bool = True,
    kept: str = "the best schedules so far are kept",
) -> None:
    """End with the exit code of an interrupted search or of a request that was not met, unless all went well.

    `left_out`: policies without a legal plan that were asked for.
    `is_met`: whether the answer, which says so itself, is what was hoped for.
    `kept`: what there is after an interruption.
    """
    import typer

    from themis_opt.base.units import format_percent
    from themis_opt.cli.printing import tell

    if interrupted:
        tell(f"interrupted: {kept}")
        raise typer.Exit(INTERRUPTED)
    if asked is not None and reached > asked:
        tell(f"the gap of {format_percent(asked)} was not reached: {format_percent(reached)}")
        raise typer.Exit(UNMET)
    if left_out:
        tell(f"no legal plan: {', '.join(left_out)}")
        raise typer.Exit(UNMET)
    if not is_met:
        raise typer.Exit(UNMET)


def prepare_streams() -> None:
    """Make printing safe: into closed streams, and of characters that the terminal's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started the process
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def remember_interruptions() -> None:
    """Let Ctrl-C be remembered, as its exception may be lost, unless the process ignores it.

    SIGTERM, with which schedulers of clusters end jobs, does the same: it keeps the best so far.
    """
    if current_thread() is main_thread():
        signal(SIGTERM, INTERRUPTION.handle)
        if getsignal(SIGINT) is default_int_handler:
            signal(SIGINT, INTERRUPTION.handle)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until results are written; outside the main thread it does not arrive anyway."""
    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal(number, SIG_IGN) for number in INTERRUPTING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal(number, handler)
