"""Reports as Markdown, SVG and HTML."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pandas as pd
import pytest
import vl_convert
from counted_calls import count_calls
from report_rows import SAMPLED, draw, sample, series_of, write_rows

from themis_opt.base.errors import InputError
from themis_opt.reports.rendering import page as page_module
from themis_opt.reports.rendering.charts import CONFIG, Axis, bars, boxes, ecdf, heatmap, lines, save, specification
from themis_opt.reports.rendering.document import Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.page import render_html, render_markdown, write_report
from themis_opt.reports.rendering.tables import cell
from themis_opt.reports.rows import read_rows

NASTY = "</script><b>$x$ |`*_&"  # a name that means something to every language it might be written into
X, Y = Axis("chunks", "chunks", log=True, format="count"), Axis("gap", "gap", log=True, format="percent")
US, SIZE = Axis("us", "us"), Axis("size", "size", format="size")


def frame(policy="themis+scf", **columns):
    """Places of one series."""
    places = {"chunks": [2, 4, 8], "gap": [0.3, 0.2, 0.1], "low": [0.2, 0.1, 0.05], "high": [0.4, 0.3, 0.2]}
    return pd.DataFrame({"policy": policy} | places | columns)


LINE = frame()
BARS = pd.DataFrame({"place": ["p", "q", "q"], "us": [1.0, 2.0, 3.0], "part": ["a", "a", "b"]})
GRID = pd.DataFrame({"chunks": [2, 2, 4], "size": [1024, 2048, 2048], "gap": [0.1, 0.0002, 0.4]})
KINDS = {
    "line": lines(LINE, X, Y, "policy", guides=frame("guide"), band=("low", "high")),
    "dots": lines(LINE, X, Y, "policy", dots=frame("trial"), step=True),
    "ecdf": ecdf(LINE, Axis("gap", "gap"), "networks", "policy"),
    "bar": bars(BARS, "place", US, "part"),
    "stack": bars(BARS, "place", US, "part", stacked=True),
    "box": boxes(LINE, Y, "policy"),
    "heatmap": heatmap(GRID, X, SIZE, Y),
}
"""One chart of every kind."""


def figure(kind, chart=None):
    return Figure(kind, kind.capitalize(), chart or KINDS[kind])


def page(*figures, **changes):
    table = Table((Column("policy"), Column("gap", "percent")), ((NASTY, 0.25), ("none", None)), "A caption.")
    report = Report("Title", ("One sentence.",), (Section("Heading", ("A text.",), (table,), figures),))
    return replace(report, **changes)


@pytest.fixture(scope="module", params=SAMPLED)
def report(request, tmp_path_factory):
    """Each report of sample rows."""
    path = write_rows(tmp_path_factory.mktemp("rows") / "rows.csv", sample(request.param))
    return draw(request.param, read_rows(path).to_frame())


def test_rows_of_charts_are_neither_checked_nor_copied_one_by_one():
    few, many = (pd.concat([BARS] * count, ignore_index=True) for count in (10, 110))
    calls = [count_calls(lambda rows=rows: specification(bars(rows, "place", US, "part"))) for rows in (few, many)]
    assert calls[1] - calls[0] < 200 * (len(many) - len(few))


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the text of its scripts of data."""

    def __init__(self, text):
        super().__init__()
        self.opened, self.data, self._in_data = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.opened.append((tag, dict(attributes)))
        self._in_data = tag == "script" and dict(attributes).get("type") == "application/json"

    def handle_data(self, data):
        if self._in_data:
            self.data += data

    def handle_endtag(self, tag):
        self._in_data = False

    def tags(self, name):
        return [attributes for tag, attributes in self.opened if tag == name]


def test_equal_rows_give_equal_files_whose_pictures_are_linked(report, tmp_path):
    once, again = (write_report(report, tmp_path / name) for name in ("once", "again"))
    assert [file.read_bytes() for file in once] == [file.read_bytes() for file in again]
    links = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (tmp_path / "once" / "README.md").read_text(encoding="utf-8"))
    assert {*links, "README.md", "report.html"} == {file.name for file in once}


