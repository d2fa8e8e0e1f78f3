"""Schedule files that were damaged or edited: one line names the file and the rule; exit code 2."""

import json
from dataclasses import replace

import pytest
from edits import edited
from iteration_schedules import layers, scheduled

import themis_opt
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import schedule_document
from themis_opt.schedules.simulator import simulate

COMMANDS = ("validate", "explain")
FAR = 2**63 - 1


def enforced(instance, policy):
    """A schedule with enforced sequences."""
    return simulate(instance, simulate(instance, themis_opt.make_policy(policy)(instance)).enforced_plan())


MAKESPAN = enforced(themis_opt.load("fig5.all_reduce.256MB"), "themis+scf")
PERIOD = scheduled("fused/baseline")

DOCUMENTS = {"makespan": schedule_document(MAKESPAN), "period": schedule_document(PERIOD)}
"""Valid schedule files as JSON values; not to be changed."""


OF_BOTH = ("format", "instance", "fingerprint", "summary", "dispatch", "sequences", "instance.network")
REQUIRED = {
    "makespan": (
        *OF_BOTH, "collectives", "start_ps", "end_ps", "ready_ps", "collectives.0.name", "collectives.0.sizes",
        "collectives.0.paths", "summary.makespan_ns",
    ),
    "period": (
        *(field for field in OF_BOTH if field != "sequences"), "order", "launches", "task_start_ps", "stage_start_ps",
        "launches.0.name", "launches.0.kind", "launches.0.tensors", "launches.0.after", "launches.0.before.task",
        "launches.0.sizes", "launches.0.paths", "summary.makespan_ns",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in REQUIRED.items() for path in paths])
def test_missing_key_is_named(refuse, save, kind, path):
    file = save(edited(DOCUMENTS[kind], path))
    message = refuse("validate", file)
    assert message.startswith(f"error: {file}: ")
    assert path.split(".")[-1] in message


FIELDS = [
    # path, value, what the message must say
    ("format", "themis-opt/schedule/2", "format = 'themis-opt/schedule/2'"),
    ("surprise", 1, "surprise"),
    ("fingerprint", "0" * 32, "fingerprint"),
    ("instance.collectives.0.size", "128 MB", "fingerprint"),
    ("instance.network.dimensions.0.bandwidth", "96 GB/s", "fingerprint"),
    ("instance.network.dimensions.0.size", 1, "instance.network.dimensions[0].size"),
    ("instance.latency", "occupy", "fingerprint"),
    ("dispatch", "magic", "dispatch"),
    ("summary", 5, "summary"),
    ("start_ps.0", -1, "start_ps[0]"),
    ("end_ps.3", -(2**63), "end_ps[3]"),
    ("ready_ps.3", 2**63, "ready_ps[3]"),
    ("start_ps.0", 1.5, "start_ps[0]"),
    ("start_ps", [], "start"),
    ("ready_ps", [0] * 100, "makespan"),
    ("end_ps.0", FAR, "duration"),
    ("start_ps", [0] * 16, "duration"),
    ("collectives", [], "collectives"),
    ("collectives.0.sizes", [], "sizes"),
    ("collectives.0.sizes", [64_000_000] * 3, "collectives[0].sizes: must hold one size for each of 4 paths, has 3"),
    ("collectives.0.sizes.0", 0, "sizes"),
    ("collectives.0.sizes.0", 32_000_000, "sizes"),
    ("collectives.0.sizes.0", 2**63, "sizes"),
    ("collectives.0.paths", [], "paths"),
    ("collectives.0.paths", [[]] * 4, "stages"),
    ("collectives.0.paths.0", [], "paths"),
    ("collectives.0.paths.0", ["dim1", "dim2", "dim2", "dim9"], "dim9"),
    ("collectives.0.paths.0", ["dim1", "dim1", "dim2", "dim2"], "schedule breaks rule 'stages': "),
    ("collectives.0.paths.0", [0, 1, 1, 0], "paths"),
    ("collectives.0.name", "weights", "weights"),
    ("sequences", {"dim1": None}, "sequences"),
    ("sequences", [], "sequences"),
    ("sequences.dim1", [0] * 8, "sequence"),
    ("sequences.dim1.0", 99, "sequence"),
    ("sequences.dim1.0", -1, "sequences.dim1[0]"),
    ("sequences.dim9", None, "sequences"),
]

LATE = 2**62

