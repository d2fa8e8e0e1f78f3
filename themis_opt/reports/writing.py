"""Reports as files."""

from pathlib import Path

from themis_opt.documents import write_atomically
from themis_opt.formats.gantt import save_figure
from themis_opt.reports.document import Report
from themis_opt.reports.drawing import styles
from themis_opt.reports.markdown import render_markdown
from themis_opt.reports.svg import draw

MARKDOWN, HTML = "README.md", "report.html"


def write_report(report: Report, folder: Path, html: bool = True) -> list[Path]:
    """Write the Markdown, one SVG per figure and, if asked for, the HTML of a report into `folder`.

    Returns
    -------
    list of Path
        The files, pictures first, so that no document refers to a picture that is not there yet.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    look = styles(report)
    pictures = [folder / f"{figure.name}.svg" for figure in report.figures]
    for figure, path in zip(report.figures, pictures, strict=True):
        save_figure(draw(figure, look), path)
    write_atomically(folder / MARKDOWN, render_markdown(report))
    if not html:
        return [*pictures, folder / MARKDOWN]

    from themis_opt.reports.html import render_html  # plotly is only needed here

    write_atomically(folder / HTML, render_html(report))
    return [*pictures, folder / MARKDOWN, folder / HTML]