def test_the_page_loads_nothing_from_elsewhere(report):
    elements = Elements(render_html(report))
    loading = [(tag, name) for tag, attributes in elements.opened for name in attributes if name in ("src", "href")]
    assert loading == []
    assert {"link", "iframe", "img", "object", "embed", "base"}.isdisjoint({tag for tag, _ in elements.opened})
    (policy,) = [meta["content"] for meta in elements.tags("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


SPOILS = (
    lambda path: path.write_text("alert(1)", encoding="utf-8"),
    lambda path: path.write_bytes(b"\xff" + path.read_bytes()),
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: (path.unlink(), os.mkfifo(path)),
)


def test_a_library_that_was_changed_in_the_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(page_module, "javascript_bundle", lambda snippet: f"{snippet} // made")
    before = render_html(page(figure("line")))
    (script,) = (tmp_path / "themis_opt").iterdir()
    content = script.read_bytes()
    for spoil in SPOILS:
        spoil(script)
        assert render_html(page(figure("line"))) == before
        assert script.read_bytes() == content


def svg(chart, folder, title="Title"):
    """The picture of a chart, and its texts in the order of the file."""
    save(chart, folder / "chart.svg", title)
    drawn = ElementTree.parse(folder / "chart.svg").getroot()
    texts = [text for element in drawn.iter("{http://www.w3.org/2000/svg}text") for text in element.itertext()]
    return drawn, texts


def items(chart, role, mark=None):
    """What is drawn, as Vega places it: all items of the marks of a role."""
    spec = specification(chart) | {"config": CONFIG}
    return [
        item
        for group in _groups(vl_convert.vegalite_to_scenegraph(spec)["scenegraph"])
        if group.get("role") == role and group.get("marktype") == (mark or group.get("marktype"))
        for item in group["items"]
    ]


def _groups(node):
    yield node
    for part in node.get("items", []):
        yield from _groups(part)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_figure_is_drawn_as_svg(kind, tmp_path):
    write_report(page(figure(kind)), tmp_path, html=False)
    drawn = ElementTree.parse(tmp_path / f"{kind}.svg").getroot()
    assert drawn.tag.endswith("svg")
    assert kind.capitalize() in {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_same_chart_as_the_picture(kind):
    data = json.loads(Elements(render_html(page(figure(kind)))).data)
    assert data["charts"] == {kind: json.loads(json.dumps(specification(KINDS[kind])))}
    assert data["config"] == CONFIG


def test_a_range_is_drawn_around_its_line():
    drawn = series_of(KINDS["line"])["themis+scf"]
    assert (drawn.low, drawn.high) == (tuple(LINE["low"]), tuple(LINE["high"]))
    (band,) = [layer for layer in specification(KINDS["line"])["layer"] if layer["mark"]["type"] == "area"]
    assert [band["encoding"][end]["field"] for end in ("y", "y2")] == ["low", "high"]


def test_the_parts_of_a_stack_lie_on_one_another():
    alone, lower, upper = sorted(items(KINDS["stack"], "mark", "rect"), key=lambda bar: (bar["x"], -bar["y"]))
    assert lower["x"] == upper["x"] != alone["x"]
    assert upper["y"] + upper["height"] == pytest.approx(lower["y"])
    assert [bar["height"] / alone["height"] for bar in (lower, upper)] == pytest.approx([2, 3])


def test_a_box_has_quartiles_median_and_whiskers():
    values = pd.DataFrame({"policy": "a", "gap": [float(number) for number in range(101)]})
    (cells,) = specification(boxes(values, Axis("gap", "gap"), "policy"))["datasets"].values()
    (box,) = cells
    assert [box[name] for name in ("low", "lower", "median", "upper", "high")] == [5, 25, 50, 75, 95]


def test_cells_of_a_heatmap_have_readable_texts():
    cells, texts = items(KINDS["heatmap"], "mark", "rect"), items(KINDS["heatmap"], "mark", "text")
    assert {text["text"]: text["fill"] for text in texts} == {
        "10.0 %": "black", "0.020 %": "white", "40.0 %": "black",
    }  # fmt: skip
    assert len({cell["fill"] for cell in cells}) == 3


def labels(axis, values):
    """Texts of the ticks of an axis."""
    count = len(values)
    chart = lines(pd.DataFrame({"policy": "a", "gap": [0.1] * count, axis.field: values}), axis, Y, "policy")
    titles = [group for group in items(chart, "axis-label") if group["align"] != "right"]
    return [str(item["text"]) for item in titles if item["opacity"] > 0]


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (X, (2, 8, 4), ["2", "4", "8"]),
        (Axis("size", log=True, format="size"), (2**16, 2**30), ["64 KiB", "1 GiB"]),
        (Axis("loss", log=True, format="percent"), (0.001, 0.02, 2), ["0.1 %", "1 %", "10 %", "100 %"]),
        (Axis("loss", log=True, format="percent"), (0.1, 0.5), ["10 %", "20 %", "50 %"]),
        (Axis("loss", log=True, format="percent"), (0.32, 0.36), [f"{k / 2:g} %" for k in range(64, 73)]),
        (SIZE, [k * 100 * 2**20 for k in range(1, 11)], [f"{k}00 MiB" for k in (2, 4, 6, 8, 10)]),
        (Axis("time", format="duration"), (0, 6e6), ["0", "1 ms", "2 ms", "3 ms", "4 ms", "5 ms", "6 ms"]),
    ],
)  # fmt: skip
def test_axes_have_readable_ticks(axis, values, expected):
    assert labels(axis, values) == expected


def test_markdown_shows_names_as_they_are():
    (line,) = [line for line in render_markdown(page()).splitlines() if "25.0 %" in line]
    assert line == r"| \</script\>\<b\>\$x\$ \|\`\*\_& | 25.0 % |"


def test_html_shows_names_as_they_are():
    text = render_html(page())
    assert "<td>&lt;/script&gt;&lt;b&gt;$x$ |`*_&amp;</td>" in text


def test_names_in_figures_cannot_end_the_script():
    elements = Elements(render_html(page(figure("line", lines(frame(NASTY), X, Y, "policy")))))
    assert elements.tags("b") == []
    chart = json.loads(elements.data)["charts"]["line"]
    assert chart["layer"][0]["encoding"]["color"]["scale"]["domain"] == [NASTY]


@pytest.mark.parametrize("name", ["chart.gif", "chart"])
def test_a_chart_of_an_unknown_kind_of_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"pictures end in \.png or \.svg"):
        save(KINDS["line"], tmp_path / name)


