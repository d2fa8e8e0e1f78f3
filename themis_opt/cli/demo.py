"""``themis-opt demo``: a small instance, solved, and its page in a browser."""

import sys
from pathlib import Path
from typing import Annotated

from themis_opt.cli import options

DEMONSTRATED = "fig5.all_reduce.256MB"  # the example of the Themis paper: few chunks, and an optimum that is proven


def demo(
    output: Annotated[Path, options.output("Folder for the schedule and its page.")] = Path("themis-opt-demo"),
) -> None:
    """Solve the small example of the Themis paper, and open the page of its schedule in a browser.

    Without a terminal, name the page alone.
    """
    from themis_opt.cli.compare import compare_and_write
    from themis_opt.cli.printing import is_terminal, say
    from themis_opt.reports.solution import PAGE

    instance = options.load_instance(DEMONSTRATED)
    search = options.SearchOptions(time_limit=10, sizes="free")
    compare_and_write(instance, None, search, folder=output, as_json=False, usual=True)
    page = (output / PAGE).resolve()
    say(f"Two dimensions of four NPUs each: the best order keeps both busy. See it in {page}")
    if is_terminal(sys.stdout):
        import webbrowser

        webbrowser.open(page.as_uri())
