"""Schedule files that were damaged or edited: one line names the file and the rule; exit code 2."""

import json

import pytest
from edits import edited

import themis_opt
from themis_opt.formats.schedule_json import schedule_document

COMMANDS = ("validate", "explain")
FAR = 2**63 - 1


@pytest.fixture(scope="session")
def schedule():
    """A valid schedule file with enforced sequences as JSON values; not to be changed."""
    instance = themis_opt.load("fig5.all_reduce.256MB")
    found = themis_opt.simulate(instance, themis_opt.make_policy("themis+scf")(instance))
    return schedule_document(themis_opt.simulate(instance, found.enforced_plan()))


@pytest.mark.parametrize("command", COMMANDS)
def test_untouched_copy_is_accepted(succeed, save, schedule, command):
    assert succeed(command, save(schedule))


REQUIRED = (
    "format",
    "instance",
    "fingerprint",
    "summary",
    "dispatch",
    "collectives",
    "sequences",
    "start_ps",
    "end_ps",
    "ready_ps",
    "collectives.0.name",
    "collectives.0.sizes",
    "collectives.0.paths",
    "instance.network",
    "summary.makespan_ns",
)


@pytest.mark.parametrize("path", REQUIRED)
@pytest.mark.parametrize("command", COMMANDS)
def test_missing_key_is_named(refuse, save, schedule, command, path):
    file = save(edited(schedule, path))
    message = refuse(command, file)
    assert message.startswith(f"error: {file}: ")
    assert path.split(".")[-1] in message


FIELDS = [
    # path, value, what the message must say
    ("format", "themis-opt/schedule/2", "format = 'themis-opt/schedule/2'"),
    ("surprise", 1, "surprise"),
    ("fingerprint", "0" * 32, "fingerprint"),
    ("fingerprint", 5, "fingerprint"),
    ("instance.collectives.0.size", "128 MB", "fingerprint"),
    ("instance.network.dimensions.0.bandwidth", "96 GB/s", "fingerprint"),
    ("instance.network.dimensions.0.size", 1, "instance.network.dimensions[0].size"),
    ("instance.latency", "occupy", "fingerprint"),
    ("instance.ag_order", "reverse", "fingerprint"),
    ("dispatch", "magic", "dispatch"),
    ("summary", 5, "summary"),
    ("start_ps.0", -1, "start_ps[0]"),
    ("end_ps.3", -(2**63), "end_ps[3]"),
    ("ready_ps.3", 2**63, "ready_ps[3]"),
    ("start_ps.0", 1.5, "start_ps[0]"),
    ("start_ps.0", "0", "start_ps[0]"),
    ("start_ps.0", None, "start_ps[0]"),
    ("start_ps", [], "start"),
    ("end_ps", [0], "end"),
    ("ready_ps", [0] * 100, "makespan"),
    ("end_ps.0", FAR, "duration"),
    ("ready_ps.0", FAR, "makespan"),
    ("start_ps.0", FAR, "duration"),
    ("start_ps", [0] * 16, "duration"),
    ("collectives", [], "collectives"),
    ("collectives.0.sizes", [], "sizes"),
    ("collectives.0.sizes", [64_000_000] * 3, "sizes"),
    ("collectives.0.sizes.0", 0, "sizes"),
    ("collectives.0.sizes.0", 1, "sizes"),
    ("collectives.0.sizes.0", -64_000_000, "sizes"),
    ("collectives.0.sizes.0", 32_000_000, "sizes"),
    ("collectives.0.sizes.0", 2**62, "sizes"),
    ("collectives.0.sizes.0", 2**63 - 2, "sizes"),
    ("collectives.0.sizes.0", 2**63, "sizes"),
    ("collectives.0.sizes", [2**62] * 4, "sizes"),
    ("collectives.0.paths", [], "paths"),
    ("collectives.0.paths", [[]] * 4, "stages"),
    ("collectives.0.paths.0", [], "paths"),
    ("collectives.0.paths.0", ["dim1", "dim2", "dim2"], "paths"),
    ("collectives.0.paths.0", ["dim1", "dim2", "dim2", "dim9"], "dim9"),
    ("collectives.0.paths.0", ["dim1", "dim1", "dim2", "dim2"], "stages"),
    ("collectives.0.paths.0", [0, 1, 1, 0], "paths"),
    ("collectives.0.name", "weights", "weights"),
    ("sequences", {"dim1": None}, "sequences"),
    ("sequences", {"dim1": None, "dim9": None}, "sequences"),
    ("sequences", [], "sequences"),
    ("sequences.dim1", [], "sequence"),
    ("sequences.dim1", [0] * 8, "sequence"),
    ("sequences.dim1.0", 99, "sequence"),
    ("sequences.dim1.0", -1, "sequences.dim1[0]"),
    ("sequences.dim9", None, "sequences"),
    ("summary.makespan_ns", 1, "makespan"),
]


