"""``python -m themis_opt``."""

import sys

import themis_opt.cli.clock  # noqa: F401 - first, because time limits count from here
from themis_opt.cli import exit_codes


def run() -> None:
    """Run the command line; Ctrl-C while it still loads ends it like Ctrl-C later."""
    try:
        from themis_opt.cli.main import application

        application()()
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)


if __name__ == "__main__":
    run()
