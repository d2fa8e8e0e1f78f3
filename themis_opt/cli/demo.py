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

    instance = options.load_instance(DEMONSTRATED)
    search = options.SearchOptions(time_limit=10, sizes="free")
    compare_and_write(instance, None, search, folder=output, as_json=False, usual=True)
    page = (output / "schedule.html").resolve()
    seen = page if page.exists() else page.with_name("order.json")
    say(f"Two dimensions of four NPUs each: the best order keeps both busy. See it in {seen}")
    if seen == page and is_terminal(sys.stdout):
        import webbrowser

        webbrowser.open(page.as_uri())
