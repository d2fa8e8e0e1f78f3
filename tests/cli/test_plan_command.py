"""``themis-opt plan``."""

import json
import re

import pytest
from reader_samples import RING_16, collective_arguments, kernel, pytorch_trace
from sharded_iterations import sharded

from themis_opt.base.units import format_short_time
from themis_opt.families.door import save
from themis_opt.formats.chakra import Node, NodeType, write_trace

QUICK = ("--time-limit", 0.5, "--workers", 1)


@pytest.fixture
def step(tmp_path):
    save(sharded(8, 8, 8), tmp_path / "step.json")
    return tmp_path / "step.json"


def test_it_says_one_sentence_and_writes_plan_and_picture(succeed, step, tmp_path):
    said = succeed("plan", step, "--memory", "40 kB", *QUICK, "-o", tmp_path / "plan")
    assert "68 us a step; at least 68 us with any plan" in said
    document = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert document["format"] == "themis-opt/plan/1"
    assert document["peak_bytes"] <= document["memory"] == 40_000
    assert (tmp_path / "plan" / "plan.svg").read_text().startswith("<svg")


SIZES = (4, 2, 3)
"""Parameters of layers that are traced, in millions."""


def sharded_trace(pace):
    """A trace of layers that are gathered while the one before computes, for so many microseconds a million."""
    events, now = [kernel(0, 60, 20, **gather(SIZES[0]))], 60
    for number, size in enumerate(SIZES):
        events.append(kernel(now, now + pace * size))
        if number + 1 < len(SIZES):
            events.append(kernel(now, now + 15 * SIZES[number + 1], 20, **gather(SIZES[number + 1])))
        now += pace * size
    for number, size in reversed([*enumerate(SIZES)]):
        events.append(kernel(now, now + 2 * pace * size))
        if number:
            events.append(kernel(now + 1, now + 15 * SIZES[number - 1], 20, **gather(SIZES[number - 1])))
        now += 2 * pace * size
        scatter = collective_arguments("_reduce_scatter_base", size * 10**6)
        events.append(kernel(now, now + 15 * size, 20, **scatter))
    return pytorch_trace([*events, kernel(now + 61, now + 70)])


def gather(millions):
    return collective_arguments("_allgather_base", millions * 10**6)


@pytest.fixture
def planned(succeed):
    """The document that a command line prints."""
    return lambda *arguments: json.loads(succeed("plan", *arguments, *QUICK, "--json"))


def test_traces_of_several_ranks_become_one_plan_of_the_slowest(planned, tmp_path):
    paths = [tmp_path / f"rank{rank}.json" for rank in range(3)]
    for path, pace in zip(paths, (20, 30, 25), strict=True):
        path.write_text(sharded_trace(pace))
    document = planned(*paths, "--memory", "60 MB")
    assert document["name"] == "rank1"
    assert {module for group in document["fsdp"]["groups"] for module in group} == {"layer1", "layer2", "layer3"}
    assert document["bound_ns"] <= document["step_ns"] <= document["today_ns"]
    assert document["peak_bytes"] <= 60e6


def test_all_commands_say_the_same_of_a_trace(succeed, planned, tmp_path):
    trace, step = tmp_path / "trace.json", tmp_path / "step.json"
    trace.write_text(sharded_trace(30))
    answers = {"import": succeed("import", trace, "-o", step), "bound": succeed("bound", step)}
    answers["solve"] = succeed("solve", step, "--policies", "wait_free/baseline", *QUICK, "-o", tmp_path / "out")
    answers["measured"] = succeed("compare", step, "--measured", trace)
    document = planned(step)
    today, bound = (format_short_time(1000 * document[time]) for time in ("today_ns", "bound_ns"))
    for name, answer in answers.items():
        assert "while gathers stay where the trace has them; with any plan a step takes" in answer, name
        assert f"takes {bound} or more" in answer, name
        assert name == "bound" or f" {today}" in answer, name
    assert re.search("8 collectives, (.*?)\t", answers["import"])[1] in answers["measured"]