FIELDS_OF_PERIODS = [
    ("format", "themis-opt/iteration-schedule/2", "format = 'themis-opt/iteration-schedule/2'"),
    ("surprise", 1, "surprise"),
    ("fingerprint", "0" * 32, "fingerprint"),
    ("instance.chunks", 5, "fingerprint"),
    ("instance.iteration.tasks.0.duration", "1 us", "fingerprint"),
    ("instance.iteration.tensors.0.dimensions", ["dim9"], "instance: iteration.tensors[0].dimensions names 'dim9'"),
    ("order", "random", "order = 'random'"),
    ("dispatch", "magic", "dispatch"),
    ("launches", [], "launches"),
    ("launches.0.tensors", ["nothing"], "launches[0].tensors = 'nothing'"),
    ("launches.0.tensors", [], "launches[0].tensors"),
    ("launches.0.after.task", "nothing", "launches[0].after.task = 'nothing'"),
    ("launches.0.after.later", 2, "launches[0].after.later"),
    ("launches.0.before.task", "nothing", "launches[0].before.task = 'nothing'"),
    ("launches.0.after_launches", ["nothing"], "launches[0].after_launches = 'nothing'"),
    ("launches.0.part", "third", "launches[0].part"),
    ("launches.0.kind", "multicast", "launches[0].kind"),
    ("launches.0.kind", "all_gather", "rule 'coverage': rows runs all_gather"),
    ("launches.0.urgent", "yes", "launches[0].urgent"),
    ("launches.1.name", "rows", "names must differ"),
    ("launches.0.paths.0", ["dim9"], "launches[0].paths = 'dim9'"),
    ("launches.0.paths", [["dim2"], ["dim1"]], "rule 'stages'"),
    ("launches.0.sizes.0", -2, "launches[0].sizes[0]"),
    ("launches.0.sizes.0", 0, "chunk 0 of rows has 0 bytes"),
    ("launches.0.sizes.0", 2**53 - 1, "chunk 0 of rows has 9007199254740991 bytes"),
    ("launches.0.sizes", [1_000_000] * 3, "launches[0].sizes: must hold one size for each of 2 paths, has 3"),
    ("launches.1.tensors", ["w0", "w1", "w1"], "schedule breaks rule 'coverage': "),
    ("launches.1.sizes.0", 2, "schedule breaks rule 'sizes': "),
    ("keys", [0.5], "keys"),
    ("sequences", [[], []], "sequences[0]"),
    ("sequences", [[]], "sequences"),
    ("task_start_ps", [[0]], "task_start_ps"),
    ("task_start_ps.1", [], "task_start_ps[1]"),
    ("task_start_ps.0.0", -1, "task_start_ps[0][0]"),
    ("task_start_ps.0.0", LATE, "task_start_ps[0][0]"),
    ("task_start_ps.0.0", None, "task_start_ps[0][0]"),
    ("stage_start_ps", [[0], [0]], "stage_start_ps"),
    ("stage_start_ps.0.0", None, "stage_start_ps[0]"),
    ("stage_start_ps.0.0", LATE - 1, "rule 'needs'"),
]

EDITS = [("makespan", *edit) for edit in FIELDS] + [("period", *edit) for edit in FIELDS_OF_PERIODS]


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"), EDITS, ids=[f"{kind}.{path}={str(value)[:24]}" for kind, path, value, _ in EDITS]
)
def test_edit_is_refused(refuse, save, kind, path, value, said):
    message = refuse("validate", save(edited(DOCUMENTS[kind], path, value)))
    assert said in message


def ends_late() -> Schedule:
    """A schedule whose first stage ends a picosecond late."""
    end, ready = MAKESPAN.end.copy(), MAKESPAN.ready.copy()
    end[0] += 1
    ready[0] += 1
    return replace(MAKESPAN, end=end, ready=ready)


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_rule_is_named(refuse, save, command):
    """Tests of the validator break all other rules."""
    file = save(schedule_document(ends_late()))
    assert refuse(command, file).startswith(f"error: {file}: schedule breaks rule 'duration': ")


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_cut_off_file_is_refused(refuse, save, kind):
    text = json.dumps(DOCUMENTS[kind])
    assert "not JSON" in refuse("validate", save(text[: len(text) // 2]))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_schedule_must_belong_to_the_instance(refuse, save, document, kind):
    """Neither to another one of its kind nor to one of the other kind."""
    for number, other in enumerate((edited(document, "latency", "occupy"), layers(4).model_dump(mode="json"))):
        file = save(other, f"other{number}.json")
        assert "belongs to another instance" in refuse("validate", save(DOCUMENTS[kind]), "--instance", file)


@pytest.mark.parametrize("given", ["shipped", "file"])
def test_an_instance_in_the_place_of_its_schedule_is_told(refuse, save, document, given):
    said = refuse("validate", "fig5.all_reduce.256MB" if given == "shipped" else save(document))
    assert "is an instance: solve it, then give the schedule.json that 'themis-opt solve' writes" in said


def test_a_schedule_in_the_place_of_its_instance_is_told(refuse, solution):
    assert "is a schedule: give its instance" in refuse("simulate", solution / "schedule.json")
