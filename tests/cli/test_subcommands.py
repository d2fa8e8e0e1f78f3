"""Every subcommand, on collectives and on a training iteration, as a table and as JSON."""

import json
from functools import cache

import pytest
from small_iterations import PAIR, iteration, tensor

from themis_opt.base.compiled import COMPILED_LOG
from themis_opt.cli import printing
from themis_opt.cli.main import COMMANDS
from themis_opt.cli.progress import live
from themis_opt.formats.readers.registry import load
from themis_opt.policies.registry import POLICIES, REFERENCE, takes_dispatch, usual_policies
from themis_opt.problem.schema import SCHEMA_FILE, instance_schema
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.validation import VALIDATION_RULES
from themis_opt.study import columns

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1, "--chunk-sizes", "equal")
NAMES = ["fused/baseline", "wait_free/themis+scf", "dear/hourglass"]
SOME = ("--policies", ",".join(NAMES))

KINDS = ("collectives", "iteration")
FOR_BOTH = ("solve", "compare", "bound", "simulate", "validate", "robustness", "explain", "show")
WITH_PROCESSES = ("run", "calibrate")  # commands that start processes; they have separate tests
CASES = [("collectives", command) for command in COMMANDS if command not in WITH_PROCESSES] + [
    ("iteration", command) for command in FOR_BOTH
]

WITHOUT_JSON = ("schema", "plot", "export", "demo")  # commands whose results are files
JUDGED = {"policy", "utilisation", "busy", "idle", "speedup", "bound_ns", "gap", "status"}
TIMES = {
    "collectives": {"makespan_ns", "algbw_bytes_per_s", "busbw_bytes_per_s"},
    "iteration": {
        "makespan_ns", "compute_ns", "exposed_ns", "exposed_share", "exposed_data_ns",
        "exposed_model_ns", "communicating_ns", "overlap", "launches", "steady",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def arguments(solution, trained, trained_solution, batched, tmp_path_factory):
    """A sensible command line for each subcommand, by the kind of problem."""
    tmp_path = tmp_path_factory.mktemp("subcommands")

    def for_both(source, folder, *policies):
        file = folder / "schedule.json"
        return {
            "solve": ("solve", source, *policies, *QUICK, "-o", tmp_path / "solved"),
            "compare": ("compare", source, *policies, *QUICK),
            "bound": ("bound", source),
            "simulate": ("simulate", source, *policies),
            "validate": ("validate", file),
            "robustness": ("robustness", file, "--samples", 5),
            "explain": ("explain", file),
            "tune": ("tune", source, "--trials", 2, "-o", tmp_path / "tuned"),
            "show": ("show", source),
        }

    others = {
        "batch": ("batch", batched / "experiment.toml", "--jobs", 1),
        "report": ("report", batched, "-o", tmp_path / "report"),
        "workload": ("workload", "resnet-50", "--network", NAME),
        "design": ("design", "libra.resnet-50_4d.multiple", "--readings", "fixed,free", "--policy", "baseline"),
        "plot": ("plot", solution / "schedule.json", "-o", tmp_path / "picture.png"),
        "export": ("export", solution / "schedule.json", "--to", "msccl", "-o", tmp_path / "plans", "--check"),
        "generate": ("generate", "cluster", "h100", "--npus", 16),
        "import": ("import", NAME, "-o", tmp_path / "instance.json"),
        "sweep": ("sweep", NAME, "--over", "size=4MB,8MB", "--policies", "baseline"),
        "list": ("list",),
        "demo": ("demo", "-o", tmp_path / "demo"),
        "plan": ("plan", trained, "--time-limit", 1, "--workers", 1),
        "best-known": ("best-known", "list"),
        "schema": ("schema",),
    }
    return {"collectives": for_both(NAME, solution) | others, "iteration": for_both(trained, trained_solution, *SOME)}


@pytest.fixture(scope="module")
def printed(succeed, arguments):
    """What a subcommand prints, which is run once."""
    return cache(lambda kind, command, *more: succeed(*arguments[kind][command], *more))


@pytest.fixture
def rows(printed):
    """What a subcommand prints as JSON."""
    return lambda kind, command, *more: json.loads(printed(kind, command, *more, "--json"))


@pytest.mark.parametrize("command", COMMANDS)
def test_subcommand_has_help(succeed, command):
    text = " ".join(succeed(command, "--help").replace("│", " ").split())
    usual = ("Existing files of the same names are replaced.",) * ("--output" in text)
    assert "Usage:" in text
    assert all(sentence in text for sentence in ON_EXISTING.get(command, usual))


ON_EXISTING = {
    "batch": ("An existing file is replaced unless it holds more rows than are finished.",),
    "report": ("Files of reports alone are replaced.",),
}
"""What the help of ``-o`` says of files that are there, where it is not the usual sentence."""


@pytest.mark.parametrize(("kind", "command"), [case for case in CASES if case[1] not in WITHOUT_JSON])
def test_subcommand_prints_json(rows, kind, command):
    assert rows(kind, command)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["solve", "compare"])
def test_rows_of_a_comparison_hold_everything_that_is_compared(rows, kind, command):
    wanted = JUDGED | TIMES[kind] | ({"exposed_gap"} if kind == "iteration" else set())
    assert all(row.keys() == wanted for row in rows(kind, command))


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_says_what_needs_no_bound(rows, kind):
    simulated = {row["policy"]: row for row in rows(kind, "simulate")}
    compared = {row["policy"]: row for row in rows(kind, "compare")}
    for name, row in simulated.items():
        assert row.keys() == {"policy", "utilisation", "busy", "idle"} | TIMES[kind]
        assert row.items() <= compared[name].items()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["solve", "simulate"])
