"""``python -m themis_opt``."""

import sys

from themis_opt.cli import process  # first, because time limits count from here


def run() -> None:
    """Run the command line; Ctrl-C while it still loads ends it like Ctrl-C later."""
    process.prepare_streams()
    process.remember_interruptions()
    try:
        from themis_opt.cli.main import application

        application()(prog_name="themis-opt")  # the name that completion is installed for
    except KeyboardInterrupt:
        sys.exit(process.INTERRUPTED)


if __name__ == "__main__":
    run()
