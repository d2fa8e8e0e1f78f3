"""What a report says, apart from how it is drawn: sections of text, tables and figures.

All values are plain numbers and texts.  The renderers (:mod:`themis_opt.reports.markdown`,
:mod:`themis_opt.reports.html`) format them by the names in :data:`themis_opt.reports.cells.FORMATS`.
"""

from dataclasses import dataclass
from typing import Literal

Value = float | int | str | None
"""A cell of a table, or a place along an axis; None where there is nothing to say."""

Kind = Literal["line", "step", "scatter", "bar", "stack", "box", "heatmap"]


@dataclass(frozen=True)
class Column:
    """Heading of a column, and the format of its cells."""

    name: str
    format: str = "text"


@dataclass(frozen=True)
class Table:
    """Rows of values under columns.

    Parameters
    ----------
    columns : tuple of Column
        Headings and formats.
    rows : tuple of tuple
        One value per column.
    caption : str
        A sentence above the table.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Axis:
    """Label of an axis, whether it is logarithmic, and the format of its numbers."""

    label: str
    log: bool = False
    format: str = "number"


@dataclass(frozen=True)
class Series:
    """One curve, cloud, row of bars or box of a figure, or the cells of a heatmap.

    Parameters
    ----------
    name : str
        Text of the legend; series of one name have one colour throughout a report.
    x, y : tuple
        Places along the axes.  A box has only `y`, and stands at its name.
    low, high : tuple of float
        Range around each `y`, drawn as a band around a line; empty for none.
    cells : tuple of tuple of float or None
        Colours of a heatmap, one row per `y`.
    guide : bool
        Whether the line is only there to compare with, drawn thin and grey.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    cells: tuple[tuple[float | None, ...], ...] = ()
    guide: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure, drawn by plotly in HTML and by matplotlib in SVG.

    Parameters
    ----------
    name : str
        Stem of the SVG file, unique in the report: letters, digits and hyphens.
    title : str
        Headline.
    kind : str
        How all series but guides are drawn; guides are lines.  A ``step`` keeps its value until the next x.
        A ``heatmap`` has one series.
    x, y : Axis
        Axes; those of a heatmap, and x of bars, stacks and boxes, hold names.
    series : tuple of Series
        What is drawn.
    caption : str
        What to see in it.
    colours : Axis
        What the colours of a heatmap say.
    """

    name: str
    title: str
    kind: Kind
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    caption: str = ""
    colours: Axis = Axis("")


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then tables, then figures."""

    heading: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Report:
    """A whole report.

    Parameters
    ----------
    title : str
        Headline.
    summary : tuple of str
        What was found, in sentences with numbers.
    sections : tuple of Section
        The details.
    description : str
        What the experiment is about; paragraphs with empty lines between them.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    description: str = ""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of all sections."""
        return tuple(figure for section in self.sections for figure in section.figures)
