"""Reports as one HTML file that needs no network: scripts, styles and data are inside."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from themis_opt.reports.cells import cell, is_number
from themis_opt.reports.document import Report
from themis_opt.reports.drawing import styles
from themis_opt.reports.interactive import payload


def render_html(report: Report) -> str:
    """The report as one HTML document, with interactive figures, for any width and for light and dark pages."""
    environment = Environment(
        loader=PackageLoader("themis_opt.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "is_number": is_number}
    look = styles(report)
    return environment.get_template("report.html.jinja").render(
        report=report,
        paragraphs=[text for text in report.description.split("\n\n") if text.strip()],
        figures=_as_script({figure.name: payload(figure, look) for figure in report.figures}),
        plotly=Markup(get_plotlyjs()) if report.figures else "",
        style=_asset("report.css"),
        script=_asset("report.js"),
    )


def _asset(name: str) -> Markup:
    """A file of this package, which needs no escaping."""
    return Markup(files("themis_opt.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def _as_script(value: Mapping[str, Any]) -> Markup:
    """JSON that may stand in a script element: no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
