"""What a report says, apart from how it is written: sections of text, tables and figures."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import altair

CellValue = float | int | str | None  # a cell of a table; None where there is nothing to say


@dataclass(frozen=True)
class Column:
    """Heading of a column, and the format of its cells, of :data:`themis_opt.reports.rendering.tables.CELL_FORMATS`."""

    name: str
    format: str = "text"


@dataclass(frozen=True)
class Table:
    """Rows of values under columns."""

    columns: tuple[Column, ...]  # headings and formats
    rows: tuple[tuple[CellValue, ...], ...]  # one value per column
    caption: str = ""  # a sentence above the table


@dataclass(frozen=True)
class Figure:
    """A chart in a report."""

    name: str  # stem of the SVG file, unique in the report: letters, digits and hyphens
    title: str
    chart: "altair.LayerChart | altair.VConcatChart"  # what is drawn, of charts
    caption: str = ""  # what to see in it


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then tables, then figures; folded away on pages unless it is open."""

    heading: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    is_open: bool = False


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    summary: tuple[str, ...]  # the results, in sentences with numbers
    sections: tuple[Section, ...]
    description: str = ""  # what the experiment is about; paragraphs with empty lines between them
    verdict: str = ""  # the one sentence for whoever reads no other

    @property
    def headline(self) -> tuple[Figure, ...]:
        """The first figure, which stands before all sections, unless it is in an open one; none without figures."""
        is_shown = any(section.is_open and section.figures for section in self.sections)
        return () if is_shown else self.figures[:1]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of all sections."""
        return tuple(figure for section in self.sections for figure in section.figures)
