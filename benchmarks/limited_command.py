"""A command line in a process that is there already."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from themis_opt.cli import process
from themis_opt.cli.main import application


def count_processor_time() -> None:
    """Let limits of time count what the process took of processors, so that other work on the machine does not count.

    The limits of CP-SAT are wall time all the same, and so no longer.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(("themis_opt.", "formulations.")) and getattr(module, "monotonic", None) is time.monotonic:
            module.monotonic = time.process_time  # type: ignore[attr-defined]


def run_command(arguments: Sequence[str]) -> None:
    """Run a command line as if its process began now, without a word."""
    process.PROCESS_START = process.SEARCH_CLOCK.now()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            application()(arguments, standalone_mode=False)
        except SystemExit:
            pass
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
