"""A command line in a process that is there already."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from themis_opt.cli import process
from themis_opt.cli.main import application


def run_command(arguments: Sequence[str]) -> None:
    """Run a command line as if its process began now, without a word."""
    process.PROCESS_START = monotonic()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            application()(arguments, standalone_mode=False)
        except SystemExit:
            pass
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
