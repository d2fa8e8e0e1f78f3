import json
from collections import defaultdict
from itertools import pairwise

import pytest
from iteration_schedules import scheduled

from themis_opt.errors import InputError
from themis_opt.formats import iteration_trace as module
from themis_opt.formats import trace
from themis_opt.formats.iteration_trace import NPU, iteration_trace
from themis_opt.formats.trace import NETWORK

POLICIES = ("fused/baseline", "wait_free/themis+scf", "dear/hourglass")


def events(schedule, phase, pid=None):
    found = iteration_trace(schedule)["traceEvents"]
    return [event for event in found if event["ph"] in phase and pid in (None, event["pid"])]


def named_tracks(schedule, pid):
    return [e["args"]["name"] for e in events(schedule, "M", pid) if e["name"] == "thread_name"]


def arrows(schedule, name):
    """Start and end of every arrow of a name."""
    ends = defaultdict(dict)
    for event in events(schedule, "sf"):
        if event["cat"] == "launch" and event["name"] == name:
            ends[event["id"]][event["ph"]] = event
    return [(pair["s"], pair["f"]) for pair in ends.values()]


def test_the_trace_is_valid_json():
    assert json.loads(json.dumps(iteration_trace(scheduled()), allow_nan=False)) == iteration_trace(scheduled())


def test_compute_is_the_track_of_the_npu():
    assert named_tracks(scheduled(), NPU) == ["compute"]


def test_every_dimension_is_a_track_of_the_network():
    assert named_tracks(scheduled(), NETWORK) == ["dim1", "dim2"]


def test_the_npu_stands_above_the_network():
    order = {e["pid"]: e["args"]["sort_index"] for e in events(scheduled(), "M") if e["name"] == "process_sort_index"}
    assert order[NPU] < order[NETWORK]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_task_and_the_start_of_the_next_iteration_is_a_slice(policy):
    schedule = scheduled(policy)
    tasks = [task.name for task in schedule.instance.iteration.tasks] * (schedule.num_iterations - 1)
    assert [e["name"] for e in events(schedule, "X", NPU)] == [*tasks, tasks[0]]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_stage_of_a_complete_iteration_is_a_slice(policy):
    schedule = scheduled(policy)
    assert len(events(schedule, "X", NETWORK)) == (schedule.num_iterations - 1) * schedule.plan.chunks.num_stages


@pytest.mark.parametrize("policy", POLICIES)
def test_slices_of_a_track_do_not_overlap(policy):
    tracks = defaultdict(list)
    for event in events(scheduled(policy), "X"):
        if event["pid"] in (NPU, NETWORK):
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        slices.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(slices))


@pytest.mark.parametrize("policy", POLICIES)
def test_an_arrow_leads_from_the_releasing_task_to_the_first_stage_of_each_launch(policy):
    schedule = scheduled(policy)
    found = arrows(schedule, "launch")
    assert len(found) >= len(schedule.plan.launches) * (schedule.num_iterations - 2)
    assert all((a["pid"], b["pid"]) == (NPU, NETWORK) and a["ts"] <= b["ts"] for a, b in found)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_arrow_leads_from_a_last_stage_to_the_task_that_waits(policy):
    schedule = scheduled(policy)
    found = arrows(schedule, "result")
    assert len(found) >= len(schedule.plan.launches) * (schedule.num_iterations - 3)
    assert all((a["pid"], b["pid"]) == (NETWORK, NPU) and a["ts"] <= b["ts"] for a, b in found)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_end_of_an_arrow_lies_on_a_slice(policy):
    starts = {(e["pid"], e["tid"], e["ts"]) for e in events(scheduled(policy), "X")}
    assert all((e["pid"], e["tid"], e["ts"]) in starts for e in events(scheduled(policy), "sf"))


def test_counters_show_when_compute_and_dimensions_are_busy():
    names = {event["name"] for event in events(scheduled(), "C")}
    assert names == {"busy compute", "busy dim1", "busy dim2", "utilisation"}


def test_only_the_last_iterations_are_shown_where_all_are_too_many(monkeypatch):
    schedule = scheduled()
    monkeypatch.setattr(module, "MAX_STAGES", schedule.plan.chunks.num_stages)
    shown = {event["args"]["iteration"] for event in events(schedule, "X", NPU)}
    assert shown == {schedule.num_iterations - 2, schedule.num_iterations - 1}


def test_only_the_last_iterations_are_shown_of_many(monkeypatch):
    schedule = scheduled()
    monkeypatch.setattr(module, "MAX_ITERATIONS", 1)
    shown = {event["args"]["iteration"] for event in events(schedule, "X", NPU)}
    assert shown == {schedule.num_iterations - 2, schedule.num_iterations - 1}


def test_an_iteration_with_too_many_stages_is_refused(monkeypatch):
    schedule = scheduled()
    for place in (module, trace):
        monkeypatch.setattr(place, "MAX_STAGES", schedule.plan.chunks.num_stages - 1)
    with pytest.raises(InputError, match="fewer chunks"):
        iteration_trace(schedule)
