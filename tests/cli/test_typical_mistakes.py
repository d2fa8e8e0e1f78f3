"""What newcomers get wrong: every message names the place, the value and the rule, or what was meant."""

import json

import pytest
from edits import edited

from themis_opt.problem.catalog import INSTANCES

NAME = "fig5.all_reduce.256MB"
MESH = "mesh_4x4.all_reduce.1GB"
STEP = "3d-fc_ring_sw.resnet-50"

LINES = [
    # command line, what the message must say
    (("solve", "fig5"), "fig5: no such file, and no shipped instance of that name"),
    (("solve", "net.yaml"), "net.yaml"),
    (("show", NAME, "--size", "100 MBytes"), "size = '100 MBytes': unknown unit 'MBytes'"),
    (("show", NAME, "--size", "100Mb"), "did you mean 'MB'?"),
    (("show", NAME, "--launch-overhead", "2 usec"), "unknown unit 'usec'"),
    (("show", NAME, "--packet", "4096"), "packet = '4096': "),
    (("show", NAME, "--reduction", "fast"), "reduction = 'fast': "),
    (("simulate", NAME, "--policies", "themis scf"), "unknown policy"),
    (("simulate", STEP, "--size", "1MiB"), "size = '1MiB': an iteration has none: its tensors state their sizes"),
    (("simulate", STEP, "--policies", "ddp:bucket=25MiB"), "unknown knob 'bucket'"),
    (("sweep", NAME, "--over", "size"), "must be a name, = and values"),
    (("sweep", NAME, "--over", "size=1GB..1MB"), "must rise from more than 0"),
    (("sweep", NAME, "--over", "share=x"), "share = 'x': must be a number"),
    (("sweep", NAME, "--over", "share=nan"), "share = 'nan': must be a number"),
    (("sweep", "resnet-50", "--network", NAME, "--over", "npus=nan"), "npus = 'nan': must be a whole number"),
    (("sweep", "resnet-50", "--network", NAME, "--over", "share=inf"), "share = 'inf': must be a number"),
    (("sweep", "resnet-50", "--network", NAME, "--over", "npus=16", "--overhead", "nan"), "overhead = nan: "),
    (("sweep", NAME, "--target", "0.9"), "--target = 0.9: is for training iterations"),
    (("export", "equal-01", "--to", "model"), "is an instance: solve it"),
    (("explain", NAME), "schedule"),
    (("workload", "resnet-50", "--network", NAME, "--flops", "312 TFLOPS"), "TFLOPS"),
    (("compare", NAME, "--measured", "nowhere.log"), "nowhere.log"),
    (("design", NAME), "design"),
    (("batch", "nowhere.toml"), "nowhere.toml"),
    (("list", "polices"), "polices"),
    (("plan", NAME), "must hold a training iteration"),
    (("plan", MESH), "is a graph: 'bound'"),
    (("workload", "vgg-16", "--network", NAME, "--flops", "989"), "989 FLOP/s: write the unit, such as '989 TFLOP/s'"),
    (("plan", STEP, "--memory", "60Gb"), "--memory = '60Gb': unknown unit 'Gb'; did you mean 'GB'?"),
    (("bound", MESH, "--lost", "0-1"), "must name a node or link of the network, such as 'r0c0-r0c1'"),
    (("bound", MESH, "--lost", "each,r0c0"), "--lost = 'each'"),
    (("bound", MESH, "--slow", "0.5"), "must be a link and a factor"),
    (("bound", MESH, "--slow", "r0c0-r0c1=2"), "--slow = "),
    (("bound", MESH, "--output", "x.svg"), "is for --lost each"),
    (("solve", STEP, "--lost", "each"), "must be one collective over all dimensions"),
    (
        ("solve", MESH, "--policies", "themis+scf"),
        "must be one of hierarchical, exchange, scatter, two_tree, shortest, trees",
    ),
    (("solve", MESH, "--launch-overhead", "2us"), "is not for graphs"),
    (("solve", "p4_m8", "--size", "1GB"), "--size = '1GB': is not for pipelines"),
    (("solve", "p4_m8", "--lost", "each"), "--lost = 'each': is not for pipelines"),
    (("bound", "p4_m8", "--chunks", "4"), "--chunks = 4: is not for pipelines"),
    (("compare", "p4_m8", "--measured", "nccl.log"), "--measured = 'nccl.log': is not for pipelines"),
    (("best-known", "show", "fig"), "best-known list names all"),
    (("best-known", "lst"), "error: Invalid value for 'action': 'lst' is not one of"),
    (("design", MESH), "no shipped design of that name"),
    (("workload", "resnet-50", "--network", MESH), f"network = '{MESH}': is a graph"),
    (("workload", "resnet-50", "--network", NAME, "--parallelism", "tensr"), "did you mean 'tensor'?"),
    (("workload", "resnet-50", "--network", NAME, "--parallelism", "sequence"), "--parallelism = 'sequence': needs"),
    (("workload", "resnet-50", "--network", NAME, "--parallelism", "pipeline"), "--stages: is required"),
    (("workload", "bert-large", "--network", NAME, "--parallelism", "data+filter"), "--parallelism = 'data+filter'"),
]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[" ".join(line)[:60] for line, _ in LINES])
def test_command_lines(invoke, line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(invoke(*line), said)


def test_links_of_graphs_without_a_unit_are_told(invoke, save):
    graph = json.loads((INSTANCES / "graphs" / f"{MESH}.json").read_text(encoding="utf-8"))
    result = invoke("bound", save(edited(graph, "network.links.0.bandwidth", 50)))
    assert "r0c0-r0c1: 50 B/s is no network; is a unit missing ('50 GB/s')?" in result.stderr


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "import torch", json.dumps({"hello": 1})])
def test_other_files(invoke, save, text):
    path = save(text, "notes.json")
    assert str(path) in check(invoke("simulate", path), "error: ")


def check(result, said):
    """The messages of a command line that is refused: lines without a traceback, one of which says some words."""
    assert isinstance(result.exception, SystemExit), f"not refused but {result.exception!r}"
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert said in result.stderr
    assert all(
        line.startswith(("error: ", "warning: ", "Usage: ", "Try ")) for line in result.stderr.splitlines() if line
    )
    return result.stderr
