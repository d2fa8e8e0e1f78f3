"""Schedules as pictures: every stage in its row at its time, iterations, waits, and what names hold."""

import re
from itertools import combinations, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from iteration_schedules import WITH_COMPUTE, collectives, with_compute
from iteration_schedules import scheduled as iteration
from planning import schedule_of
from samples import every
from sharded_iterations import sharded

from themis_opt.graphs.conversion import as_graph
from themis_opt.problem.exchanges import Collective, Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.reports.network import draw_network
from themis_opt.reports.pictures import draw_gantt, gantt
from themis_opt.reports.rendering.charts import WIDTH, specification
from themis_opt.schedules.schedule import Schedule


def scheduled(*collectives: Collective, **rules: str) -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1700 ns") for bandwidth in ("2 GB/s", "1 GB/s")
    )
    instance = Instance(network=Network(dimensions=dimensions), collectives=collectives, **rules)
    return schedule_of(instance, "themis+scf")


def all_reduce(name: str = "gradients", chunks: int = 4) -> Collective:
    return Collective(kind="all_reduce", size="256 MB", chunks=chunks, name=name)


def bars(schedule: Schedule) -> list[dict[str, Any]]:
    return [bar for bar in rows(schedule, "bar") if bar["solid"]]


def rows(schedule: Schedule, mark: str) -> list[dict[str, Any]]:
    """Data of the layer of such marks."""
    spec = specification(gantt(schedule))
    (layer,) = [layer for layer in spec["vconcat"][0]["layer"] if layer["mark"]["type"] == mark]
    return spec["datasets"][layer["data"]["name"]]


def drawn(path: Path, schedule: Schedule, title: str = "") -> str:
    draw_gantt(path, schedule, title)
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize("schedule", every(4, [collectives(), *WITH_COMPUTE.values()]))
def test_equal_schedules_give_equal_pictures(tmp_path, schedule):
    path = tmp_path / "gantt.png"
    pictures = [draw_gantt(path, schedule) or path.read_bytes() for _ in range(2)]
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(b"\x89PNG")


def test_every_stage_is_a_bar_at_its_time_in_the_row_of_its_dimension():
    schedule = scheduled(all_reduce())
    milliseconds = np.stack([schedule.plan.stage_dimensions + 1, schedule.start / 1e9, schedule.end / 1e9], axis=1)
    shown = [(int(bar["row"][3]), bar["start"], bar["end"]) for bar in bars(schedule)]
    np.testing.assert_allclose(sorted(shown), sorted(map(tuple, milliseconds)))


def test_bars_of_short_stages_are_a_pixel_wide_and_memory_begins_with_the_bars():
    layers = sharded(1, 1, 1, task=1000.0, memory="10 kB")
    schedule = schedule_of(layers, "fsdp2/baseline")
    length = max(mark["time"] for mark in rows(schedule, "rule"))
    widths = [bar["end"] - bar["start"] for bar in bars(schedule) if bar["start"] < bar["end"] < length]
    assert min(widths) == pytest.approx(length / WIDTH)
    held = [point for data in specification(gantt(schedule))["datasets"].values() for point in data if "held" in point]
    assert min(point["start"] for point in held) == 0


def test_short_bars_of_a_pixel_are_one_and_leave_no_gap():
    schedule = scheduled(all_reduce(chunks=5_000))
    shown = sorted((bar for bar in bars(schedule) if bar["row"].startswith("dim1")), key=itemgetter("start"))
    assert len(shown) <= 2 * WIDTH < np.count_nonzero(schedule.plan.stage_dimensions == 0)
    pauses = sum(max(later["start"] - bar["end"], 0.0) for bar, later in pairwise(shown))
    assert pauses <= (1 - schedule.busy["dim1"]) * schedule.makespan / 1e9


def test_gathering_bars_are_paler_and_chunks_lie_along_the_colours():
    schedule = scheduled(all_reduce())
    assert {bar["solid"] for bar in bars(schedule)} == {0.55, 1.0}
    assert sorted({round(3 * bar["place"], 6) for bar in bars(schedule)}) == [0, 1, 2, 3]


def test_stages_of_a_pipeline_that_lag_behind_are_cut_off():
    tasks = (ComputeTask(name="t0", duration="1 us"), ComputeTask(name="t1", duration="1 us", stage=1, after=("t0",)))
    tensor = Tensor(name="g", size="1 MB", ready_after="t1", needed_before="t1")
    network = Network(dimensions=(Dimension(kind="ring", size=2, bandwidth="1 GB/s"),))
    instance = Instance(network=network, iteration=Iteration(tasks=tasks, tensors=(tensor,)), chunks=1)
    schedule = schedule_of(instance, "fused/themis+scf")
    assert max(bar["end"] for bar in bars(schedule)) <= max(mark["time"] for mark in rows(schedule, "rule"))


@with_compute
def test_both_steady_periods_look_alike(schedule):
    assert schedule.period.is_steady
    shown = [bar for bar in bars(schedule) if bar["series"] == "data parallel"]
    period = schedule.makespan / 1e6
    first, second = (
        sum(max(min(bar["end"], end) - max(bar["start"], begin), 0) for bar in shown)
        for begin, end in ((0, period), (period, 2 * period))
    )
    assert first == pytest.approx(second)


def test_rows_titles_and_legends_are_words(tmp_path):
    words = drawn(tmp_path / "a.svg", iteration())
    assert all(part in words for part in ("compute, ", "model parallel", "data parallel", "iteration 2", "time (us)"))
    tokens = Collective(kind="all_to_all", size="1 MB", chunks=2, name="tokens", dimensions=("dim1",))
    words = drawn(tmp_path / "b.svg", scheduled(tokens), "red \x1b[31m\x00")
    assert "dim2, unused" in words
    assert "4 x 1 GB/s" in words


def test_nodes_of_networks_lie_apart(tmp_path):
    dimensions = tuple(Dimension(kind="switch", size=size, bandwidth="1 GB/s") for size in (8, 4))
    graph = as_graph(Instance(network=Network(dimensions=dimensions), collectives=(all_reduce(),)))
    draw_network(graph.network, tmp_path / "network.svg")
    root = ElementTree.parse(tmp_path / "network.svg").getroot()
    symbols = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") == "#467bb3"]
    places = [tuple(map(float, re.findall(r"[\d.]+", path.get("transform")))) for path in symbols]
    nodes = places[: len(graph.network.nodes)]  # before those of the legend
    assert min(max(abs(a - c), abs(b - d)) for (a, b), (c, d) in combinations(nodes, 2)) > 12
