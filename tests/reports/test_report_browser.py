"""Reports in a real browser: every figure is drawn, without errors, on light and dark pages and on a phone.

The environment variable ``THEMIS_OPT_SCREENSHOTS`` names a folder that keeps pictures of all reports.
"""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from background import PATIENCE
from matplotlib.image import imread
from pipeline_samples import pipeline
from report_rows import SAMPLED, draw, sample, write_rows

import themis_opt
from themis_opt.graphs.problem import load_graph
from themis_opt.pipelines.policies import gpipe
from themis_opt.pipelines.schedule import simulate
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.reports.network import draw_network
from themis_opt.reports.pictures import draw_gantt, pipeline_chart
from themis_opt.reports.rendering.charts import save
from themis_opt.reports.rendering.document import Report
from themis_opt.reports.rendering.page import HTML, render_html, write_report
from themis_opt.reports.rows import read_rows
from themis_opt.reports.solution import schedule_section
from themis_opt.study.comparison import compare

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), "")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not BROWSER, reason=f"none of {', '.join(BROWSERS)} is installed"),
]

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--virtual-time-budget=10000", "--enable-logging=stderr",
)  # fmt: skip

THEMES = {"light": "--blink-settings=preferredColorScheme=1", "dark": "--blink-settings=preferredColorScheme=0"}

PAPER = {"light": (255, 255, 255), "dark": (20, 25, 31)}  # background of the page and of its figures
PICTURED = SAMPLED if "THEMIS_OPT_SCREENSHOTS" in os.environ else ("policies",)
"""Reports of which screenshots are taken."""

PHONE = (390, 844)  # pixels; a browser window cannot be as narrow, so that a frame of this size stands for it


class Page(HTMLParser):
    """What a browser made of a page: the noted errors, and the pictures inside every figure."""

    def __init__(self, text):
        super().__init__()
        self.errors, self.figures, self.backgrounds = None, {}, set()
        self._figure = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attribute = dict(attributes)
        classes = (attribute.get("class") or "").split()
        if tag == "html":
            self.errors = attribute.get("data-errors")
        if tag == "div" and "chart" in classes:
            self._figure = attribute["id"]
            self.figures[self._figure] = []
        if tag == "svg" and "marks" in classes and self._figure:
            self.figures[self._figure].append(float(attribute["width"]))
            self.backgrounds.add(attribute.get("style", ""))

    def handle_endtag(self, tag):
        if tag == "figure":
            self._figure = ""


def replace(page, old, new):
    """Change a page that was written."""
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")


def browse(page, profile, *options):
    command = [BROWSER, *OPTIONS, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)


def opened(page, profile, *options):
    """The page after its scripts ran; without errors on the console."""
    ended = browse(page, profile, "--dump-dom", *options)
    assert "Uncaught" not in ended.stderr
    assert "Refused to" not in ended.stderr
    return Page(ended.stdout)


def screenshot(page, profile, path, size, theme):
    browse(page, profile, f"--screenshot={path}", "--window-size={},{}".format(*size), THEMES[theme])
    return imread(path)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """The folder for screenshots."""
    given = os.environ.get("THEMIS_OPT_SCREENSHOTS")
    folder = Path(given).resolve() if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """The folder of the browser."""
    return tmp_path_factory.mktemp("profile")


CLOSED, OPEN = '<details class="part">', '<details class="part" open>'


def write(report, folder):
    """Write the page of a report of sample rows, all parts open; the page, and the names of its figures."""
    folder.mkdir(exist_ok=True)
    rows = read_rows(write_rows(folder / "rows.csv", sample(report))).to_frame()
    made = draw(report, rows)
    write_report(made, folder)
    replace(folder / HTML, CLOSED, OPEN)
    return folder / HTML, {figure.name for figure in made.figures}


@pytest.fixture(scope="module", params=PICTURED)
def pictured(request, tmp_path_factory):
    """The page of a report, and the names of its figures."""
    return write(request.param, tmp_path_factory.mktemp("pictured") / request.param)