@pytest.mark.parametrize(
    ("path", "value", "said"), FIELDS, ids=[f"{path}={str(value)[:24]}" for path, value, _ in FIELDS]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_edit_is_refused(refuse, save, schedule, command, path, value, said):
    message = refuse(command, save(edited(schedule, path, value)))
    assert said in message


@pytest.mark.parametrize("path", ["start_ps.0", "collectives.0.sizes.0", "sequences.dim1"])
def test_broken_rule_names_the_file(refuse, save, schedule, path):
    value = [0] * 8 if path.startswith("sequences") else 1
    file = save(edited(schedule, path, value))
    assert str(file) in refuse("validate", file)


def test_repeated_stage_in_a_sequence_is_refused(refuse, save, schedule):
    first, *_, last = schedule["sequences"]["dim1"]
    doubled = [*schedule["sequences"]["dim1"][:-1], first]
    assert first != last
    assert "sequence" in refuse("validate", save(edited(schedule, "sequences.dim1", doubled)))


def test_reversed_sequence_is_refused(refuse, save, schedule):
    backwards = schedule["sequences"]["dim1"][::-1]
    assert "sequence" in refuse("validate", save(edited(schedule, "sequences.dim1", backwards)))


def test_early_stage_is_refused(refuse, save, schedule):
    early = max(range(16), key=lambda stage: schedule["start_ps"][stage])
    times = {name: schedule[name][early] - 1 for name in ("start_ps", "end_ps", "ready_ps")}
    damaged = schedule
    for name, time in times.items():
        damaged = edited(damaged, f"{name}.{early}", time)
    assert "rule" in refuse("validate", save(damaged))


def test_late_schedule_is_no_error(succeed, save, schedule):
    """Waiting longer than needed breaks no rule of the model."""
    later = schedule
    for name in ("start_ps", "end_ps", "ready_ps"):
        later = edited(later, name, [time + 10**9 for time in schedule[name]])
    later = edited(later, "summary.makespan_ns", schedule["summary"]["makespan_ns"] + 10**6)
    later = edited(later, "summary.utilisation", schedule["summary"]["utilisation"] * 7 / 8)
    assert succeed("validate", save(later))


def test_swapped_collectives_are_refused(refuse, succeed, save, tmp_path):
    succeed("simulate", "release_and_subset.mixed.8MB", "--policies", "baseline", "-o", tmp_path)
    schedule = json.loads((tmp_path / "baseline" / "schedule.json").read_text(encoding="utf-8"))
    assert "collectives = " in refuse("validate", save(edited(schedule, "collectives", schedule["collectives"][::-1])))


@pytest.mark.parametrize("command", COMMANDS)
def test_instance_in_place_of_a_schedule_is_refused(refuse, save, document, command):
    message = refuse(command, save(document))
    assert "format = 'themis-opt/instance/1': must be 'themis-opt/schedule/1'" in message


@pytest.mark.parametrize("name", ["order.json", "trace.json", "comparison.json", "stages.csv", "gantt.png"])
def test_other_file_of_a_solution_is_refused(refuse, solution, name):
    assert name in refuse("validate", solution / name)


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file_is_refused(refuse, tmp_path, command):
    assert f"{tmp_path / 'none.json'}: " in refuse(command, tmp_path / "none.json")


@pytest.mark.parametrize("command", COMMANDS)
def test_directory_is_refused(refuse, tmp_path, command):
    assert f"{tmp_path}: is a directory" in refuse(command, tmp_path)


def test_cut_off_file_is_refused(refuse, save, schedule):
    text = json.dumps(schedule)
    assert "not JSON" in refuse("validate", save(text[: len(text) // 2]))


def test_instance_to_compare_with_must_exist(refuse, solution):
    assert "fig6: no such file" in refuse("validate", solution / "schedule.json", "--instance", "fig6")


def test_more_chunks_than_the_instance_has_are_refused(refuse, succeed, save, document, tmp_path):
    """The bounds hold for at most as many chunks."""
    succeed("simulate", "fig5.all_reduce.256MB", "--chunks", 8, "--policies", "baseline", "-o", tmp_path)
    finer = json.loads((tmp_path / "baseline" / "schedule.json").read_text(encoding="utf-8"))
    fingerprint = json.loads(succeed("show", save(document), "--json"))["fingerprint"]
    disguised = edited(edited(finer, "instance.collectives.0.chunks", 4), "fingerprint", fingerprint)
    refuse("validate", save(disguised))
