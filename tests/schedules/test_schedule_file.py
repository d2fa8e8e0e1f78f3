"""The schedule file: what is written reads back equal, and what does not fit is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from edits import edited
from hypothesis import given
from iteration_schedules import collectives, layers, scheduled, with_and_without_compute, with_compute
from strategies import enforced_plans, schedules

import themis_opt
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.schedules.envelope import Summary
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import read_schedule, schedule_document
from themis_opt.schedules.simulator import simulate


@pytest.fixture
def schedule(figure_5, run) -> Schedule:
    return run(figure_5, "themis+scf")


@pytest.fixture
def enforced(figure_5, schedule) -> Schedule:
    return simulate(figure_5, schedule.enforced_plan())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file to be overwritten by each example."""
    return tmp_path_factory.mktemp("schedules") / "schedule.json"


@pytest.fixture(scope="module")
def read(file):
    """Read a document back."""

    def write_and_read(document, instance=None):
        file.write_text(json.dumps(document), encoding="utf-8")
        return read_schedule(file, instance)

    return write_and_read


@given(schedules())
def test_any_schedule_reads_back_equal(read, written):
    assert read(schedule_document(written)) == written


@given(enforced_plans())
def test_enforced_sequences_read_back_equal(read, pair):
    instance, plan = pair
    assert read(schedule_document(simulate(instance, plan))).plan == plan


@with_compute
def test_any_schedule_with_compute_reads_back_equal(read, schedule):
    assert read(schedule_document(schedule)) == schedule


def test_stage_that_starts_with_the_clock_reads_back(read):
    """Its start is 0, which is not unknown."""
    instance = themis_opt.Instance(**edited(layers().model_dump(mode="json"), "iteration.tasks.0.duration", "0 ps"))
    schedule = scheduled(instance=instance)
    assert schedule.start[0] == 0
    assert read(schedule_document(schedule)) == schedule


@with_compute
def test_enforced_periods_read_back_equal(read, schedule):
    enforced = simulate(schedule.instance, schedule.enforced_plan())
    again = read(schedule_document(enforced))
    assert again.plan == enforced.plan
    assert simulate(again.instance, again.plan) == enforced


@given(schedules())
def test_read_schedule_has_the_makespan_and_utilisation_of_its_summary(read, written):
    document = schedule_document(written)
    again = read(document)
    assert document["summary"]["makespan_ns"] == again.makespan / 1000
    assert document["summary"]["utilisation"] == again.utilisation


@with_and_without_compute
def test_document_holds_the_fingerprint_of_its_instance(schedule):
    assert schedule_document(schedule)["fingerprint"] == schedule.instance.fingerprint


def test_urgency_can_be_said(read):
    document = schedule_document(scheduled())
    assert [launch["urgent"] for launch in document["launches"]] == [True, False, False, False]
    changed = edited(edited(document, "launches.0.urgent", False), "launches.1.urgent", True)
    assert [launch.urgent for launch in read(changed).plan.launches] == [False, True, False, False]


def test_unknown_times_are_null():
    rows = schedule_document(scheduled("dear:threshold=6MB/themis"))["stage_start_ps"]
    assert None in rows[-1]
    assert all(None not in row for row in rows[:-1])


@pytest.mark.parametrize("change", [{"order": "newest"}, {"keys": np.zeros(10)}])
def test_plan_that_the_format_cannot_hold_is_not_written(change):
    schedule = collectives()
    with pytest.raises(InputError, match="without launches, order and keys"):
        schedule_document(replace(schedule, plan=replace(schedule.plan, **change)))


def test_dimension_left_to_its_dispatch_rule_reads_back(read, figure_5, enforced):
    plan = replace(enforced.plan, sequences=(None, enforced.plan.sequences[1]))
    partly = simulate(figure_5, plan)
    assert read(schedule_document(partly)) == partly


SUMMARY = Summary(policy="themis+scf", bounds_ns={"ideal": 5.0, "fluid": 8.0}, status="feasible", settings={"seed": 3})


@with_and_without_compute
def test_summary_holds_what_is_given(schedule):
    assert schedule_document(schedule, SUMMARY)["summary"].items() >= SUMMARY.model_dump().items()


@with_and_without_compute
def test_summary_holds_the_gap_to_the_best_bound(schedule):
    summary = schedule_document(schedule, SUMMARY)["summary"]
    assert summary["gap"] == schedule.makespan / 8000 - 1
    assert schedule_document(schedule)["summary"]["gap"] is None


@with_compute
def test_summary_holds_the_gap_of_exposed_communication(schedule):
    compute = schedule.instance.compute
    bounded = Summary(bounds_ns={"best": (compute + schedule.period.exposed / 2) / 1000})
    assert schedule_document(schedule, bounded)["summary"]["exposed_gap"] == pytest.approx(1)


