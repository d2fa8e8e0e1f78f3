"""What the command line prints: tables for people, plain lines in a pipe, JSON for machines."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from themis_opt.base.errors import printable
from themis_opt.base.units import Form, cells, format_percent

if TYPE_CHECKING:
    from pathlib import Path

    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.verification import VerifyReport


BETWEEN = 2  # blanks between columns
SHORT = 16  # letters up to which a cell stays on one line
READABLE = 24  # letters of a longer text for which there should be room in a line
UNITLESS = ("0", "-", "")  # cells that need no unit
_CELL_QUANTITY = re.compile(r"(?P<number>[-+]?[\d.,/]+)(?: (?P<unit>[^\s\d]+)|(?P<factor>x))(?P<note> \(.*\))?")


@dataclass(frozen=True)
class Shown:
    """A column with its heading; `least` and `most` are the widths of its longest word and of its longest line."""

    heading: str
    cells: tuple[str, ...]
    is_number: bool

    @property
    def texts(self) -> tuple[str, ...]:
        """The heading and all cells."""
        return (self.heading, *self.cells)

    @property
    def least(self) -> int:
        """Width without which a word breaks."""
        words = (word for line in self.heading.split("\n") for word in line.split())
        cells = (part for cell in self.cells for part in ([cell] if len(cell) <= SHORT else cell.split()))
        return max(map(len, (*words, *cells)), default=0)

    @property
    def readable(self) -> int:
        """Width with which sentences do not stand as columns of single words."""
        return max(self.least, min(self.most, READABLE))

    @property
    def most(self) -> int:
        """Width with which nothing wraps."""
        return max(len(line) for text in self.texts for line in text.split("\n"))


def columns_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Shown]:
    """The columns of a table, each with the one unit that all its cells have in its heading."""
    return [_with_unit(heading, [row[place] for row in rows]) for place, heading in enumerate(headings)]


def _with_unit(heading: str, cells: Sequence[str]) -> Shown:
    matches = {cell: _CELL_QUANTITY.fullmatch(cell) for cell in cells if cell not in UNITLESS}
    known = [match for match in matches.values() if match is not None]
    units = {match["unit"] or match["factor"] for match in known}
    if len(known) < len(matches) or len(units) != 1:
        return Shown(heading, tuple(cells), all(map(_is_number, cells)))
    bare = [match["number"] + (match["note"] or "") if (match := matches.get(cell)) else cell for cell in cells]
    return Shown(f"{heading}\n[{units.pop()}]", tuple(bare), is_number=True)


def _is_number(cell: str) -> bool:
    return (
        cell in UNITLESS
        or _CELL_QUANTITY.fullmatch(cell) is not None
        or cell.replace(",", "").replace(".", "").isdigit()
    )


def blocks(columns: Sequence[Shown], width: int) -> Iterator[list[Shown]]:
    """The columns in as few tables of at most some width as keep words whole, those that name a row in each."""
    names = list(columns[: _num_names(columns, width)])
    block = list(names)
    for column in columns[len(names) :]:
        if len(block) > len(names) and _room([*block, column]) > width:
            yield block
            block = list(names)
        block.append(column)
    yield block


def _num_names(columns: Sequence[Shown], width: int) -> int:
    """How many columns name a row: two where rows share the first, differ in both, and leave room for any other."""
    first, *others = columns
    rows = list(zip(*(column.cells for column in columns[:2]), strict=True))
    if len(others) < 2 or len(set(first.cells)) == len(rows) or len(set(rows)) < len(rows):
        return 1
    return 2 if all(_room([first, others[0], column]) <= width for column in others[1:]) else 1


def _room(columns: Sequence[Shown]) -> int:
    return sum(column.readable + BETWEEN for column in columns) - BETWEEN


def widths(columns: Sequence[Shown], width: int) -> list[int]:
    """Widths of the columns of a block: the widest give way, none below its longest word if that is possible."""
    left = width - BETWEEN * (len(columns) - 1)
    widest = [column.most for column in columns]
    while sum(widest) > max(left, len(columns)):
        can = [place for place, column in enumerate(columns) if widest[place] > column.least]
        widest[max(can or range(len(columns)), key=widest.__getitem__)] -= 1
    return widest


ShownColumns = Mapping[str, tuple[str, Form]]  # title and form of what a table shows, by the names of columns

MOST_LINES = 2  # files of one folder that have a line each
SMALL_CHUNK = 64 * 2**10  # bytes below which launches and headers, which networks have, cost about as much as the data


def say(text: str) -> None:
    """Print lines; names may hold anything, and what a terminal would obey is spelled out."""
    for line in printable(text, keep="\n").split("\n"):
        typer.echo(_wrapped(line, sys.stdout))


def tell(line: str) -> None:
    """Print a line on the error stream, if anybody still reads it."""
    with suppress(OSError):
        typer.echo(_wrapped(printable(line), sys.stderr), err=True)


def tell_note(line: str) -> None:
    """Print what a user should know beside the results, on the error stream."""
    tell(f"note: {line}")


def _wrapped(line: str, stream: TextIO) -> str:
    """The line as it is, on a terminal with line breaks between words."""
    if not is_terminal(stream):
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def is_terminal(stream: TextIO) -> bool:
    """Whether people read a stream as it is printed."""
    return stream.isatty()


def tell_files(files: Iterable["Path"]) -> None:
    """Say which files were written: many of one folder in one line."""
    by_folder: dict[Path, list[Path]] = {}
    for path in files:
        by_folder.setdefault(path.parent, []).append(path)
    for folder, paths in by_folder.items():
        if len(paths) > MOST_LINES:
            tell(f"wrote {len(paths)} files into {folder}: {', '.join(path.name for path in paths)}")
            continue
        for path in paths:
            tell(f"wrote {path}")


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: ruled on a terminal, in parts where that is too narrow for one, and tab-separated in a pipe."""
    if not is_terminal(sys.stdout):
        typer.echo(f"# {printable(title)}")
        for row in (columns, *rows):
            typer.echo("\t".join(printable(cell) for cell in row))
        return

    shown = columns_of(columns, [[printable(cell) for cell in row] for row in rows])
    console = Console(highlight=False)
    console.print(Text(printable(title), style="italic"))
    for block in blocks(shown, console.width):
        table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for column, width in zip(block, widths(block, console.width), strict=True):
            table.add_column(
                Text(column.heading), justify="right" if column.is_number else "left", width=width, overflow="fold"
            )
        for row in zip(*(column.cells for column in block), strict=True):
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()