@pytest.mark.parametrize("report", SAMPLED)
def test_every_figure_is_drawn_without_errors(report, profile, tmp_path):
    page, names = write(report, tmp_path)
    shown = opened(page, profile)
    assert shown.errors is None
    assert set(shown.figures) == names
    assert all(widths and min(widths) > 300 for widths in shown.figures.values())


@pytest.mark.parametrize("theme", THEMES)
def test_page_and_figures_have_the_colours_of_the_theme(pictured, profile, pictures, theme):
    page, names = pictured
    shown = opened(page, profile, THEMES[theme])
    paper = f"rgb{PAPER[theme]}"
    assert all(paper in style or "background" not in style for style in shown.backgrounds)
    assert not names or any(paper in style for style in shown.backgrounds)
    picture = screenshot(page, profile, pictures / f"{page.parent.name}-{theme}.png", (1100, 3000), theme)
    assert tuple((picture[0, 0, :3] * 255).round()) == PAPER[theme]


def test_figures_fit_on_a_phone(pictured, profile, pictures):
    page, _ = pictured
    width, height = PHONE[0], 6 * PHONE[1]
    frame = page.with_name("phone.html")
    frame.write_text(f'<body style="margin:0"><iframe src="{HTML}" width={width} height={height} frameborder=0>')
    picture = screenshot(frame, profile, pictures / f"{page.parent.name}-phone.png", (600, height), "dark")
    strip = (picture[:, width - 10 : width, :3] * 255).round()  # the margin of the page, right of all figures
    assert (strip == PAPER["dark"]).all()


def test_a_closed_part_is_drawn_when_it_is_opened(tmp_path, profile):
    page, names = write("scaling", tmp_path)
    replace(page, OPEN, CLOSED)
    shown = opened(Path(shutil.copy(page, tmp_path / "closed.html")), profile).figures
    assert len([name for name in names if shown[name]]) == 1
    opening = 'document.querySelectorAll("details").forEach(part => { part.open = true; });'
    drawn = Page(after(page, profile, opening))
    assert drawn.errors is None
    assert all(widths and min(widths) > 300 for widths in drawn.figures.values())
    assert set(drawn.figures) == names


def test_an_error_of_a_script_is_noticed(tmp_path, profile):
    page, _ = write("scaling", tmp_path)
    replace(page, "vegaEmbed(place", "vegaEmbed.nothing(place")
    assert "vegaEmbed.nothing is not a function" in Page(browse(page, profile, "--dump-dom").stdout).errors


def after(page, profile, script):
    """The page as text, after a script that runs when the charts are drawn."""
    replace(page, "</body>\n</html>", f"<script>setTimeout(() => {{ {script} }}, 2000);</script></body></html>")
    return browse(page, profile, "--dump-dom").stdout


def test_a_place_under_the_pointer_says_its_numbers(tmp_path, profile):
    page, _ = write("scaling", tmp_path)
    script = """
        const place = document.querySelector("#seconds-by-chunks path[opacity='0']");
        place.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
    """
    shown = after(page, profile, script).partition('id="vg-tooltip-element"')[2]
    cells = re.findall(r'<td class="(?:key|value)">(.*?)</td>', shown)
    assert cells == ["series", "simulation", "chunks", "4", "seconds (median)", "11.09 us"]


def test_a_click_on_a_name_in_the_legend_singles_its_series_out(tmp_path, profile):
    page, _ = write("scaling", tmp_path)
    script = """
        const [first] = document.querySelectorAll("#seconds-by-chunks .role-legend-label text");
        for (const kind of ["pointerdown", "pointerup", "click"])
            first.dispatchEvent(new PointerEvent(kind, { bubbles: true }));
    """
    (drawn,) = re.findall(r'id="seconds-by-chunks".*?</figure>', after(page, profile, script), flags=re.DOTALL)
    lines = re.findall(r'class="mark-line[^>]*><path [^>]*opacity="([0-9.]+)"', drawn)
    assert sorted(lines) == ["0.1", "0.1", "0.1", "0.1", "1"]


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """The page of a comparison."""
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=16)
    path = tmp_path_factory.mktemp("solved") / "schedule.html"
    section = schedule_section(compare(instance, ["baseline+fifo", "themis+scf"]))
    path.write_text(render_html(Report("solved", ("A verdict.",), (section,))), encoding="utf-8")
    return path


