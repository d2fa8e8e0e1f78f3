"""One set of cost options, on every command that takes an instance, a schedule or an experiment."""

import json

import pytest
from typer.main import get_command

from themis_opt.cli.main import application

NAME = "fig5.all_reduce.256MB"
COSTS = ("--launch-overhead", "--packet", "--latency")
WITH_COSTS = (
    *("solve", "compare", "bound", "simulate", "explain", "robustness", "run", "calibrate", "batch", "tune", "sweep"),
    "show",
)
CUTTING = tuple(name for name in WITH_COSTS if name not in ("calibrate", "show"))


@pytest.fixture(scope="module")
def known():
    """The options of every command."""
    commands = get_command(application()).commands
    return {
        name: {text for parameter in command.params for text in parameter.opts} for name, command in commands.items()
    }


def test_every_command_has_the_cost_options(known):
    assert {name for name, options in known.items() if set(COSTS) <= options} == set(WITH_COSTS)


def test_chunk_sizes_have_one_name(known):
    assert {name for name, options in known.items() if "--chunk-sizes" in options} == set(CUTTING)
    assert not any({"--sizes", "--profiles", "--sizes-of-collective"} & options for options in known.values())


@pytest.mark.parametrize("command", ["explain", "robustness"])
def test_launches_that_cost_something_make_a_plan_slower(succeed, solution, command):
    options = ("--samples", 2) if command == "robustness" else ()

    def makespan(*costs):
        document = json.loads(succeed(command, solution / "schedule.json", "--json", *options, *costs))
        return document["policies"][0]["nominal_makespan_ns"] if command == "robustness" else document["makespan_ns"]

    assert makespan("--launch-overhead", "1ms") > makespan() == 7_000_000


def test_a_plan_is_explained_with_sizes_that_suit_it(succeed, solution):
    def makespan(*options):
        return json.loads(succeed("explain", solution / "schedule.json", "--json", *options))["makespan_ns"]

    assert makespan("--chunk-sizes", "free") < makespan("--chunk-sizes", "equal") == makespan()


def test_a_simulation_with_free_sizes_says_so(succeed):
    def run(*options):
        return succeed("simulate", NAME, "--policies", "hourglass", *options)

    assert run().startswith("# fig5 all_reduce 256 MB, chunk sizes equal\n")
    assert "6.667 ms" in run("--chunk-sizes", "free")


def test_small_chunks_that_cost_nothing_are_noted(invoke):
    noted = "note: launches cost nothing, and the smallest chunk has 62500 B; state --launch-overhead or --packet\n"
    small = ("simulate", NAME, "--size", "1MB", "--chunks", "16", "--policies", "baseline")
    assert invoke(*small).stderr == noted
    assert invoke(*small, "--launch-overhead", "1us").stderr == ""


@pytest.fixture
def experiment(tmp_path):
    """A small experiment in a separate folder."""
    path = tmp_path / "experiment.toml"
    path.write_text(
        f'name = "small"\n[[runs]]\ninstances = ["{NAME}"]\npolicies = ["hourglass"]\nchunk_sizes = "equal"\n'
        'size = ["64 MB"]\n',
        encoding="utf-8",
    )
    return path


@pytest.mark.usefixtures("in_threads")
def test_a_batch_runs_with_other_costs(succeed, experiment):
    def row(*options):
        succeed("batch", experiment, "--jobs", 1, *options)
        header, line = (experiment.parent / "rows.csv").read_text(encoding="utf-8").splitlines()
        return dict(zip(header.split(","), line.split(","), strict=False))

    usual, costly = row(), row("--launch-overhead", "1ms", "--chunk-sizes", "free")
    assert (usual["size_bytes"], usual["launch_overhead_ns"], usual["sizes"]) == ("64000000", "0.0", "equal")
    assert (costly["launch_overhead_ns"], costly["sizes"]) == ("1000000.0", "free")
    assert float(costly["makespan_ns"]) > float(usual["makespan_ns"])
