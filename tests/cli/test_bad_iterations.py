"""Iterations that break a rule, in instance files, schedule files and options: one line names it; exit code 2."""

import json

import pytest
from edits import ABSENT, edited
from iteration_schedules import SHARED, layers, scheduled

from themis_opt.formats.iteration_json import iteration_document
from themis_opt.instance import Dimension, Network
from themis_opt.iterations.validation import RULES

TASK, TENSOR, SPLIT = "iteration.tasks.1", "iteration.tensors.1", "iteration.splits.0"

FIELDS = [
    # path, value, what the message must say
    ("iteration", 5, "iteration = 5: "),
    ("iteration", None, "iteration: "),
    ("iteration.surprise", 1, "iteration.surprise = 1: unknown field"),
    ("iteration.tasks", ABSENT, "iteration.tasks: required field is missing"),
    ("iteration.tasks", [], "iteration.tasks: "),
    ("iteration.steps", 0, "iteration.steps = 0: "),
    ("chunks", 0, "chunks = 0: "),
    ("latency", "wait", "latency = 'wait': "),
    ("collectives", [], "has either collectives or an iteration"),
    (TASK, 5, "iteration.tasks[1] = 5: "),
    (f"{TASK}.surprise", 1, "iteration.tasks[1].surprise = 1: unknown field"),
    (f"{TASK}.duration", ABSENT, "iteration.tasks[1].duration: required field is missing"),
    (f"{TASK}.duration", "-1 us", "iteration.tasks[1].duration = '-1 us': "),
    (f"{TASK}.duration", -5, "iteration.tasks[1].duration = -5: "),
    (f"{TASK}.duration", "5 parsec", "iteration.tasks[1].duration = '5 parsec': unknown unit"),
    (f"{TASK}.duration", "1e20 s", "clock"),
    (f"{TASK}.name", "layer0_forward", "'layer0_forward' stands twice"),
    (f"{TASK}.after", ["nothing"], "iteration.tasks[1].after names 'nothing', there is no such task"),
    (f"{TASK}.after", ["layer1_forward"], "dependencies form a cycle: layer1_forward <- layer1_forward"),
    (
        f"{TASK}.after",
        ["layer2_backward"],
        "iteration.tasks: 'layer1_forward' waits for 'layer2_backward', which is listed",
    ),
    (f"{TENSOR}.kind", "broadcast", "iteration.tensors[1].kind = 'broadcast': "),
    (f"{TENSOR}.size", "0 B", "iteration.tensors[1].size = '0 B': "),
    (f"{TENSOR}.size", "3 B", "iteration.tensors[1]: size must be a multiple of element_bytes = 2"),
    (f"{TENSOR}.size", "1e29 TB", "iteration.tensors[1].size = '1e29 TB': "),
    (f"{TENSOR}.parallelism", "expert", "iteration.tensors[1].parallelism = 'expert': "),
    (f"{TENSOR}.name", "rows", "'rows' stands twice"),
    (f"{TENSOR}.ready_after", "nothing", "iteration.tensors[1].ready_after names 'nothing'"),
    (f"{TENSOR}.needed_before", "nothing", "iteration.tensors[1].needed_before names 'nothing'"),
    (f"{TENSOR}.needed_in", "last", "iteration.tensors[1].needed_in = 'last': "),
    (f"{TENSOR}.needed_in", "this", "layer0_backward"),
    (f"{TENSOR}.dimensions", ["dim9"], "iteration.tensors[1].dimensions names 'dim9', the network has dim1, "),
    (f"{TENSOR}.dimensions", ["dim1", "dim1"], "iteration.tensors[1].dimensions repeats a dimension"),
    (f"{TENSOR}.dimensions", ["dim2"], "iteration.tensors[1].dimensions names 'dim2', the network has dim1, near, far"),
    (f"{SPLIT}.dimension", "dim9", "iteration.splits[0].dimension names 'dim9'"),
    (f"{SPLIT}.sizes", [2, 3], "iteration.splits[0].sizes must multiply to 4"),
    (f"{SPLIT}.names", ["dim1", "far"], "dimension names must differ"),
]


@pytest.fixture(scope="module")
def document():
    """An iteration instance with a split dimension as JSON values; not to be changed."""
    return layers(**SHARED).model_dump(mode="json")


@pytest.mark.parametrize(("path", "value", "said"), FIELDS, ids=[f"{p}={str(v)[:24]}" for p, v, _ in FIELDS])
def test_mistake_in_an_instance_is_located(refuse, save, document, path, value, said):
    file = save(edited(document, path, value))
    message = refuse("show", file)
    assert message.startswith(f"error: {file}: ")
    assert said in message