BARS = "#schedule .mark-rect path"


def bars_after(page, profile, script):
    """The bars of a picture of a schedule, as tags."""
    (drawn,) = re.findall(r'class="mark-rect[^>]*>(.*?)</g>', after(page, profile, script), flags=re.DOTALL)
    return re.findall(r"<path [^>]*>", drawn)


def test_a_click_on_a_bar_follows_its_chunk(solved, profile, tmp_path):
    page = Path(shutil.copy(solved, tmp_path))
    script = f"""
        const first = document.querySelector("{BARS}");
        for (const kind of ["pointerdown", "pointerup", "click"])
            first.dispatchEvent(new PointerEvent(kind, {{ bubbles: true }}));
    """
    bars = bars_after(page, profile, script)
    assert len(bars) == 2 * 16 * 6
    assert len([bar for bar in bars if ' opacity="0.12"' not in bar]) == 6


def test_the_wheel_zooms_a_schedule(solved, profile, tmp_path):
    page = Path(shutil.copy(solved, tmp_path))
    script = f"""
        const shape = () => document.querySelector("{BARS}:nth-child(9)").getAttribute("d");
        const before = shape();
        document.querySelector("{BARS}").dispatchEvent(
            new WheelEvent("wheel", {{ deltaY: -500, bubbles: true, clientX: 400, clientY: 300 }}));
        setTimeout(() => {{ document.documentElement.dataset.zoomed = shape() !== before; }}, 500);
    """
    assert 'data-zoomed="true"' in after(page, profile, script)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A picture of each kind that commands write: their files."""
    folder = tmp_path_factory.mktemp("drawn")
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=16)
    iteration = themis_opt.load("2d-sw_sw.gnmt")
    draw_gantt(folder / "schedule.svg", compare(instance, ["themis+scf"]).best.schedule)
    draw_gantt(folder / "plan.svg", compare(iteration, ["ddp/baseline+fifo"]).best.schedule)
    steps = pipeline(stages=4, microbatches=8)
    save(pipeline_chart(simulate(steps, gpipe(steps))), folder / "pipeline.svg", "An iteration.")
    draw_network(load_graph(shipped_graphs()["dgx1.all_gather.1GB"]).network, folder / "network.svg")
    save(
        draw("scaling", read_rows(write_rows(folder / "rows.csv", sample("scaling"))).to_frame()).figures[0].chart,
        folder / "chart.svg",
    )
    files = sorted(folder.glob("*.svg"))
    for path in files:
        before, _, after = path.read_text(encoding="utf-8").rpartition("</svg>")
        path.write_text(before + MEASURE + after, encoding="utf-8")
    return files


MEASURE = """<script>
const root = document.documentElement;
const shown = [root.getBoundingClientRect().width, root.scrollWidth, getComputedStyle(root).filter !== "none"];
parent.postMessage(shown, "*");
</script></svg>"""
NOTE = """<script>
const shown = [];
addEventListener("message", event => {
  shown.push(event.data);
  document.documentElement.dataset.shown = JSON.stringify(shown);
});
</script>"""


@pytest.mark.parametrize("theme", THEMES)
def test_pictures_are_as_wide_as_the_window_at_most_and_dark_on_dark_pages(drawn, profile, theme):
    widths = (420, 1280)
    frames = [f'<iframe src="{path.name}" width={width} height=600></iframe>' for path in drawn for width in widths]
    page = drawn[0].with_name("frames.html")
    page.write_text(f'<html><meta name="color-scheme" content="light dark">{NOTE}{"".join(frames)}')
    shown = re.search(r'data-shown="([^"]*)"', browse(page, profile, "--dump-dom", THEMES[theme]).stdout)
    measured = json.loads(shown[1])
    assert len(measured) == len(drawn) * len(widths) == 10
    assert sum(width <= scrolled <= 420 for width, scrolled, _ in measured) == len(drawn)
    assert {dark for _, _, dark in measured} == {theme == "dark"}