def print_rows(title: str, rows: Sequence[Mapping[str, Any]], shown: ShownColumns) -> None:
    """Print values of rows as a table: by their names those `shown` that there are, with their titles and forms."""
    shown = {name: how for name, how in shown.items() if all(name in row for row in rows)}
    texts = [cells(form, [row[name] for row in rows]) for name, (_, form) in shown.items()]
    print_table(title, [heading for heading, _ in shown.values()], list(zip(*texts, strict=True)))


def times_in_words(schedule: "Schedule") -> str:
    """What a schedule takes: the times among its columns."""
    from themis_opt.study.columns import columns_of

    times = [column for column in columns_of([schedule], judged=False) if column.form == "time" and column.title]
    return ", ".join(f"{column.title} {cells(column.form, [column.value(schedule)])[0]}" for column in times)


def assumptions(instance: "Instance", sizes: str) -> str:
    """The name of an instance, and under what its schedules are compared; of an iteration what a start-up costs too."""
    latency = {"occupy": "occupies", "lag": "lags"}[instance.latency]
    rules = f", start-up latency {latency}" if instance.tasks else ""
    return f"{instance.name or 'instance'}, chunk sizes {sizes}{rules}"


def free_cuts_in_words(schedules: Sequence["Schedule"]) -> list[str]:
    """A note where small chunks look better than they are."""
    from themis_opt.base.units import format_size
    from themis_opt.problem.cost_overrides import is_free_to_cut

    smallest = min(int(chunks.sizes.min()) for schedule in schedules for chunks in schedule.plan.chunks)
    if smallest >= SMALL_CHUNK or not is_free_to_cut(schedules[0].instance):
        return []
    size = format_size(smallest)
    return [f"launches cost nothing, and the smallest chunk has {size}; state --launch-overhead or --packet"]


def moved_data_in_words(report: "VerifyReport") -> list[str]:
    """What a verification on data has run."""
    from themis_opt.base.units import format_bandwidth, format_short_size

    shapes = ", ".join("x".join(str(size) for size in sizes) for sizes in report.sizes)
    reduced = "reduced to " if report.reduced else ""
    port = report.busiest_port
    carried = f"{format_short_size(port.bytes)} on {port.dimension}, at {format_bandwidth(port.bandwidth)}"
    return [
        f"data: every NPU ends with its result, on {reduced}{shapes} NPUs, {report.num_paths} paths",
        f"busiest port: {port.port} {carried} for {format_percent(port.share)} of the makespan",
    ]