WRONG = [
    # path, value, what the message must say
    ("summary.gap", 0.0, "summary.gap"),
    ("summary.utilisation", 0.999, "summary.utilisation"),
    ("summary.bounds_ns", {}, "summary.gap = .*: needs bounds"),
    ("summary.bounds_ns.ideal", 1e9, "summary.bounds_ns.ideal = 1000000000.0: a bound must be at most the makespan"),
    ("summary.bounds_ns.ideal", 9.0, "summary.gap"),
]
WRONG_WITH_COMPUTE = [
    ("summary.makespan_ns", 1.0, "summary.makespan_ns"),
    ("summary.exposed_ns", 1.0, "summary.exposed_ns"),
    ("summary.overlap", 1.0, "summary.overlap"),
    ("summary.exposed_gap", 0.5, "summary.exposed_gap"),
]


@pytest.mark.parametrize(
    ("schedule", "path", "value", "said"),
    [(collectives(), *wrong) for wrong in [*WRONG, ("summary.makespan_ns", 1.0, "summary.makespan_ns")]]
    + [(scheduled(), *wrong) for wrong in WRONG + WRONG_WITH_COMPUTE],
)
def test_summary_that_the_times_contradict_is_refused(read, schedule, path, value, said):
    summary = SUMMARY
    if schedule.has_period:
        summary = Summary(bounds_ns={"ideal": schedule.instance.compute / 1000 + 1})
    document = schedule_document(schedule, summary)
    assert read(document) == schedule
    with pytest.raises(InputError, match=said):
        read(edited(document, path, value))


def test_exposed_gap_to_a_bound_that_leaves_nothing_is_not_judged(read):
    schedule = scheduled()
    document = schedule_document(schedule, Summary(bounds_ns={"compute": schedule.instance.compute / 1000}))
    assert document["summary"]["exposed_gap"] == 1.0
    assert read(edited(document, "summary.exposed_gap", 1e12)) == schedule


def test_stages_without_a_phase_are_refused(read):
    """An all-reduce of three stages has no costs, and so no makespan."""
    document = schedule_document(scheduled())
    for path in document["launches"][1]["paths"]:
        path.pop()
    document["stage_start_ps"] = [row[:-2] for row in document["stage_start_ps"]]
    with pytest.raises(InvalidSchedule, match="'stages'"):
        read(document)


@pytest.mark.parametrize("changes", [{"kind": "all_gather"}, {"part": "gather"}, {"tensors": ["w2", "rows"]}])
def test_launch_that_does_not_fit_its_tensors_is_refused(read, changes):
    document = schedule_document(scheduled())
    document["launches"][1] |= changes
    with pytest.raises(InvalidSchedule, match="'coverage'"):
        read(document)


def test_times_beyond_the_clock_are_refused(read):
    """Stages so long that their ends overflow back to 0 had a makespan of 0."""
    dimension = {"kind": "ring", "size": 2, "bandwidth": "1e-20 B/s", "launch_overhead": "1 ps"}
    network = themis_opt.Network(dimensions=[dimension])
    collective = themis_opt.Collective(kind="all_to_all", size="4 B", chunks=1)
    instance = themis_opt.Instance(network=network, collectives=[collective])
    (part,) = instance.exchanges
    document = {
        "format": "themis-opt/schedule/1", "instance": instance.model_dump(mode="json"),
        "fingerprint": instance.fingerprint, "summary": {"makespan_ns": 0.0, "utilisation": 0.0}, "dispatch": "fifo",
        "collectives": [{"name": part.name, "sizes": [4], "paths": [["dim1"]]}], "sequences": {},
        "start_ps": [2**63 - 1], "end_ps": [0], "ready_ps": [0],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"more than the .* s the clock holds"):
        read(document)


@pytest.mark.parametrize(("given", "other"), [(collectives(), scheduled()), (scheduled(), collectives())])
def test_format_must_fit_the_instance(read, given, other):
    instance = other.instance
    changes = {"instance": instance.model_dump(mode="json"), "fingerprint": instance.fingerprint}
    with pytest.raises(InputError, match="is for instances with"):
        read(schedule_document(given) | changes)


@pytest.mark.parametrize("changes", [{}, {"name": "another name"}])
def test_schedule_reads_back_with_the_instance_it_belongs_to(read, schedule, figure_5, changes):
    assert read(schedule_document(schedule), figure_5.replace(**changes)) == schedule


def test_schedule_with_compute_reads_back_with_the_instance_it_belongs_to(read):
    document = schedule_document(scheduled())
    assert read(document, layers(name="other")).instance.name == "other"
    with pytest.raises(InputError, match="belongs to another instance"):
        read(document, layers(4))


@pytest.mark.parametrize("change", [{"chunks": 8}, {"size": "512 MB"}, {"latency": "occupy"}, {"ag_order": "reverse"}])
def test_schedule_of_another_instance_is_refused(read, schedule, figure_5, change):
    with pytest.raises(InputError, match="belongs to another instance"):
        read(schedule_document(schedule), figure_5.overridden(**change))