def test_markdown_has_title_description_summary_and_sections_in_this_order():
    text = render_markdown(page(description="Why."))
    parts = ["# Title", "Why.", "## Summary", "- One sentence.", "<b>Heading</b>", "A text.", "A caption."]
    places = [text.index(part) for part in (*parts, "| policy")]
    assert places == sorted(places)


def test_five_sentences_and_one_figure_are_open():
    section = Section("Later", figures=(figure("line"), figure("box")))
    report = Report("Title", tuple(f"Sentence {n}." for n in range(7)), (section,))
    markdown = render_markdown(report)
    opened, folded = markdown.partition("<details")[::2]
    assert [f"Sentence {n}." in markdown for n in range(7)] == [True] * 5 + [False] * 2
    assert (opened.count("!["), folded.count("![")) == (1, 1)
    html = render_html(report)
    assert html.index("Sentence 4.") < html.index("<details>") < html.index("Sentence 5.")
    opened, folded = html.partition('<details class="part">')[::2]
    assert (opened.count('class="chart"'), folded.count('class="chart"')) == (1, 1)
    assert opened.count("<figure>") == 1


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
        (0.0000021, "seconds", "2.1 us"),
        (0, "duration", "0"),
        (0.5, "duration", "500 ps"),
        (5e12, "duration", "5000 s"),
        (1.5, "factor", "1.500x"),
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


def test_guides_that_mean_other_things_have_other_dashes():
    frame = pd.DataFrame({"x": [1, 2], "y": [1, 2], "by": "a"})
    guides = pd.concat([frame.assign(by=name) for name in ("bound", "bound, b", "knee, 2")])
    spec = json.dumps(specification(lines(frame, Axis("x"), Axis("y"), "by", guides=guides)))
    assert "[[1, 0], [1, 2], [1, 2], [8, 4]]" in spec


@pytest.mark.parametrize("sizes", [(1.0,), (1.0, 2.0)])
def test_a_guide_of_one_place_is_a_point_since_no_line_joins_it(sizes):
    curve = pd.DataFrame([("measured", size, 310.0) for size in sizes], columns=["series", "size", "busbw"])
    bound = curve.assign(series="bound", busbw=349.0)
    guide, *_ = specification(lines(curve, Axis("size"), Axis("busbw"), "series", guides=bound))["layer"]
    assert bool(guide["mark"]["point"]) == (len(sizes) == 1)
