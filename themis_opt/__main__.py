"""``python -m themis_opt``."""

import themis_opt.cli.clock  # noqa: F401 - first, because time limits count from here
from themis_opt.cli.main import run

if __name__ == "__main__":
    run()
