import pytest
from iteration_schedules import scheduled

from themis_opt.formats import iteration_bundle
from themis_opt.formats.iteration_bundle import write_iteration_schedule
from themis_opt.formats.iteration_span import unfolded
from themis_opt.formats.iteration_tables import resource_rows, task_rows, wait_rows
from themis_opt.validation import validate

POLICIES = ("fused/baseline", "wait_free/themis+scf", "dear/hourglass")


@pytest.mark.parametrize("policy", POLICIES)
def test_waits_are_all_exposed_communication(policy):
    schedule = scheduled(policy)
    assert sum(row["wait_ns"] for row in wait_rows(schedule)) == pytest.approx(schedule.exposed / 1000)


@pytest.mark.parametrize("kind", ["data", "model"])
@pytest.mark.parametrize("policy", POLICIES)
def test_waits_have_the_parallelism_of_what_is_exposed(policy, kind):
    schedule = scheduled(policy)
    own = [row["wait_ns"] for row in wait_rows(schedule) if row["parallelism"] == kind]
    assert sum(own) == pytest.approx(schedule.exposed_by(kind) / 1000)


def test_a_wait_names_its_launch():
    first = wait_rows(scheduled("fused/baseline"))[0]
    assert (first["task"], first["launch"], first["start_ns"]) == ("layer1_forward", "rows", 40_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_busy_and_idle_time_of_every_resource_is_an_iteration(policy):
    schedule = scheduled(policy)
    totals = [row["busy_ns"] + row["idle_ns"] for row in resource_rows(schedule)]
    assert totals == pytest.approx([schedule.iteration_time / 1000] * 3)


@pytest.mark.parametrize("policy", POLICIES)
def test_busy_time_is_the_length_of_what_a_resource_does(policy):
    schedule = scheduled(policy)
    occupied = [schedule.costs.occupancy[schedule.plan.chunks.stage_dimensions == k].sum() / 1000 for k in range(2)]
    busy = [row["busy_ns"] for row in resource_rows(schedule)]
    assert busy == pytest.approx([schedule.instance.compute / 1000, *occupied])


def test_tasks_are_listed_from_the_start_of_their_iteration():
    rows = task_rows(scheduled())
    assert rows[0] == {"task": "layer0_forward", "start_ns": 0.0, "end_ns": 40_000.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_iterations_on_one_clock_are_a_valid_schedule_of_collectives(policy):
    schedule = scheduled(policy)
    validate(unfolded(schedule, range(schedule.num_iterations - 1)))


FILES = {"schedule.json", "tasks.csv", "stages.csv", "trace.json", "gantt.png", "gantt.svg"}


def test_a_folder_holds_every_format(tmp_path):
    files = write_iteration_schedule(tmp_path, scheduled(), "title")
    assert {path.name for path in files} == {path.name for path in tmp_path.iterdir()} == FILES


def test_pictures_that_could_not_be_read_are_left_out(tmp_path, monkeypatch):
    write_iteration_schedule(tmp_path, scheduled(), "title")
    monkeypatch.setattr(iteration_bundle, "MAX_PICTURED_STAGES", 1)
    write_iteration_schedule(tmp_path, scheduled(), "title")
    assert {path.name for path in tmp_path.iterdir()} == FILES - {"trace.json", "gantt.png", "gantt.svg"}
