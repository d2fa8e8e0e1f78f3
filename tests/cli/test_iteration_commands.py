"""Every subcommand on a training iteration, as a table and as JSON."""

import csv
import json

import pytest
from iteration_schedules import layers
from jsonschema import Draft202012Validator, ValidationError

from themis_opt.catalog import shipped
from themis_opt.cli import comparing
from themis_opt.formats.instance_schema import SCHEMA_FILE, instance_schema
from themis_opt.iterations.registry import COMPARED, REFERENCE
from themis_opt.iterations.validation import RULES

POLICIES = ("--policies", "fused/baseline,wait_free/themis+scf,dear/hourglass")
NAMES = POLICIES[1].split(",")
QUICK = (*POLICIES, "--time-limit", 5, "--workers", 1)
FILES = {
    "comparison.csv", "comparison.json", "gantt.png", "gantt.svg", "schedule.json", "stages.csv", "tasks.csv",
    "trace.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """A small training iteration as a file."""
    path = tmp_path_factory.mktemp("instance") / "layers.json"
    path.write_text(json.dumps(layers().model_dump(mode="json")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def solved(instance, succeed, tmp_path_factory):
    """The folder that ``solve`` writes; not to be changed."""
    folder = tmp_path_factory.mktemp("solve") / "solved"
    succeed("solve", instance, *QUICK, "-o", folder)
    return folder


@pytest.fixture
def arguments(instance, solved, tmp_path):
    """A sensible command line for each subcommand."""
    return {
        "solve": ("solve", instance, "--policies", "fused/baseline", "--time-limit", 5, "-o", tmp_path / "again"),
        "compare": ("compare", instance, *QUICK),
        "bound": ("bound", instance),
        "simulate": ("simulate", instance, *POLICIES),
        "validate": ("validate", solved / "schedule.json"),
        "explain": ("explain", solved / "schedule.json"),
        "show": ("show", instance),
    }


COMMANDS = ("solve", "compare", "bound", "simulate", "validate", "explain", "show")


@pytest.mark.parametrize("command", COMMANDS)
def test_subcommand_runs(succeed, arguments, command):
    assert succeed(*arguments[command]).strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_subcommand_prints_json(succeed, arguments, command):
    assert json.loads(succeed(*arguments[command], "--json"))


@pytest.mark.parametrize("command", ["compare", "simulate"])
def test_policies_are_shown_in_the_order_asked_for(succeed, arguments, command):
    assert [row["policy"] for row in json.loads(succeed(*arguments[command], "--json"))] == NAMES


def test_table_has_what_is_compared(succeed, arguments):
    columns = succeed(*arguments["compare"]).splitlines()[1].split("\t")
    wanted = ["policy", "iteration", "exposed", "data", "model", "overlap", "utilisation", "launches", "speedup", "gap"]
    assert columns == [*wanted, "exposed gap", "status"]


@pytest.mark.parametrize("command", ["compare", "simulate"])
def test_exposed_time_is_that_of_data_and_model_parallelism(succeed, arguments, command):
    for row in json.loads(succeed(*arguments[command], "--json")):
        assert row["exposed_ns"] == pytest.approx(row["exposed_data_ns"] + row["exposed_model_ns"])
        assert row["exposed_ns"] == pytest.approx(row["iteration_ns"] - row["compute_ns"])


def test_simulation_and_comparison_agree(succeed, arguments):
    simulated, compared = (json.loads(succeed(*arguments[c], "--json")) for c in ("simulate", "compare"))
    for one, other in zip(simulated, compared, strict=True):
        assert one.items() <= other.items()


def test_simulate_runs_all_heuristics_that_solve_compares(succeed, instance):
    rows = json.loads(succeed("simulate", instance, "--json"))
    assert [row["policy"] for row in rows] == [name for name in COMPARED if name != REFERENCE]


def test_no_policy_beats_a_bound(succeed, arguments):
    bounds = {row["bound"]: row["bound_ns"] for row in json.loads(succeed(*arguments["bound"], "--json"))}
    fastest = min(row["iteration_ns"] for row in json.loads(succeed(*arguments["compare"], "--json")))
    assert fastest >= max(bounds.values()) * (1 - 1e-9)


@pytest.mark.parametrize("option", [("--chunks", 1), ("--latency", "occupy"), ("--ag-order", "reverse")])
@pytest.mark.parametrize("command", ["simulate", "show", "bound"])
def test_rules_can_be_overridden(succeed, arguments, command, option):
    assert succeed(*arguments[command], *option)


def test_fewer_chunks_give_another_instance(succeed, instance):
    one, other = (json.loads(succeed("show", instance, "--chunks", n, "--json"))["fingerprint"] for n in (1, 2))
    assert one != other


def test_solve_writes_a_folder(solved):
    assert {path.name for path in solved.iterdir()} == FILES


def test_folder_is_named_after_the_instance(succeed, instance, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    succeed("solve", instance, "--policies", "fused/baseline")
    assert (tmp_path / "layers.solution" / "schedule.json").is_file()


def test_schedule_is_that_of_the_best_policy(solved):
    rows = list(csv.DictReader((solved / "comparison.csv").read_text(encoding="utf-8").splitlines()))
    best = min(rows, key=lambda row: float(row["iteration_ns"]))
    summary = json.loads((solved / "schedule.json").read_text(encoding="utf-8"))["summary"]
    assert (summary["policy"], summary["iteration_ns"]) == (best["policy"], float(best["iteration_ns"]))


def test_schedule_says_what_it_was_made_with(solved):
    settings = json.loads((solved / "schedule.json").read_text(encoding="utf-8"))["summary"]["settings"]
    assert settings["time_limit"] == 5


def test_simulate_writes_a_folder_for_each_policy(succeed, instance, tmp_path):
    succeed("simulate", instance, "--policies", "fused/baseline,ddp:cap=4MB/themis", "-o", tmp_path / "each")
    assert {path.name for path in (tmp_path / "each").iterdir()} == {"fused_baseline", "ddp_cap=4MB_themis"}


def test_validate_names_the_rules_it_checked(succeed, arguments):
    report = json.loads(succeed(*arguments["validate"], "--json"))
    assert report["rules"] == list(RULES)


def test_validate_moves_data(succeed, arguments):
    assert json.loads(succeed(*arguments["validate"], "--data", "--json"))["data"]["num_npus"] == 16
    assert "data: every NPU" in succeed(*arguments["validate"], "--data")


def test_validate_accepts_its_own_instance(succeed, arguments, instance):
    assert succeed(*arguments["validate"], "--instance", instance)


def test_explain_accounts_for_all_exposed_time(succeed, arguments):
    explained = json.loads(succeed(*arguments["explain"], "--json"))
    assert sum(wait["wait_ns"] for wait in explained["waits"]) == pytest.approx(explained["exposed_ns"])


@pytest.mark.parametrize("steps", [0, 1])
def test_explain_lists_as_many_waits_as_asked(succeed, arguments, steps):
    lines = succeed(*arguments["explain"], "--steps", steps).splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("# waits"))
    assert lines[heading + 2 + steps] == "# bounds"


def test_show_lists_tasks_and_tensors(succeed, arguments):
    text = succeed(*arguments["show"])
    assert "layer0_forward\t40 us" in text
    assert "layer0_forward of the next iteration" in text


def test_unmet_gap_is_1(invoke, arguments):
    result = invoke(*arguments["compare"], "--gap", 0)
    assert result.exit_code == 1
    assert "was not reached" in result.stderr.splitlines()[-1]


def test_reached_gap_is_0(invoke, arguments):
    assert invoke(*arguments["compare"], "--gap", 10).exit_code == 0


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when the second policy reports."""
    compare = comparing.compare_iterations

    def compare_and_interrupt(*given, **options):
        def progress(policy, *news):
            if policy == NAMES[1]:
                raise KeyboardInterrupt

        return compare(*given, **(options | {"progress": progress}))

    monkeypatch.setattr(comparing, "compare_iterations", compare_and_interrupt)


def test_interruption_is_130(invoke, arguments, interrupted):
    assert invoke(*arguments["compare"]).exit_code == 130


def test_interruption_writes_what_there_is(invoke, succeed, instance, interrupted, tmp_path):
    rows = json.loads(invoke("solve", instance, *QUICK, "-o", tmp_path / "cut", "--json").stdout)
    assert [row["policy"] for row in rows] == NAMES[:2]
    assert succeed("validate", tmp_path / "cut" / "schedule.json")


def test_progress_names_the_policy_at_work(invoke, arguments):
    lines = invoke(*arguments["compare"]).stderr.splitlines()
    assert [name for name in NAMES if not any(name in line for line in lines)] == []


def test_shipped_schema_is_current():
    assert SCHEMA_FILE.read_text(encoding="utf-8") == instance_schema()


@pytest.mark.parametrize("name", [name for name in sorted(shipped()) if ".dlrm" in name or "fig5" in name])
def test_schema_accepts_both_kinds_of_instances(succeed, name):
    document = json.loads(shipped()[name].read_text(encoding="utf-8"))
    Draft202012Validator(json.loads(succeed("schema"))).validate(document)


def test_schema_refuses_a_mistake_in_an_iteration(succeed, instance):
    document = json.loads(instance.read_text(encoding="utf-8"))
    document["iteration"]["tasks"][0]["surprise"] = 1
    with pytest.raises(ValidationError, match="surprise"):
        Draft202012Validator(json.loads(succeed("schema"))).validate(document)
