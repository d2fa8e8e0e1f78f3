"""Reports as Markdown, SVG and HTML."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from report_rows import SAMPLED, sample, write_rows

from themis_opt.reports.cells import cell
from themis_opt.reports.document import Axis, Column, Figure, Report, Section, Series, Table
from themis_opt.reports.drawing import styles, ticks
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.html import render_html
from themis_opt.reports.markdown import render_markdown
from themis_opt.reports.registry import REPORTS, report_function
from themis_opt.reports.rows import read_rows
from themis_opt.reports.svg import draw
from themis_opt.reports.writing import write_report

NASTY = "</script><b>$x$ |`*_&"
"""A name that means something to every language it might be written into."""

X, Y = Axis("chunks", log=True, format="count"), Axis("gap", log=True, format="percent")
LINE = Series("themis+scf", (2, 4, 8), (0.3, 0.2, 0.1), (0.2, 0.1, 0.05), (0.4, 0.3, 0.2))
KINDS = {
    "line": Figure("line", "Line", "line", X, Y, (LINE, Series("guide", (2, 8), (0.3, 0.1), guide=True))),
    "step": Figure("step", "Step", "step", X, Y, (LINE,)),
    "scatter": Figure("scatter", "Scatter", "scatter", X, Y, (LINE,)),
    "bar": Figure(
        "bar", "Bar", "bar", Axis(""), Axis("us"), (Series("a", ("p", "q"), (1, 2)), Series("b", ("q",), (3,)))
    ),
    "stack": Figure(
        "stack", "Stack", "stack", Axis(""), Axis("us"), (Series("a", ("p", "q"), (1, 2)), Series("b", ("q",), (3,)))
    ),
    "box": Figure("box", "Box", "box", Axis(""), Y, (Series("a", (), (0.1, 0.2, 0.4)), Series("b", (), (1, 2)))),
    "heatmap": Figure(
        "heatmap",
        "Heat",
        "heatmap",
        Axis("chunks", format="count"),
        Axis("size", format="size"),
        (Series("gap", (2, 4), (1024, 2048), cells=((0.1, None), (0.0, 0.4))),),
        colours=Axis("gap", log=True, format="percent"),
    ),
}
"""One figure of every kind."""


def page(*figures, **changes):
    table = Table((Column("policy"), Column("gap", "percent")), ((NASTY, 0.25), ("none", None)), "A caption.")
    report = Report("Title", ("One sentence.",), (Section("Heading", ("A text.",), (table,), figures),))
    return replace(report, **changes)


@pytest.fixture(scope="module", params=SAMPLED)
def report(request, tmp_path_factory):
    """Each report of sample rows."""
    path = write_rows(tmp_path_factory.mktemp("rows") / "rows.csv", sample(request.param))
    return report_function(request.param)(read_rows(path), Experiment(request.param, request.param))


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the text of its scripts of data."""

    def __init__(self, text):
        super().__init__()
        self.found, self.data, self._in_data = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self._in_data = tag == "script" and dict(attributes).get("type") == "application/json"

    def handle_data(self, data):
        if self._in_data:
            self.data += data

    def handle_endtag(self, tag):
        self._in_data = False

    def tags(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


def test_every_report_has_sample_rows():
    assert set(SAMPLED) == set(REPORTS)


def test_names_of_figures_are_unique_and_fit_for_files(report):
    names = [figure.name for figure in report.figures]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)


def test_tables_have_a_cell_for_every_column(report):
    tables = [table for section in report.sections for table in section.tables]
    assert tables
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_every_report_is_written_and_its_pictures_are_linked(report, tmp_path):
    files = write_report(report, tmp_path)
    links = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    assert {*links, "README.md", "report.html"} == {file.name for file in files}
    assert all(file.exists() for file in files)


def test_equal_rows_give_equal_files(report, tmp_path):
    once, again = (write_report(report, tmp_path / name) for name in ("once", "again"))
    assert [file.read_bytes() for file in once] == [file.read_bytes() for file in again]


