"""Reports as files: Markdown with pictures beside it, and one HTML page that needs no network."""

import json
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from platformdirs import user_cache_path
from vl_convert import javascript_bundle

from themis_opt.base.documents import digest, make_folder, read_text, write_atomically, write_to_cache
from themis_opt.base.errors import InputError, printable
from themis_opt.reports.rendering.charts import CONFIG, ON_DARK, save, specification
from themis_opt.reports.rendering.document import Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import cell, is_number

MARKDOWN, HTML = "README.md", "report.html"

MARK = "<!-- themis-opt report -->\n"  # the last line of the Markdown and the pictures of a report
MARKS = (MARK.strip().encode(), b'content="themis-opt report"')  # one of them stands in every file of a report
MOST_SENTENCES = 5  # sentences of a summary that are not folded
MAX_SCRIPT_BYTES = 16 * 2**20  # largest script that is read from the cache: Vega, Vega-Lite and Vega-Embed have 1 MB
MOST_OPEN_ROWS = 12  # rows of a table up to which it is not folded on pages, and which Markdown shows of it
ELSEWHERE = f"All tables and interactive figures are in `{HTML}`, which `themis-opt report` writes beside this file."


def write_report(report: Report, folder: Path, html: bool = True) -> list[Path]:
    """Write the Markdown, one SVG per figure and, if asked for, the HTML of a report into `folder`.

    Raises InputError if a file cannot be written, or another one is in its place that no report left; nothing is
    written then.

    Returns the files, pictures first, so that no document refers to a picture that is not there yet.
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
        rule = "is no file of a report: move it away, or name another folder with -o"
        raise InputError(rule, source=str(path))


def render_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown; the picture of a figure is ``NAME.svg`` in the same folder.

    It is the short form: the first sentences, the figures, and the first table of a section without a figure.  The
    first figure is open, sections are folded.
    """
    first = "\n".join(f"- {_escaped(sentence)}" for sentence in report.summary[:MOST_SENTENCES])
    headline = report.headline
    verdict = f"**{_escaped(report.verdict)}**" if report.verdict else ""
    parts = [f"# {_escaped(report.title)}", verdict, report.description, f"## Summary\n\n{first}" if first else ""]
    parts += [_figures(headline)]
    parts += [_folded(section, headline) for section in report.sections]
    parts += [ELSEWHERE]
    return "\n\n".join(part for part in parts if part) + "\n"


def _folded(section: Section, shown: Collection[Figure]) -> str:
    """A section that a click on its heading opens; pages of other tools read it as Markdown too."""
    text = " ".join(_escaped(paragraph) for paragraph in section.text)
    tables = [] if section.figures else [_table(table) for table in section.tables[:1]]
    contents = [text, *tables, _figures([figure for figure in section.figures if figure not in shown])]
    body = "\n\n".join(part for part in contents if part)
    opening = f'<details markdown="1"><summary><b>{escape(section.heading)}</b></summary>'
    return f"{opening}\n\n{body}\n</details>" if body else ""


def _table(table: Table) -> str:
    formats = [column.format for column in table.columns]
    lines = [
        [_escaped(column.name) for column in table.columns],
        ["---:" if is_number(form) else "---" for form in formats],
        *([_escaped(cell(*pair)) for pair in zip(row, formats, strict=True)] for row in table.rows[:MOST_OPEN_ROWS]),
    ]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{_escaped(table.caption)}\n\n{text}" if table.caption else text


def _figures(figures: Iterable[Figure]) -> str:
    """Pictures one below the other; what several in a row have to say is said once, below the last of them."""
    parts = []
    for caption, alike in groupby(figures, key=lambda figure: figure.caption):
        parts.append("\n".join(f"![{_escaped(figure.title)}]({figure.name}.svg)" for figure in alike))
        parts += [_escaped(caption)] if caption else []
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """The text without line breaks, and with what Markdown would read as markup escaped."""
    return re.sub(r"([\\`*|<>\[\]$~]|\b_|_\b)", r"\\\1", printable(" ".join(text.split())))


def render_html(report: Report) -> str:
    """The report as one HTML document, with interactive charts, for any width and for light and dark pages."""
    environment = Environment(
        loader=PackageLoader("themis_opt.reports.rendering", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value, keep="\n\t\r") if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "is_number": is_number}
    return environment.get_template("report.html.jinja").render(
        report=report,
        headline=report.headline,
        most_sentences=MOST_SENTENCES,
        most_rows=MOST_OPEN_ROWS,
        paragraphs=[text for text in report.description.split("\n\n") if text.strip()],
        style=_asset("report.css"),
        **(_scripts(report.figures) if report.figures else {}),
    )


def _scripts(figures: tuple[Figure, ...]) -> dict[str, str]:
    """What draws the figures: the libraries once, the charts as data, and the script of the page."""
    charts = {figure.name: specification(figure.chart) for figure in figures}
    data = {"charts": charts, "config": CONFIG, "onDark": dict(ON_DARK)}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # no text in it may end the element
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return {"vega": Markup(_vega()), "data": Markup(text), "script": _asset("report.js")}


def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, kept in the user's cache folder: bundling them takes a second.

    The name of the file holds a digest of the script, so that a file that was changed or cut off is made anew.
    """
    folder, name = user_cache_path("themis_opt", appauthor=False), f"vega-{version('vl-convert-python')}"
    for path in folder.glob(f"{name}-*.js"):
        with suppress(InputError):
            script = read_text(path, "JavaScript", MAX_SCRIPT_BYTES)
            if path.name == f"{name}-{digest(script)}.js":
                return script
    script = javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(InputError):  # a folder that cannot be written costs the second again
        make_folder(folder)
        write_to_cache(folder / f"{name}-{digest(script)}.js", script)
    return script


def _asset(name: str) -> str:
    return Markup(files("themis_opt.reports.rendering").joinpath("assets", name).read_text(encoding="utf-8"))
