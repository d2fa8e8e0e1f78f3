import json

import numpy as np
import pytest
from iteration_schedules import layers, scheduled

from themis_opt.errors import InputError
from themis_opt.formats.iteration_json import iteration_document, read_iteration_schedule
from themis_opt.iterations.simulator import sequences_of, simulate_iterations
from themis_opt.iterations.validation import validate_iterations

POLICIES = ("fused/baseline", "wait_free/themis+scf", "ddp:cap=4MB/hourglass", "dear:threshold=6MB/themis", "priority")


@pytest.fixture
def written(tmp_path):
    """Write a schedule and read it again."""

    def again(schedule, **given):
        path = tmp_path / "schedule.json"
        path.write_text(json.dumps(iteration_document(schedule)), encoding="utf-8")
        return read_iteration_schedule(path, **given)

    return again


@pytest.mark.parametrize("policy", POLICIES)
def test_times_survive_a_round_trip(written, policy):
    schedule = scheduled(policy)
    read = written(schedule)
    assert np.array_equal(read.task_start, schedule.task_start)
    assert np.array_equal(read.stage_start, schedule.stage_start)


@pytest.mark.parametrize("policy", POLICIES)
def test_launches_and_chunks_survive_a_round_trip(written, policy):
    plan = scheduled(policy).plan
    read = written(scheduled(policy)).plan
    assert (read.launches, read.chunks, read.order) == (plan.launches, plan.chunks, plan.order)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_read_is_valid(written, policy):
    validate_iterations(written(scheduled(policy)))


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_read_runs_alike(written, policy):
    schedule = scheduled(policy)
    again = simulate_iterations(schedule.instance, written(schedule).plan)
    assert again.iteration_time == schedule.iteration_time


def test_enforced_sequences_survive_a_round_trip(written):
    schedule = scheduled()
    enforced = simulate_iterations(schedule.instance, schedule.plan.enforcing(sequences_of(schedule)))
    pairs = zip(written(enforced).plan.sequences, enforced.plan.sequences, strict=True)
    assert all(np.array_equal(read, own) for read, own in pairs)


def test_keys_survive_a_round_trip(written):
    schedule = scheduled("wait_free/hourglass")
    assert schedule.plan.keys is not None
    assert np.array_equal(written(schedule).plan.keys, schedule.plan.keys)


def test_equal_schedules_give_equal_files():
    assert json.dumps(iteration_document(scheduled())) == json.dumps(iteration_document(scheduled()))


def test_names_stand_for_tasks_tensors_and_dimensions():
    launch = iteration_document(scheduled())["launches"][0]
    assert (launch["tensors"], launch["after"]) == (["rows"], {"task": "layer0_forward", "later": 0})
    assert launch["paths"] == [["dim1"], ["dim1"]]


def test_unknown_times_are_null():
    rows = iteration_document(scheduled("dear:threshold=6MB/themis"))["stage_start_ps"]
    assert None in rows[-1]
    assert all(None not in row for row in rows[:-1])


def test_schedule_of_another_instance_is_refused(written):
    with pytest.raises(InputError, match="belongs to another instance"):
        written(scheduled(), instance=layers(4))


def test_instance_of_another_name_is_the_same(written):
    assert written(scheduled(), instance=layers(name="other")).instance.name == "other"
