"""Tables, order table, trace with few tracks and LaTeX: written, checked, and read by others."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from background import PATIENCE
from iteration_schedules import collectives, scheduled, with_and_without_compute

import themis_opt
from themis_opt.base.errors import InvalidSchedule
from themis_opt.formats import timeline
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.flat_exports import ORDER_SCHEMA
from themis_opt.formats.order_table import order_table
from themis_opt.formats.trace import IN_FLIGHT, chrome_trace
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.study.comparison import write_comparison

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"


@pytest.mark.parametrize("name", ["csv", "order", "trace"])
@with_and_without_compute
def test_what_is_written_passes_its_check(tmp_path, name, schedule):
    files = export(schedule, name, tmp_path)
    lines = list(make_exporter(name).check(schedule, tmp_path))
    tables = 3 if schedule.has_period else 2
    assert len(files) == {"csv": tables, "order": 2, "trace": 1}[name]
    assert len(lines) == len(files)
    assert list(make_exporter(name).notes(schedule))


@pytest.mark.parametrize(("name", "file"), [("csv", "stages.csv"), ("order", "order.json")])
def test_a_file_of_another_schedule_does_not_pass(tmp_path, name, file):
    export(collectives(), name, tmp_path)
    path = tmp_path / file
    path.write_text(path.read_text().replace("all_gather", "gather", 1))
    with pytest.raises(InvalidSchedule, match="differs from that of the schedule"):
        list(make_exporter(name).check(collectives(), tmp_path))


@with_and_without_compute
def test_order_tables_obey_their_schema(schedule):
    jsonschema.validate(order_table(schedule), json.loads(ORDER_SCHEMA.read_text()))


def test_the_schema_refuses_what_is_not_in_it():
    table = order_table(collectives()) | {"colour": "red"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, json.loads(ORDER_SCHEMA.read_text()))


def test_the_reader_of_the_documentation_issues_every_stage(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("runs JavaScript: needs node")
    (script,) = re.findall(r"```js\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "read.js").write_text(script)
    schedule = collectives()
    export(schedule, "order", tmp_path)
    arguments = [node, str(tmp_path / "read.js"), str(tmp_path / "order.json")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == schedule.plan.num_stages
    assert len(script.splitlines()) <= 22


def test_a_trace_has_no_more_tracks_than_results_on_their_way_at_once(hetero, run):
    events = chrome_trace(run(hetero, "themis+scf"))["traceEvents"]
    on_their_way = [e for e in events if e["ph"] == "X" and e["pid"] == IN_FLIGHT]
    changes = sorted([(e["ts"], 1) for e in on_their_way] + [(e["ts"] + e["dur"], -1) for e in on_their_way])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    lanes = {e["tid"] for e in on_their_way}
    assert len({e["args"]["chunk"] for e in on_their_way}) == 64
    assert lanes == set(range(1, len(lanes) + 1))
    assert len(lanes) <= most + 1
    named = {e["tid"] for e in events if e["ph"] == "M" and e["pid"] == IN_FLIGHT and e["name"] == "thread_name"}
    assert named == lanes


def test_overlapping_slices_are_found(tmp_path):
    schedule = scheduled()
    export(schedule, "trace", tmp_path)
    path = tmp_path / "trace.json"
    trace = json.loads(path.read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["dur"] > 0]
    slices[0]["dur"] *= 1000
    path.write_text(json.dumps(trace))
    with pytest.raises(InvalidSchedule, match="overlap at"):
        list(make_exporter("trace").check(schedule, tmp_path))


FILES = {"schedule.json", "order.json", "order.csv", "stages.csv", "trace.json"}

each_kind = pytest.mark.parametrize(
    ("schedule", "expected"), [(collectives(), FILES), (scheduled(), FILES | {"tasks.csv"})], ids=["makespan", "period"]
)


@each_kind
def test_a_folder_holds_every_format(tmp_path, schedule, expected):
    files = write_schedule(tmp_path, schedule)
    assert {path.name for path in files} == {path.name for path in tmp_path.iterdir()} == expected


@each_kind
def test_pictures_that_could_not_be_read_are_left_out(tmp_path, monkeypatch, schedule, expected):
    write_schedule(tmp_path, schedule)
    monkeypatch.setattr(timeline, "MAX_PICTURED_BARS", 1)
    write_schedule(tmp_path, schedule)
    assert {path.name for path in tmp_path.iterdir()} == expected - {"trace.json"}


def test_tasks_of_an_earlier_schedule_are_removed(tmp_path):
    write_schedule(tmp_path, scheduled())
    write_schedule(tmp_path, collectives())
    assert {path.name for path in tmp_path.iterdir()} == FILES


@pytest.mark.parametrize("schedule", [collectives(), scheduled()], ids=["makespan", "period"])
def test_a_comparison_is_written_with_its_best_schedule(tmp_path, schedule):
    comparison = themis_opt.compare(schedule.instance, ["baseline", "themis+scf"])
    write_comparison(tmp_path, comparison, {"seed": 3})
    assert json.loads((tmp_path / "comparison.json").read_text()) == [result.row() for result in comparison.results]
    assert read_schedule(tmp_path / "schedule.json") == comparison.best.schedule
    summary = json.loads((tmp_path / "schedule.json").read_text())["summary"]
    assert (summary["policy"], summary["settings"]) == (comparison.best.policy, {"seed": 3, "sizes": "equal"})
    assert summary["gap"] == pytest.approx(comparison.best.gap)
    assert max(summary["bounds_ns"].values()) * 1000 == pytest.approx(comparison.best.bound)
