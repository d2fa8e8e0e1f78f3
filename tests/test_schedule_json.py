"""The schedule file: what is written reads back equal, and what does not fit is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import enforced_plans, schedules

import themis_opt
from themis_opt.errors import InputError
from themis_opt.formats.schedule_json import FORMAT, Summary, read_schedule, schedule_document
from themis_opt.policies.registry import make_policy
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.validation import validate


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


@settings(max_examples=20)
@given(schedules())
def test_read_schedule_is_valid(read, written):
    validate(read(schedule_document(written)))


@settings(max_examples=20)
@given(schedules())
def test_read_schedule_has_the_makespan_and_utilisation_of_its_summary(read, written):
    document = schedule_document(written)
    again = read(document)
    assert document["summary"]["makespan_ns"] == again.makespan / 1000
    assert document["summary"]["utilisation"] == again.utilisation


def test_document_is_strict_json(schedule):
    document = schedule_document(schedule)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_document_names_its_format(schedule):
    assert schedule_document(schedule)["format"] == FORMAT == "themis-opt/schedule/1"


def test_document_holds_the_fingerprint_of_its_instance(schedule, figure_5):
    assert schedule_document(schedule)["fingerprint"] == figure_5.fingerprint


def test_paths_are_names_of_dimensions(schedule):
    (collective,) = schedule_document(schedule)["collectives"]
    assert {name for path in collective["paths"] for name in path} == {"dim1", "dim2"}


def test_plan_without_sequences_has_none_in_its_document(schedule):
    assert schedule_document(schedule)["sequences"] == {}


def test_dimension_left_to_its_dispatch_rule_reads_back(read, figure_5, enforced):
    plan = replace(enforced.plan, sequences=(None, enforced.plan.sequences[1]))
    partly = simulate(figure_5, plan)
    assert read(schedule_document(partly)) == partly


def test_summary_is_written_as_given(schedule):
    summary = Summary(policy="themis+scf", makespan_ns=1, utilisation=0.5, gap=0.1, status="feasible")
    assert schedule_document(schedule, summary)["summary"] == summary.model_dump()


def test_schedule_reads_back_with_the_instance_it_belongs_to(read, schedule, figure_5):
    assert read(schedule_document(schedule), figure_5) == schedule


def test_schedule_of_a_renamed_instance_still_belongs(read, schedule, figure_5):
    assert read(schedule_document(schedule), figure_5.replace(name="another name")) == schedule


@pytest.mark.parametrize("change", [{"chunks": 8}, {"size": "512 MB"}, {"latency": "occupy"}, {"ag_order": "reverse"}])
def test_schedule_of_another_instance_is_refused(read, schedule, figure_5, change):
    with pytest.raises(InputError, match="belongs to another instance"):
        read(schedule_document(schedule), figure_5.overridden(**change))


def test_read_arrays_are_integers(read, schedule):
    again = read(schedule_document(schedule))
    assert {a.dtype for a in (again.start, again.end, again.ready, again.plan.chunks[0].sizes)} == {np.dtype(np.int64)}


def test_several_collectives_read_back_equal(read, mixed, run):
    written = run(mixed.overridden(chunks=2), "themis+scf")
    assert read(schedule_document(written)) == written


def test_named_dimensions_read_back_equal(read):
    network = themis_opt.Network(
        dimensions=[
            {"kind": "ring", "size": 2, "bandwidth": "1 GB/s", "name": "node"},
            {"kind": "ring", "size": 2, "bandwidth": "1 GB/s", "name": "pod"},
        ]
    )
    collective = themis_opt.Collective(kind="all_to_all", size="1 MB", chunks=3)
    instance = themis_opt.Instance(network=network, collectives=[collective])
    written = simulate(instance, make_policy("random")(instance))
    assert read(schedule_document(written)) == written


@pytest.mark.parametrize("key", ["collectives", "start_ps", "sequences", "fingerprint"])
def test_missing_key_is_named(read, schedule, key):
    document = schedule_document(schedule)
    del document[key]
    with pytest.raises(InputError, match=f"{key}: required field is missing"):
        read(document)


def test_error_names_the_file(read, file, schedule):
    with pytest.raises(InputError) as error:
        read(schedule_document(schedule) | {"dispatch": "magic"})
    assert error.value.source == str(file)


def test_ragged_paths_are_refused(read, schedule):
    document = schedule_document(schedule)
    document["collectives"][0]["paths"][1].pop()
    with pytest.raises(InputError, match="paths must have one length"):
        read(document)


def test_unknown_dimension_is_refused(read, schedule):
    document = schedule_document(schedule)
    document["collectives"][0]["paths"][1][0] = "dim9"
    with pytest.raises(InputError, match="'dim9': the network has dim1, dim2"):
        read(document)


def test_sequences_must_cover_all_dimensions(read, enforced):
    document = schedule_document(enforced)
    del document["sequences"]["dim2"]
    with pytest.raises(InputError, match="must have one entry for each of dim1, dim2"):
        read(document)