def test_the_usual_policies_are_run_unless_others_are_named(succeed, trained, tmp_path, kind, command):
    source = NAME if kind == "collectives" else trained
    more = (*QUICK, "--time-limit", 1, "-o", tmp_path) if command == "solve" else ()
    names = [row["policy"] for row in json.loads(succeed(command, source, *more, "--json"))]
    assert names == [*usual_policies(load(source)), *([REFERENCE] if command == "solve" else [])]


def test_compare_runs_every_policy_with_every_dispatch_rule(rows):
    dispatched = [f"{policy}+{rule}" for policy in POLICIES if takes_dispatch(policy) for rule in DISPATCH]
    others = [policy for policy in POLICIES if not takes_dispatch(policy)]
    assert sorted(row["policy"] for row in rows("collectives", "compare")) == sorted([*dispatched, *others])


def table(text):
    """The lines of the first table, its title first, without the verdict before it."""
    lines = text.splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("# ")) :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["solve", "compare", "explain", "robustness"])
def test_a_verdict_stands_before_the_figures(printed, kind, command):
    lines = printed(kind, command).splitlines()
    verdict = lines[: next(number for number, line in enumerate(lines) if line.startswith("# "))]
    assert 1 <= len(verdict) <= 3
    assert all(sentence.endswith(".") and " " in sentence for sentence in verdict)


WIDE = [(kind, name) for kind in KINDS for name in ("simulate", "compare", "explain", "robustness", "bound", "show")]
WIDE += [("collectives", name) for name in ("sweep", "design", "workload", "list")]


@pytest.mark.parametrize(("kind", "command"), WIDE)
def test_tables_keep_words_whole_within_80_columns(succeed, printed, arguments, monkeypatch, kind, command):
    piped = printed(kind, command).splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(printing, "is_terminal", lambda stream: True)
    shown = succeed(*arguments[kind][command])
    assert max(map(len, shown.splitlines())) <= 80
    cells = [cell for line in piped if "\t" in line for cell in line.split("\t")]
    parts = {part for cell in cells for part in cell.split()} - {f"[{unit}]" for unit in "x%"}
    known = set(shown.replace("[", " ").replace("]", " ").split())
    assert {part for part in parts if part not in known and part.removesuffix("x") not in known} == set()


def test_the_table_has_one_line_per_policy(printed):
    title, header, *lines = table(printed("iteration", "solve"))
    assert title.startswith("# layers, chunk sizes equal, start-up latency lags: best bound ")
    assert " within the model, " in title
    assert title.endswith(" (cut) against any algorithm")
    assert header.split("\t")[0] == "policy"
    assert [line.split("\t")[0] for line in lines] == NAMES


