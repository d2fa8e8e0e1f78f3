"""What the rows of runs hold, with and without compute."""

import json

import pytest
from planning import schedule_of

from themis_opt.batches import measured_run
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import Experiment
from themis_opt.batches.experiment_run import ROW_COLUMNS
from themis_opt.batches.measured_run import RECORDED, activity, code_version, execute, run_one, task_of
from themis_opt.policies.registry import make_policy, specify, usual_policies
from themis_opt.problem.catalog import load
from themis_opt.solving.bounds import bounds
from themis_opt.study.columns import RESULT_COLUMNS, schedule_row

FIG5, RESNET, DLRM = "fig5.all_reduce.256MB", "2d-sw_sw.resnet-152", "2d-sw_sw.dlrm"
PIPELINE = "v100-64.bert-large"
BOTH = pytest.mark.parametrize("name", [FIG5, RESNET])
SMALL = {"model": "resnet-50", "network": "v100-256.resnet-50", "npus": [8, 4], "chunks": 2}


@pytest.fixture
def row_of(tmp_path):
    """The row of a run with a policy, by itself, on what a block names."""

    def make(policy, **block):
        content = {"name": "trial", "runs": [{"policies": [policy]} | block]}
        (run,) = expand(Experiment.model_validate(content), tmp_path / "experiment.toml")
        result = execute(run.task, code_version())
        assert result["status"] == "ok", result["error"]
        return run.row({"key": run.key} | result)

    return make


def extra(row):
    return json.loads(row["extra"])


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (FIG5, "baseline"),
        (FIG5, "themis:threshold_divisor=4+scf"),
        (FIG5, "hourglass:sizes=free"),
        (RESNET, "fused:order=newest/baseline+fifo"),
        (RESNET, "ddp:cap=10MiB/themis+scf"),
        (RESNET, "dear"),
        (RESNET, "themis"),
    ],
)
def test_a_row_holds_what_the_simulated_schedule_says(name, policy):
    instance = load(name).overridden(chunks=4)
    row = run_one(instance, policy, {})
    schedule = schedule_of(instance, specify(policy, instance))
    columns = schedule_row(schedule) | {"makespan_ns": schedule.makespan / 1000, "stages": schedule.plan.num_stages}
    assert (row | extra(row)).items() >= columns.items()
    assert set(row) - {"seconds", "simulate_seconds", "extra"} <= set(RECORDED) <= set(ROW_COLUMNS)


def test_every_column_of_results_that_needs_no_comparison_reaches_the_rows():
    rows = [run_one(load(name).overridden(chunks=2), "baseline", {}) for name in (FIG5, RESNET, PIPELINE)]
    columns = {name for row in rows for name in row.keys() | extra(row).keys()}
    assert {column.name for column in RESULT_COLUMNS if not column.judged} <= columns


@BOTH
def test_a_bound_run_tells_all_bounds(name):
    instance = load(name)
    row = run_one(instance, "bound", {})
    assert extra(row)["bounds_ns"] == {name: value / 1000 for name, value in bounds(instance).items()}
    assert row["bound_ns"] == max(bounds(instance, equal_sizes=False).values()) / 1000
    assert row["bound_equal_ns"] == max(bounds(instance).values()) / 1000
    assert "makespan_ns" not in row


@BOTH
def test_an_exact_run_is_no_worse_than_heuristics_and_tells_bound_and_trajectory(name):
    instance, limits = load(name).overridden(chunks=2), {"seconds": 0.5, "workers": 1, "seed": 0}
    row = run_one(instance, "exact", limits, ("trajectory",))
    others = [schedule_of(instance, policy).makespan for policy in usual_policies(instance)]
    trajectory = extra(row)["trajectory"]
    assert row["makespan_ns"] <= min(others) / 1000
    assert (
        max(bounds(instance, equal_sizes=False).values()) / 1000 <= row["bound_ns"] <= row["makespan_ns"] * (1 + 1e-9)
    )
    assert trajectory[-1][1:] == [row["makespan_ns"], row["bound_ns"]]
    assert trajectory == sorted(trajectory, key=lambda entry: (entry[0], -entry[1]))
    assert all(0 < bound <= makespan * (1 + 1e-9) for _, makespan, bound in trajectory)


@BOTH
def test_activity_sums_to_what_dimensions_are_held(name):
    """In a steady period, each stage of the plan is served once."""
    instance = load(name).overridden(chunks=4)
    schedule = schedule_of(instance, specify("themis+scf", instance))
    recorded, stages = activity(schedule), schedule.plan.stage_dimensions
    for k, shares in enumerate(recorded["dimensions"]):
        window = recorded["window_ns"]
        lengths = [min(window, schedule.makespan / 1000 - n * window) for n in range(len(shares))]
        held = schedule.costs.occupancy[stages == k].sum() / 1000
        assert sum(s * w for s, w in zip(shares, lengths, strict=True)) == pytest.approx(held, rel=1e-3)


@BOTH
def test_activity_is_recorded_when_asked_for(name):
    instance = load(name).overridden(chunks=2)
    plain, recorded = (run_one(instance, "baseline", {}, r) for r in ((), ("activity",)))
    assert "activity" not in extra(plain)
    assert len(extra(recorded)["activity"]["dimensions"]) == len(instance.fabric.dimensions)


@pytest.mark.parametrize(
    ("name", "policy", "record"),
    [
        (FIG5, "exact", ("activity", "trajectory")),
        (FIG5, "baseline", ("activity",)),
        (RESNET, "exact", ("activity", "trajectory")),
        (RESNET, "ddp/search", ("activity",)),
    ],
)
def test_only_what_a_run_can_record_is_a_limit(name, policy, record):
    assert task_of(load(name), policy, {}, ("trajectory", "activity")).record == record


def test_rows_tell_the_choices_of_their_workload(row_of):
    columns = extra(row_of("baseline", workloads=[SMALL | {"accumulate": 2}]))
    assert columns["exposed_ns"] > 0
    columns = columns["workload"]
    assert (columns["model"], columns["npus"], columns["accumulate"], columns["group"]) == (
        "resnet-50",
        [8, 4],
        2,
        None,
    )


def test_the_first_run_of_a_policy_in_a_process_is_not_timed(monkeypatch):
    planned = []

    def counting(specification, **knobs):
        policy = make_policy(specification, **knobs)
        return lambda instance: planned.append(specification) or policy(instance)

    monkeypatch.setattr(measured_run, "make_policy", counting)
    for _ in range(2):
        run_one(load(FIG5), "themis:threshold_divisor=3", {})
    assert len(planned) == 3