def test_cycle_through_a_tensor_is_shown(refuse, save, document):
    """The activation that the second layer needs is made by the first."""
    message = refuse("show", save(edited(document, "iteration.tasks.0.after", ["layer1_forward"])))
    assert "dependencies form a cycle: layer0_forward <- layer1_forward <- layer0_forward" in message


POLICIES = [
    # policies, what the message must say
    ("magic", "'magic': unknown policy; use one of fused, wait_free, ddp"),
    ("magic/themis", "'magic': unknown policy"),
    ("fused/magic", "'magic': unknown policy"),
    ("fused,magic", "'magic': unknown policy"),
    ("fused/themis+magic", "unknown dispatch rule"),
    ("fused/", "unknown policy"),
    ("/themis", "unknown policy"),
    ("ddp:magic=1", "unknown knob 'magic'; use one of first_cap, cap"),
    ("ddp:cap=many", "knob cap: "),
    ("ddp:cap=0 B", "knob cap: "),
    ("ddp:cap=1MB:cap=2MB", "sets knob 'cap' twice"),
    ("horovod:cycle=1MB", "knob cycle: "),
    ("fused/themis:magic=1", "unknown knob 'magic'"),
    ("fused,fused", "each once"),
    ("", "one or more policies"),
]


@pytest.mark.parametrize(("policies", "said"), POLICIES, ids=[p for p, _ in POLICIES])
@pytest.mark.parametrize("command", ["solve", "compare", "simulate"])
def test_bad_policies(refuse, save, tmp_path, document, command, policies, said):
    message = refuse(command, save(document), "--policies", policies, "-o", tmp_path / "out")
    assert said in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["solve", "compare", "simulate", "bound", "show"])
def test_size_is_refused(refuse, save, document, command):
    message = refuse(command, save(document), "--size", "1MB")
    assert "size = '1MB'" in message
    assert "tensors have their own" in message


def test_chunks_of_none_are_refused(refuse, save, document):
    assert "chunks = 0: " in refuse("simulate", save(document), "--chunks", 0)


def test_the_reference_is_not_simulated(refuse, save, document):
    assert "solve and compare" in refuse("simulate", save(document), "--policies", "exact")


@pytest.fixture(scope="module")
def schedule():
    """A valid schedule file as JSON values; not to be changed."""
    return iteration_document(scheduled("fused/baseline"))


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_untouched_copy_is_accepted(succeed, save, schedule, command):
    assert succeed(command, save(schedule))


REQUIRED = (
    "instance", "fingerprint", "summary", "order", "dispatch", "launches", "task_start_ps", "stage_start_ps",
    "launches.0.kind", "launches.0.tensors", "launches.0.after", "launches.0.before.task", "launches.0.sizes",
    "launches.0.paths", "summary.iteration_ns", "instance.iteration",
)  # fmt: skip


@pytest.mark.parametrize("path", REQUIRED)
def test_missing_key_is_named(refuse, save, schedule, path):
    file = save(edited(schedule, path))
    message = refuse("validate", file)
    assert message.startswith(f"error: {file}: ")
    assert path.split(".")[-1] in message


FAR = 2**62

EDITS = [
    # path, value, what the message must say
    ("format", "themis-opt/iteration-schedule/2", "format = 'themis-opt/iteration-schedule/2'"),
    ("surprise", 1, "surprise"),
    ("fingerprint", "0" * 32, "fingerprint"),
    ("instance.chunks", 5, "fingerprint"),
    ("instance.iteration.tasks.0.duration", "1 us", "fingerprint"),
    ("instance.iteration.tensors.0.dimensions", ["dim9"], "instance: iteration.tensors[0].dimensions names 'dim9'"),
    ("order", "random", "order = 'random'"),
    ("dispatch", "magic", "dispatch"),
    ("summary.iteration_ns", 1, "summary.iteration_ns"),
    ("launches", [], "launches"),
    ("launches.0.tensors", ["nothing"], "launches[0].tensors = 'nothing'"),
    ("launches.0.tensors", [], "launches[0].tensors"),
    ("launches.0.after.task", "nothing", "launches[0].after.task = 'nothing'"),
    ("launches.0.after.later", 2, "launches[0].after.later"),
    ("launches.0.before.task", "nothing", "launches[0].before.task = 'nothing'"),
    ("launches.0.after_launches", ["nothing"], "launches[0].after_launches = 'nothing'"),
    ("launches.0.part", "third", "launches[0].part"),
    ("launches.0.kind", "broadcast", "launches[0].kind"),
    ("launches.1.name", "rows", "names must differ"),
    ("launches.0.paths.0", ["dim9"], "launches[0].paths = 'dim9'"),
    ("launches.0.paths.0", [], "launches[0].paths"),
    ("launches.0.sizes.0", -2, "launches[0].sizes[0]"),
    ("launches.0.sizes.0", 0, "chunk 0 of rows has 0 bytes"),
    ("launches.0.sizes.0", 2**53 - 1, "chunk 0 of rows has 9007199254740991 bytes"),
    ("launches.0.sizes", [1_000_000], "rows has 1 chunk sizes for 2 paths"),
    ("keys", [0.5], "keys"),
    ("sequences", [[], []], "sequences[0]"),
    ("sequences", [[]], "sequences"),
    ("task_start_ps", [[0]], "task_start_ps"),
    ("task_start_ps.1", [], "task_start_ps[1]"),
    ("task_start_ps.0.0", -1, "task_start_ps[0][0]"),
    ("task_start_ps.0.0", FAR, "task_start_ps[0][0]"),
    ("task_start_ps.0.0", 1.5, "task_start_ps[0][0]"),
    ("task_start_ps.0.0", None, "task_start_ps[0][0]"),
    ("stage_start_ps.1", [], "stage_start_ps[1]"),
    ("stage_start_ps", [[0], [0]], "stage_start_ps"),
    ("stage_start_ps.0.0", None, "stage_start_ps[0]"),
    ("stage_start_ps.0.0", FAR - 1, "rule 'needs'"),
]