JUDGEMENT = ["speedup", "gap"]
COLUMNS = {
    "collectives": ["policy", "makespan", "busy", "algbw", "busbw", *JUDGEMENT, "status"],
    "iteration": [
        "policy", "iteration", "exposed", "of step", "data", "model", "overlap", "busy", "launches", *JUDGEMENT,
        "status",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_what_is_compared(printed, kind):
    assert table(printed(kind, "solve"))[1].split("\t") == COLUMNS[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_new_column_is_shown_wherever_results_are(succeed, arguments, monkeypatch, kind, command):
    stages = columns.ResultColumn("stages", lambda schedule: schedule.plan.num_stages, "count", "stages")
    monkeypatch.setattr(columns, "RESULT_COLUMNS", (*columns.RESULT_COLUMNS, stages))
    values = [str(row["stages"]) for row in json.loads(succeed(*arguments[kind][command], "--json"))]
    _, header, *lines = (line.split("\t") for line in table(succeed(*arguments[kind][command])))
    assert header[-1] == "stages"
    assert [line[-1] for line in lines] == values


def test_times_that_vary_are_noted(succeed, save):
    """Stages of two iterations take turns on one resource, so that every second period is longer."""
    scattered = [tensor("t", 2000, "first", "second", kind="reduce_scatter", needed_in="next", parallelism="model")]
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["inner", "outer"], "shared": True}
    alternating = iteration(
        {"first": 0, "second": 0}, scattered, network={"dimensions": [PAIR | {"size": 4}]}, splits=[split]
    )
    source = save(alternating.model_dump(mode="json"))
    (row,) = json.loads(succeed("simulate", source, "--policies", "fused/themis+fifo", "--json"))
    assert row["steady"] is False
    _, header, line = (
        line.split("\t") for line in succeed("simulate", source, "--policies", "fused/themis+fifo").splitlines()
    )
    assert [cell for cell in line if cell.endswith(" (varies)")] == [line[header.index("iteration")]]


@pytest.mark.parametrize("kind", KINDS)
def test_bound_says_which_bounds_hold_against_any_algorithm(rows, kind):
    scopes = {row["bound"]: row["scope"] for row in rows(kind, "bound")}
    assert scopes.pop("cut") == "against any algorithm"
    assert set(scopes.values()) == {"within the model"}


def test_bound_says_what_stays_exposed(rows):
    bound_rows, compute = rows("iteration", "bound"), 300_000
    assert [row["exposed_ns"] for row in bound_rows] == [max(row["bound_ns"] - compute, 0) for row in bound_rows]
    assert "exposed_ns" not in rows("collectives", "bound")[0]


@pytest.mark.parametrize(
    ("kind", "folders"),
    [
        ("collectives", {"baseline": "baseline", "themis:threshold_divisor=8+scf": "themis_threshold_divisor=8+scf"}),
        ("iteration", {"fused/baseline": "fused_baseline", "ddp:cap=4MB/themis": "ddp_cap=4MB_themis"}),
    ],
)
def test_simulate_writes_a_folder_per_policy(succeed, trained, tmp_path, kind, folders):
    source = NAME if kind == "collectives" else trained
    succeed("simulate", source, "--policies", ",".join(folders), "-o", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(folders.values())
    for name in folders.values():
        assert json.loads(succeed("validate", tmp_path / "out" / name / "schedule.json", "--json"))["valid"] is True


def test_show_prints_an_instance_that_loads_again(succeed, save):
    shown = json.loads(succeed("show", NAME, "--json"))
    fingerprint = shown.pop("fingerprint")
    again = save({"format": "themis-opt/instance/1"} | shown)
    assert json.loads(succeed("show", again, "--json"))["fingerprint"] == fingerprint


def test_show_lists_tasks_and_tensors(printed):
    text = printed("iteration", "show")
    assert "layer0_forward\t40 us" in text
    assert "layer0_forward of the next iteration" in text


@pytest.mark.parametrize(("kind", "npus"), [("collectives", [[4, 4]]), ("iteration", None)])
def test_validate_names_its_rules_and_can_move_data(rows, printed, kind, npus):
    report = rows(kind, "validate", "--data")
    assert (report["valid"], report["rules"]) == (True, list(VALIDATION_RULES))
    assert report["data"]["num_npus"] == 16
    assert npus is None or report["data"]["sizes"] == npus
    port = report["data"]["busiest_port"]
    assert (port["direction"], 0 < port["share"] <= 1) == ("sent", True)
    lines = printed(kind, "validate", "--data").splitlines()
    assert any(line.startswith("data: every NPU") for line in lines)
    assert any(line.startswith(f"busiest port: {port['port']} ") for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_validate_says_how_long_it_takes(printed, rows, kind):
    assert {"collectives": "makespan ", "iteration": "iteration "}[kind] in printed(kind, "validate")
    assert rows(kind, "validate")["makespan_ns"] == rows(kind, "explain")["makespan_ns"]


def parts(text):
    """The lines of every table below its columns, by the first word of its title."""
    tables = f"\n{text}".split("\n# ")[1:]
    return {table.split()[0].rstrip(":"): table.splitlines()[2:] for table in tables}


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(("kind", "listed"), [("collectives", ["critical"]), ("iteration", ["critical", "waits"])])
def test_explain_lists_as_many_stages_and_waits_as_asked(printed, kind, listed, steps):
    tables = parts(printed(kind, "explain", "--steps", steps))
    assert [len(lines) for name, lines in tables.items() if name in ("critical", "waits")] == [steps] * len(listed)
    assert [name for name in ("critical", "waits") if name in tables] == listed


def test_shipped_schema_is_current():
    assert SCHEMA_FILE.read_text(encoding="utf-8") == instance_schema()


def test_instance_is_found_by_its_file_name(succeed):
    assert "fig5" in succeed("show", f"{NAME}.json")


def test_no_arguments_show_the_help(invoke):
    result = invoke()
    assert "Usage:" in result.stdout + result.stderr


def test_what_is_compiled_is_told_while_something_is_shown(capsys):
    with live(1.0):
        COMPILED_LOG.info("compiling once")
    COMPILED_LOG.info("compiling in silence")
    assert capsys.readouterr().err == "note: compiling once\n"
