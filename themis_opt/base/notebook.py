"""Notebooks: results as sentences above a table, and progress in a line below the cell, which is replaced."""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape

from themis_opt.base.units import format_percent, format_short_time

LINE_WIDTH = 100  # characters of the line, so that each text covers the one before


def show(line: str) -> None:
    """Show a text in the line of a notebook; nothing elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:  # a terminal with IPython has a shell, but no kernel
        print(f"\r{line[:LINE_WIDTH]:{LINE_WIDTH}}\r", end="", flush=True)


def show_best(policy: str, makespan: float, bound: float) -> None:
    """Show the best makespan of a policy so far, and how far it is above the bound, both in picoseconds."""
    if makespan < math.inf:
        gap = f", {format_percent(makespan / bound - 1)} above the bound" if bound else ""
        show(f"{policy}: {format_short_time(makespan)}{gap}")


@contextmanager
def progress_line() -> Iterator[None]:
    """Wipe the line at the end."""
    try:
        yield
    finally:
        show("")


def page(sentences: Iterable[str], headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Sentences as paragraphs and a table below, as HTML."""
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    body = "".join(_row("td", row) for row in rows)
    return f"<div>{paragraphs}<table><thead>{_row('th', headings)}</thead><tbody>{body}</tbody></table></div>"


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