def test_the_page_loads_nothing_from_elsewhere(report):
    elements = Elements(render_html(report))
    loading = [(tag, name) for tag, attributes in elements.found for name in attributes if name in ("src", "href")]
    assert loading == []
    assert {"link", "iframe", "img", "object", "embed", "base"}.isdisjoint({tag for tag, _ in elements.found})
    (policy,) = [found["content"] for found in elements.tags("meta") if "http-equiv" in found]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_styles_load_nothing_from_elsewhere():
    (style,) = re.findall(r"<style>(.*?)</style>", render_html(page()), flags=re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style


def test_plotly_is_in_the_page_once():
    assert render_html(page(*KINDS.values())).count("* plotly.js v") == 1


def test_a_page_without_figures_is_small():
    assert len(render_html(page())) < 20_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_figure_is_drawn_as_svg(kind, tmp_path):
    write_report(page(KINDS[kind]), tmp_path, html=False)
    drawn = ElementTree.parse(tmp_path / f"{kind}.svg").getroot()
    assert drawn.tag.endswith("svg")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_every_trace_in_the_page_has_two_colours(kind):
    figures = json.loads(Elements(render_html(page(KINDS[kind]))).data)
    assert len(figures[kind]["data"]) == len(figures[kind]["colours"]) > 0
    assert all(pair["light"] != pair["dark"] for pair in figures[kind]["colours"])


def test_a_range_is_drawn_around_its_line():
    figures = json.loads(Elements(render_html(page(KINDS["line"]))).data)
    band, line, _ = figures["line"]["data"]
    assert band["y"] == [*LINE.high, *reversed(LINE.low)]
    assert line["y"] == list(LINE.y)


def test_the_parts_of_a_stack_lie_on_one_another():
    figure = KINDS["stack"]
    (axes,) = draw(figure, styles(page(figure))).axes
    assert sorted((bar.get_y(), bar.get_height()) for bar in axes.patches) == [(0, 1), (0, 2), (2, 3)]
    assert json.loads(Elements(render_html(page(figure))).data)["stack"]["layout"]["barmode"] == "stack"


def test_a_picture_has_all_series_in_its_legend():
    (axes,) = draw(KINDS["line"], styles(page(KINDS["line"]))).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["themis+scf", "guide"]


def test_a_series_has_one_style_in_all_figures():
    other = replace(KINDS["step"], series=(Series("hourglass", (1,), (1,)), LINE))
    both, alone = styles(page(KINDS["line"], other)), styles(page(KINDS["line"]))
    assert both["themis+scf"] == alone["themis+scf"] != both["hourglass"]


def test_thirty_series_look_different():
    many = tuple(Series(str(number), (1,), (1,)) for number in range(30))
    found = styles(page(replace(KINDS["line"], series=many)))
    assert len(set(found.values())) == 30


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (X, (2, 8, 4), ["2", "4", "8"]),
        (Axis("size", log=True, format="size"), (2**16, 2**30), ["64 KiB", "1 GiB"]),
        (Y, (0.001, 0.02, 2), ["0.1 %", "1 %", "10 %", "100 %", "1000 %"]),
        (Y, (0.1, 0.3), ["10 %", "20 %", "50 %", "100 %", "200 %", "500 %"]),
        (Axis("chunks"), (2, 4), []),
        (X, (), []),
    ],
)
def test_logarithmic_axes_have_readable_ticks(axis, values, expected):
    assert [text for _, text in ticks(axis, values)] == expected


def test_ticks_keep_a_distance():
    assert len(ticks(X, range(1, 37))) <= 13


def test_markdown_shows_names_as_they_are():
    (line,) = [line for line in render_markdown(page()).splitlines() if "25.0 %" in line]
    assert line == r"| \</script\>\<b\>\$x\$ \|\`\*\_& | 25.0 % |"


def test_html_shows_names_as_they_are():
    text = render_html(page())
    assert "<td>&lt;/script&gt;&lt;b&gt;$x$ |`*_&amp;</td>" in text


def test_names_in_figures_cannot_end_the_script():
    figure = replace(KINDS["line"], series=(replace(LINE, name=NASTY),))
    elements = Elements(render_html(page(figure)))
    assert elements.tags("b") == []
    (_, line) = json.loads(elements.data)["line"]["data"]
    assert line["name"] == "&lt;/script&gt;&lt;b&gt;$x$ |`*_&amp;"


def test_names_in_pictures_are_no_formulas(tmp_path):
    figure = replace(KINDS["line"], series=(replace(LINE, name=r"$\nonsense$"),))
    assert write_report(page(figure), tmp_path, html=False)


def test_markdown_has_title_description_summary_and_sections_in_this_order():
    text = render_markdown(page(KINDS["line"], description="Why."))
    parts = ["# Title", "Why.", "## Summary", "- One sentence.", "## Heading", "A text.", "A caption.", "| policy"]
    places = [text.index(part) for part in (*parts, "![Line]")]
    assert places == sorted(places)


def test_numbers_stand_at_the_right():
    assert "| --- | ---: |" in render_markdown(page())
    assert '<td class="number">25.0 %</td>' in render_html(page())


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, "percent", "–"),
        (float("nan"), "number", "–"),
        (0, "percent", "0 %"),
        (0.00012, "percent", "0.012 %"),
        (0.05, "percent", "5.00 %"),
        (0.1 - 1e-12, "percent", "10.0 %"),
        (1_234_567, "duration", "1.235 ms"),
        (0.0000021, "seconds", "2.1 µs"),
        (0, "duration", "0 ns"),
        (0.5, "duration", "0.5 ns"),
        (5e12, "duration", "5000 s"),
        (1.5, "factor", "1.500×"),
        (4096, "count", "4096"),
        (32768, "count", "32 768"),
        (104857600, "size", "100 MiB"),
        (1e-9, "number", "1.000e-09"),
        (2e10, "bandwidth", "20.00 GB/s"),
        ("themis", "text", "themis"),
    ],
)
def test_values_are_written_readably(value, form, text):
    assert cell(value, form) == text
