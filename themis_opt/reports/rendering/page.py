"""Reports as files: Markdown with pictures beside it, and one HTML page that needs no network."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from platformdirs import user_cache_path
from vl_convert import javascript_bundle

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.base.errors import InputError, printable
from themis_opt.reports.rendering.charts import CONFIG, ON_DARK, save, specification
from themis_opt.reports.rendering.document import Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import cell, is_number

MARKDOWN, HTML = "README.md", "report.html"

MARK = "<!-- themis-opt report -->\n"
"""The last line of the Markdown and the pictures of a report."""

MARKS = (MARK.strip().encode(), b'content="themis-opt report"')
"""One of them stands in every file of a report."""

MOST_SENTENCES = 5
"""Sentences of a summary that are not folded."""

MOST_ROWS = 12
"""Rows of a table up to which it is not folded on pages."""


def write_report(report: Report, folder: Path, html: bool = True) -> list[Path]:
    """Write the Markdown, one SVG per figure and, if asked for, the HTML of a report into `folder`.

    Returns
    -------
    list of Path
        The files, pictures first, so that no document refers to a picture that is not there yet.

    Raises
    ------
    InputError
        If a file cannot be written, or another one is in its place that no report left; nothing is written then.
    """
    pictures = [folder / f"{figure.name}.svg" for figure in report.figures]
    for path in (*pictures, folder / MARKDOWN, *([folder / HTML] if html else [])):
        _check_replaceable(path)
    for figure, path in zip(report.figures, pictures, strict=True):
        save(figure.chart, path, figure.title, MARK)
    write_atomically(folder / MARKDOWN, render_markdown(report) + MARK)
    if not html:
        return [*pictures, folder / MARKDOWN]
    write_atomically(folder / HTML, render_html(report))
    return [*pictures, folder / MARKDOWN, folder / HTML]


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that no report left."""
    try:
        content = path.read_bytes() if path.is_file() else MARKS[0]
    except OSError:
        content = b""
    if not any(mark in content for mark in MARKS):
        rule = "is no file of a report, or one of an older version: move it away, or name another folder with -o"
        raise InputError(rule, source=str(path))


def render_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown; the picture of a figure is ``NAME.svg`` in the same folder.

    The first sentences and the first figure are open, everything else is folded.
    """
    sentences = [f"- {_escaped(sentence)}" for sentence in report.summary]
    first, others = "\n".join(sentences[:MOST_SENTENCES]), "\n".join(sentences[MOST_SENTENCES:])
    headline = report.headline
    verdict = f"**{_escaped(report.verdict)}**" if report.verdict else ""
    parts = [f"# {_escaped(report.title)}", verdict, report.description, f"## Summary\n\n{first}" if first else ""]
    parts += [_figure(figure) for figure in headline]
    parts += [_folded("More findings", [others])] if others else []
    parts += [_folded(section.heading, _contents(section, headline)) for section in report.sections]
    return "\n\n".join(part for part in parts if part) + "\n"


def _folded(heading: str, contents: Iterable[str]) -> str:
    """Contents that a click on their heading opens; pages of other tools read them as Markdown too."""
    body = "\n\n".join(contents)
    return (
        f'<details markdown="1">\n<summary><b>{escape(heading)}</b></summary>\n\n{body}\n\n</details>' if body else ""
    )


def _contents(section: Section, shown: Collection[Figure]) -> list[str]:
    parts = [_escaped(paragraph) for paragraph in section.text]
    parts += [_table(table) for table in section.tables]
    return parts + [_figure(figure) for figure in section.figures if figure not in shown]


def _table(table: Table) -> str:
    formats = [column.format for column in table.columns]
    lines = [
        _line([_escaped(column.name) for column in table.columns]),
        _line(["---:" if is_number(form) else "---" for form in formats]),
        *(_line([_escaped(cell(v, form)) for v, form in zip(row, formats, strict=True)]) for row in table.rows),
    ]
    text = "\n".join(lines)
    return f"{_escaped(table.caption)}\n\n{text}" if table.caption else text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(figure: Figure) -> str:
    picture = f"![{_escaped(figure.title)}]({figure.name}.svg)"
    return f"{picture}\n\n{_escaped(figure.caption)}" if figure.caption else picture


def _escaped(text: str) -> str:
    """The text without line breaks, and with what Markdown would read as markup escaped."""
    return re.sub(r"([\\`*|<>\[\]$~]|\b_|_\b)", r"\\\1", printable(" ".join(text.split())))


def _paragraphs(text: str) -> str:
    """Paragraphs of plain text."""
    return "\n\n".join(_escaped(paragraph) for paragraph in re.split(r"\n\s*\n", text))


def render_html(report: Report) -> str:
    """The report as one HTML document, with interactive charts, for any width and for light and dark pages."""
    environment = Environment(
        loader=PackageLoader("themis_opt.reports.rendering", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "is_number": is_number}
    return environment.get_template("report.html.jinja").render(
        report=report,
        headline=report.headline,
        most_sentences=MOST_SENTENCES,
        most_rows=MOST_ROWS,
        paragraphs=[text for text in report.description.split("\n\n") if text.strip()],
        style=_asset("report.css"),
        **(_scripts(report.figures) if report.figures else {}),
    )


def _scripts(figures: tuple[Figure, ...]) -> dict[str, str]:
    """What draws the figures: the libraries once, the charts as data, and the script of the page."""
    charts = {figure.name: specification(figure.chart) for figure in figures}
    data = {"charts": charts, "config": CONFIG, "onDark": dict(ON_DARK)}
    return {
        "vega": Markup(_vega()),
        "data": _as_script(data),
        "script": _asset("report.js"),
    }


def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, kept in the user's cache folder: bundling them takes a second."""
    path = user_cache_path("themis_opt", appauthor=False) / f"vega-{version('vl-convert-python')}.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        script = javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(InputError):  # a folder that cannot be written costs the second again
        make_folder(path.parent)
        write_atomically(path, script)
    return script


def _asset(name: str) -> str:
    """A file of this package, which needs no escaping."""
    return Markup(files("themis_opt.reports.rendering").joinpath("assets", name).read_text(encoding="utf-8"))


def _as_script(value: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
