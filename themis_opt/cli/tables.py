"""Tables on a terminal: as wide as it is, words whole, and the unit of a column once, in its heading."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

BETWEEN = 2  # blanks between columns
SHORT = 16  # letters up to which a cell stays on one line
READABLE = 24  # letters of a longer text for which there should be room in a line
NOTHING = ("0", "-", "")  # cells that need no unit
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
    matches = {cell: _CELL_QUANTITY.fullmatch(cell) for cell in cells if cell not in NOTHING}
    known = [match for match in matches.values() if match is not None]
    units = {match["unit"] or match["factor"] for match in known}
    if len(known) < len(matches) or len(units) != 1:
        return Shown(heading, tuple(cells), all(map(_is_number, cells)))
    bare = [match["number"] + (match["note"] or "") if (match := matches.get(cell)) else cell for cell in cells]
    return Shown(f"{heading}\n[{units.pop()}]", tuple(bare), is_number=True)


def _is_number(cell: str) -> bool:
    return (
        cell in NOTHING
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


def print_ruled(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, in several parts where the terminal is too narrow for one."""
    console = Console(highlight=False)
    columns = columns_of(headings, rows)
    console.print(Text(title, style="italic"))
    for block in blocks(columns, console.width):
        table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for column, width in zip(block, widths(block, console.width), strict=True):
            table.add_column(
                Text(column.heading), justify="right" if column.is_number else "left", width=width, overflow="fold"
            )
        for row in zip(*(column.cells for column in block), strict=True):
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()
