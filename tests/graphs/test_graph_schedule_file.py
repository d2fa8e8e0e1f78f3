"""Schedules on graphs as files: read as they were written, refused where they say something else."""

import json
from pathlib import Path

import pytest
from graph_samples import shipped

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.graphs.registry import GRAPH_POLICIES
from themis_opt.graphs.schedule import GraphSchedule, link_loads, simulate_graph
from themis_opt.graphs.schedule_file import read_graph_schedule, schedule_text


def schedule_of(policy: str = "trees", chunks: int = 3, name: str = "dgx1") -> GraphSchedule:
    return simulate_graph(GRAPH_POLICIES[policy](shipped(name, kind="all_reduce", size="8 MB")), chunks)


@pytest.mark.parametrize(("policy", "chunks"), [("trees", 3), ("greedy", 1)])
def test_a_schedule_is_read_as_it_was_written(tmp_path: Path, policy: str, chunks: int) -> None:
    schedule, path = schedule_of(policy, chunks), tmp_path / "schedule.json"
    path.write_text(schedule_text(schedule), encoding="utf-8")
    read, summary = read_graph_schedule(path)
    assert summary.policy == schedule.plan.name
    assert read.plan == schedule.plan
    assert read.makespan == schedule.makespan
    assert (read.start == schedule.start).all()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("summary", {"makespan_ns": 1.0}, "summary.makespan_ns = 1.0: must be"),
        ("summary", {"bounds_ns": {"cut": 1e9}}, "summary.bounds_ns.cut = 1000000000.0: a bound must be at most"),
        ("fingerprint", "other", "belongs to another instance"),
        ("chunks", 0, "chunks = 0"),
        ("pieces", [{"elements": 5}], "transfers[0].piece = 1: must be the number of a piece"),
        ("transfers", [{"piece": 0, "route": ["gpu0", "gpu9"]}], "transfers[0].route = 'gpu9': must be a node"),
        ("transfers", [{"piece": 0, "route": ["gpu0", "gpu5"]}], "no link goes from gpu0 to gpu5"),
        ("transfers", [{"piece": 0, "route": ["gpu0", "gpu1"], "after": [0]}], "must be earlier transfers"),
        ("transfers", [], "must be 1 to 3000000 hops of all chunks"),
    ],
)
def test_what_a_file_must_not_say(tmp_path: Path, field: str, value: object, words: str) -> None:
    document = json.loads(schedule_text(schedule_of()))
    if field == "pieces":
        document["transfers"][0]["piece"] = 1
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(document | {field: value}), encoding="utf-8")
    with pytest.raises((InputError, InvalidSchedule)) as error:
        read_graph_schedule(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)


def test_links_are_busy_as_long_as_they_send() -> None:
    schedule = schedule_of()
    loads = link_loads(schedule)
    assert sum(load.busy for load in loads) == int((schedule.end - schedule.start).sum())
    assert all(load.busy <= schedule.makespan for load in loads)
    busiest = max(loads, key=lambda load: load.bytes)
    assert busiest.bytes == pytest.approx(busiest.busy * 50e9 / 1e12, rel=1e-4)
