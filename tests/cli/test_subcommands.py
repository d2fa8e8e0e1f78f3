"""Every subcommand on a shipped instance, as a table and as JSON."""

import json

import pytest
from jsonschema import Draft202012Validator

import themis_opt
from themis_opt.cli.main import COMMANDS
from themis_opt.dispatch import DISPATCH
from themis_opt.policies.registry import ENFORCED, HEURISTICS, POLICIES, REFERENCE
from themis_opt.validation import RULES

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1, "--sizes", "equal")
COMPARED = {"policy", "makespan_ns", "utilisation", "speedup", "bound_ns", "gap", "status"}
NS_PER_MS = 10**6


@pytest.fixture
def arguments(solution, batched, tmp_path):
    """A sensible command line for each subcommand."""
    return {
        "solve": ("solve", NAME, *QUICK, "-o", tmp_path / "solved"),
        "compare": ("compare", NAME, *QUICK),
        "bound": ("bound", NAME),
        "simulate": ("simulate", NAME),
        "validate": ("validate", solution / "schedule.json"),
        "robustness": ("robustness", solution / "schedule.json", "--samples", 5),
        "explain": ("explain", solution / "schedule.json"),
        "batch": ("batch", batched / "experiment.toml", "--jobs", 1),
        "report": ("report", batched, "-o", tmp_path / "report"),
        "tune": ("tune", NAME, "--trials", 2, "-o", tmp_path / "tuned"),
        "workload": ("workload", "resnet-50", "--network", NAME),
        "show": ("show", NAME),
        "schema": ("schema",),
    }


def test_version(succeed):
    assert succeed("--version") == f"themis_opt {themis_opt.__version__}\n"


def test_help_lists_every_subcommand(succeed):
    text = succeed("--help")
    assert [name for name in COMMANDS if name not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_subcommand_has_help(succeed, command):
    assert "Usage:" in succeed(command, "--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_subcommand_runs(succeed, arguments, command):
    assert succeed(*arguments[command]).strip()


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "schema"])
def test_subcommand_prints_json(succeed, arguments, command):
    assert json.loads(succeed(*arguments[command], "--json"))


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_rows_of_a_comparison_hold_everything_that_is_compared(succeed, arguments, command):
    rows = json.loads(succeed(*arguments[command], "--json"))
    assert all(row.keys() >= COMPARED for row in rows)


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_times_of_a_comparison_are_nanoseconds(succeed, arguments, command):
    rows = {row["policy"]: row for row in json.loads(succeed(*arguments[command], "--json"))}
    assert rows["baseline+fifo"]["makespan_ns"] == 8 * NS_PER_MS
    assert rows["exact"]["makespan_ns"] == 7 * NS_PER_MS


@pytest.mark.parametrize("command", ["solve", "compare", "simulate"])
def test_utilisation_is_a_fraction(succeed, arguments, command):
    rows = json.loads(succeed(*arguments[command], "--json"))
    assert all(0 < row["utilisation"] <= 1 for row in rows)


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_gap_is_a_fraction(succeed, arguments, command):
    rows = {row["policy"]: row for row in json.loads(succeed(*arguments[command], "--json"))}
    assert rows["baseline+fifo"]["gap"] == pytest.approx(1 / 7)


def test_solve_compares_the_heuristics_with_the_reference(succeed, arguments):
    rows = json.loads(succeed(*arguments["solve"], "--json"))
    assert [row["policy"] for row in rows] == [*HEURISTICS, REFERENCE]


def test_compare_has_at_least_the_policies_of_solve(succeed, arguments):
    rows = json.loads(succeed(*arguments["compare"], "--json"))
    assert {row["policy"] for row in rows} >= {*HEURISTICS, REFERENCE}


def test_compare_runs_every_policy_with_every_dispatch_rule(succeed, arguments):
    rows = json.loads(succeed(*arguments["compare"], "--json"))
    heuristics = [f"{policy}+{rule}" for policy in POLICIES.keys() - set(ENFORCED) for rule in DISPATCH]
    assert sorted(row["policy"] for row in rows) == sorted([*heuristics, *ENFORCED])


