import json

import pytest
from iteration_schedules import collectives, scheduled

import themis_opt
from themis_opt.formats import timeline
from themis_opt.formats.bundle import write_schedule
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.study.comparison import write_comparison

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