def sharded_nodes():
    """The same layers as a trace of Chakra: gathers after what leaves room for them, gradients before the update."""
    nodes, before = [Node(0, "update", NodeType.COMP, duration_micros=1)], 0
    backward = [("again", number) for number in reversed(range(len(SIZES) - 1))]
    scatters = []
    for word, number in [*(("forward", number) for number in range(len(SIZES))), ("last", len(SIZES) - 1), *backward]:
        deps = [before]
        if word != "last":
            share = {"is_cpu_op": False, "comm_type": 2, "comm_size": SIZES[number] * 10**6}
            nodes.append(Node(len(nodes), f"gather {number}", NodeType.COMM_COLL, (before,), attributes=share))
            deps.append(nodes[-1].id)
        time = SIZES[number] * (100 if word == "forward" else 200)
        nodes.append(Node(len(nodes), f"{word} {number}", NodeType.COMP, tuple(deps), duration_micros=time))
        before = nodes[-1].id
        if word != "forward":
            whole = {"is_cpu_op": False, "comm_type": 7, "comm_size": SIZES[number] * 4 * 10**6}
            nodes.append(Node(len(nodes), f"scatter {number}", NodeType.COMM_COLL, (before,), attributes=whole))
            scatters.append(nodes[-1].id)
    return [*nodes, Node(len(nodes), "end", NodeType.COMP, (before, *scatters), duration_micros=1)]


def test_a_trace_of_chakra_with_its_network_becomes_a_plan(planned, tmp_path):
    trace, network = tmp_path / "step.0.et", tmp_path / "net.yml"
    trace.write_bytes(write_trace(sharded_nodes()))
    network.write_text(RING_16.replace("16", "4"))
    document = planned(trace, network)
    assert {module for group in document["fsdp"]["groups"] for module in group} == {"layer1", "layer2", "layer3"}
    assert document["bound_ns"] <= document["step_ns"] <= document["today_ns"]


def test_a_workload_becomes_a_plan(succeed, planned, tmp_path):
    setup = ("--parallelism", "fsdp", "--batch", 8, "--flops", "100 TFLOP/s", "--chunks", 1)
    network = "dgx_h100_superpod.all_reduce.1GiB"
    succeed("workload", "vgg-16", "--network", network, *setup, "-o", tmp_path / "step.json")
    document = planned(tmp_path / "step.json")
    assert document["bound_ns"] <= document["step_ns"] <= document["today_ns"]


def test_a_shipped_step_becomes_a_plan(planned):
    assert planned("v100-64.vgg-16")["ddp"]["bucket_cap_mb"] > 0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (pytorch_trace([kernel(0, 9), kernel(0, 9, Rank=1)]), "kernels of NCCL without their sizes: profile with"),
        (pytorch_trace([kernel(0, 9)]), "holds no kernel of NCCL: profile with GPU activities"),
    ],
)
def test_traces_without_sizes_are_refused_in_a_line(refuse, tmp_path, text, rule):
    (tmp_path / "trace.json").write_text(text)
    assert rule in refuse("plan", tmp_path / "trace.json")


def test_chakra_without_its_network_or_compute_is_refused_in_a_line(refuse, tmp_path):
    (tmp_path / "a.et").write_bytes(write_trace(sharded_nodes()))
    assert "says nothing of the network" in refuse("plan", tmp_path / "a.et")
    alone = [node for node in sharded_nodes() if node.type is NodeType.COMM_COLL]
    (tmp_path / "b.et").write_bytes(write_trace([Node(n.id, n.name, n.type, attributes=n.attributes) for n in alone]))
    (tmp_path / "net.yml").write_text(RING_16)
    assert "must hold a training iteration" in refuse("plan", tmp_path / "b.et", tmp_path / "net.yml")