def test_compare_writes_nothing_unless_asked(succeed, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    succeed(*arguments["compare"])
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_one_line_per_policy(succeed, arguments):
    title, header, *rows = succeed(*arguments["solve"]).splitlines()
    assert title.startswith("# fig5")
    assert header.split("\t")[0] == "policy"
    assert [row.split("\t")[0] for row in rows] == [*HEURISTICS, REFERENCE]


def test_bound_prints_every_bound_in_nanoseconds(succeed):
    rows = {row["bound"]: row for row in json.loads(succeed("bound", NAME, "--json"))}
    assert rows["fluid"]["bound_ns"] == pytest.approx(20 / 3 * NS_PER_MS)
    assert rows["order_count"]["bound_ns"] == pytest.approx(7 * NS_PER_MS, rel=1e-4)


def test_bound_says_which_bounds_need_equal_chunks(succeed):
    rows = json.loads(succeed("bound", NAME, "--json"))
    assert [row["bound"] for row in rows if row["equal_sizes_only"]] == ["order_count", "head_tail_equal"]


def test_simulate_prints_exact_times(succeed):
    rows = json.loads(succeed("simulate", NAME, "--policies", "baseline,themis+scf", "--json"))
    assert [(row["policy"], row["makespan_ns"]) for row in rows] == [
        ("baseline", 8 * NS_PER_MS),
        ("themis+scf", 7 * NS_PER_MS),
    ]


def test_simulate_writes_a_folder_per_policy(succeed, tmp_path):
    succeed("simulate", NAME, "--policies", "baseline,themis:threshold_divisor=8+scf", "-o", tmp_path / "out")
    folders = sorted((tmp_path / "out").iterdir())
    assert [(f / "schedule.json").is_file() for f in folders] == [True, True]


def test_simulated_schedules_validate(succeed, tmp_path):
    succeed("simulate", NAME, "--policies", "random+lifo", "-o", tmp_path)
    assert json.loads(succeed("validate", tmp_path / "random+lifo" / "schedule.json", "--json"))["valid"] is True


def test_show_prints_an_instance_that_loads_again(succeed, save):
    shown = json.loads(succeed("show", NAME, "--json"))
    fingerprint = shown.pop("fingerprint")
    again = save({"format": "themis-opt/instance/1"} | shown)
    assert json.loads(succeed("show", again, "--json"))["fingerprint"] == fingerprint


def test_show_names_every_dimension_and_collective(succeed):
    text = succeed("show", NAME)
    assert [word for word in ("dim1", "dim2", "48 GB/s", "24 GB/s", "gradients", "256 MB") if word not in text] == []


def test_validate_names_the_rules_it_checked(succeed, solution):
    assert json.loads(succeed("validate", solution / "schedule.json", "--json"))["rules"] == list(RULES)


def test_validate_can_move_real_data(succeed, solution):
    report = json.loads(succeed("validate", solution / "schedule.json", "--data", "--json"))
    assert report["rules"] == list(RULES)
    assert report["data"]["sizes"] == [[4, 4]]


def test_explain_accounts_for_all_the_time_of_a_dimension(succeed, solution):
    explained = json.loads(succeed("explain", solution / "schedule.json", "--json"))
    totals = [d["busy_ns"] + d["lag_ns"] + d["idle_ns"] for d in explained["dimensions"]]
    assert totals == [7 * NS_PER_MS] * 2


@pytest.mark.parametrize(("steps", "lines"), [(0, 0), (1, 1), (3, 3)])
def test_explain_lists_as_many_stages_as_asked(succeed, solution, steps, lines):
    text = succeed("explain", solution / "schedule.json", "--steps", steps)
    assert text.count("\ndata\t") + sum(" on dim" in line for line in text.splitlines()) == lines


def test_schema_is_a_valid_json_schema(succeed):
    Draft202012Validator.check_schema(json.loads(succeed("schema")))


def test_schema_accepts_a_shipped_instance(succeed, document):
    Draft202012Validator(json.loads(succeed("schema"))).validate(document)


def test_instance_is_found_by_the_path_of_its_file(succeed, save, document):
    assert "fig5" in succeed("show", save(document))


def test_instance_is_found_by_its_file_name(succeed):
    assert "fig5" in succeed("show", f"{NAME}.json")


def test_no_arguments_show_the_help(invoke):
    result = invoke()
    assert "Usage:" in result.stdout + result.stderr
