"""Reports as Markdown, with their figures as SVG files beside it."""

import re

from themis_opt.reports.cells import cell, is_number
from themis_opt.reports.document import Figure, Report, Section, Table


def render_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown; the picture of a figure is ``NAME.svg`` in the same folder."""
    parts = [f"# {_escaped(report.title)}", report.description]
    parts += (
        ["## Summary", "\n".join(f"- {_escaped(sentence)}" for sentence in report.summary)] if report.summary else []
    )
    parts += [_section(section) for section in report.sections]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> str:
    parts = [f"## {_escaped(section.heading)}"]
    parts += [_escaped(paragraph) for paragraph in section.text]
    parts += [_table(table) for table in section.tables]
    parts += [_figure(figure) for figure in section.figures]
    return "\n\n".join(parts)


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
    return re.sub(r"([\\`*|<>\[\]$~]|\b_|_\b)", r"\\\1", " ".join(text.split()))