@pytest.mark.parametrize(("path", "value", "said"), EDITS, ids=[f"{p}={str(v)[:24]}" for p, v, _ in EDITS])
def test_edit_of_a_schedule_is_refused(refuse, save, schedule, path, value, said):
    assert said in refuse("validate", save(edited(schedule, path, value)))


def earlier(document, table, row, column):
    """The schedule with one time 1 ps earlier: to the next iteration it is 1 ps more then, as the summary says."""
    moved = edited(document, f"{table}.{row}.{column}", document[table][row][column] - 1)
    return edited(moved, "summary.iteration_ns", (round(document["summary"]["iteration_ns"] * 1000) + 1) / 1000)


def halves():
    """A schedule whose gathers have to reverse their scatters, on dimensions that are alike."""
    alike = Network(dimensions=(Dimension(kind="switch", size=4, bandwidth="50 GB/s", latency="1 us"),) * 2)
    return iteration_document(scheduled("dear/themis", layers(ag_order="reverse", network=alike)))


def reversed_gather(document):
    """The gather with the path of the scatter."""
    numbers = [number for number, launch in enumerate(document["launches"]) if launch["part"] == "gather"]
    paths = [path[::-1] for path in document["launches"][numbers[0]]["paths"]]
    return edited(document, f"launches.{numbers[0]}.paths", paths)


BREAKS = {
    "coverage": lambda s: edited(s, "launches.1.tensors", ["w0", "w1", "w1"]),
    "chunks": lambda s: earlier(s, "stage_start_ps", 1, 3),
    "mirrored_halves": lambda _: reversed_gather(halves()),
    "serial_compute": lambda s: earlier(s, "task_start_ps", 1, 4),
    "release": lambda s: earlier(s, "stage_start_ps", 1, 2),
    "needs": lambda s: earlier(s, "task_start_ps", 1, 1),
    "no_overlap": lambda s: earlier(s, "stage_start_ps", 1, 6),
}
"""How to break each rule.  Others cannot: a file does not say on what its launches run but in paths."""


def test_every_rule_can_be_broken():
    assert BREAKS.keys() == RULES.keys() - {"shape", "stream", "spans"}


@pytest.mark.parametrize("rule", BREAKS)
@pytest.mark.parametrize("command", ["validate", "explain"])
def test_broken_rule_is_named(refuse, save, schedule, command, rule):
    file = save(BREAKS[rule](schedule))
    assert refuse(command, file).startswith(f"error: {file}: schedule breaks rule '{rule}': ")


def test_stages_in_other_chunks_are_refused(refuse, save, schedule):
    assert "rule 'chunks'" in refuse("validate", save(edited(schedule, "launches.0.paths.0", ["dim2"])))


def test_cut_off_file_is_refused(refuse, save, schedule):
    text = json.dumps(schedule)
    assert "not JSON" in refuse("validate", save(text[: len(text) // 2]))


def test_schedule_must_belong_to_the_instance(refuse, save, schedule):
    other = save(layers(4).model_dump(mode="json"), "other.json")
    assert "belongs to another instance" in refuse("validate", save(schedule), "--instance", other)


def test_collectives_are_not_the_instance_of_an_iteration(refuse, save, schedule):
    message = refuse("validate", save(schedule), "--instance", "fig5.all_reduce.256MB")
    assert "holds collectives" in message


def test_iteration_is_not_the_instance_of_collectives(refuse, save, solution, document):
    message = refuse("validate", solution / "schedule.json", "--instance", save(document))
    assert "holds a training iteration" in message


def test_commands_for_collectives_refuse_a_schedule_of_iterations(refuse, save, schedule):
    assert "must be 'themis-opt/schedule/1'" in refuse("robustness", save(schedule))
