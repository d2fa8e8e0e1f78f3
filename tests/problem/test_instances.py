"""The shipped instance files: they load, are named after their content, and hold the figures they claim."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from planning import schedule_of

from themis_opt.base.units import format_size
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Kind
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.simulator import simulate

INSTANCES = Path(__file__).parents[2] / "instances"
FILES = {
    f"{folder}/{path.name}": path
    for folder in ("paper", "clusters", "large", "toy")
    for path in sorted((INSTANCES / folder).glob("*.json"))
    if '"groups"' not in path.read_text(encoding="utf-8")
}
"""Files of networks of dimensions, not of clusters that are graphs."""
PAPER = sorted(name for name in FILES if name.startswith("paper/"))
CLUSTERS = sorted(name for name in FILES if name.startswith("clusters/"))

SW, RING, FC = Kind.SWITCH, Kind.RING, Kind.FULLY_CONNECTED
TABLE_2 = {
    "2D-SW_SW": [(SW, 16, 1200, 700), (SW, 64, 800, 1700)],
    "3D-SW_SW_SW_homo": [(SW, 16, 800, 700), (SW, 8, 800, 700), (SW, 8, 800, 1700)],
    "3D-SW_SW_SW_hetero": [(SW, 16, 1600, 700), (SW, 8, 800, 700), (SW, 8, 400, 1700)],
    "3D-FC_Ring_SW": [(FC, 8, 1400, 700), (RING, 16, 800, 700), (SW, 8, 400, 1700)],
    "4D-Ring_SW_SW_SW": [(RING, 4, 2000, 20), (SW, 4, 1600, 700), (SW, 8, 800, 700), (SW, 8, 400, 1700)],
    "4D-Ring_FC_Ring_SW": [(RING, 4, 3000, 20), (FC, 8, 1400, 700), (RING, 4, 1200, 700), (SW, 8, 800, 1700)],
}
"""Themis (ISCA 2022), table 2: kind, NPUs, aggregate Gb/s per NPU, nanoseconds per step."""


def read(name: str) -> Instance:
    return Instance.model_validate(json.loads(FILES[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", FILES)
def test_file_name_agrees_with_content(name: str) -> None:
    instance = read(name)
    kinds = {c.kind.value for c in instance.collectives}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    size = format_size(sum(c.size for c in instance.collectives)).replace(" ", "")
    assert FILES[name].name == f"{instance.network.name.lower()}.{kind}.{size}.json"


@pytest.mark.parametrize("name", FILES)
def test_every_dimension_has_a_source(name: str) -> None:
    assert all(d.source for d in read(name).network.dimensions)


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_cluster_figure_is_sourced_or_called_an_assumption(name: str) -> None:
    for dimension in read(name).network.dimensions:
        assert "bandwidth: " in dimension.source
        assert "latency: " in dimension.source
        assert re.search(r"https://|data sheet|assumption", dimension.source)


def test_two_files_are_never_the_same_problem() -> None:
    fingerprints = [read(name).fingerprint for name in FILES]
    assert len(set(fingerprints)) == len(fingerprints)


@pytest.mark.parametrize("name", PAPER)
def test_paper_networks_hold_table_2_in_gib_per_second(name: str) -> None:
    network = read(name).network
    rows = [(d.kind, d.size, d.bandwidth * 8 / 2**30, d.latency / 1000) for d in network.dimensions]
    assert rows == TABLE_2[network.name]


@pytest.mark.parametrize("name", PAPER)
def test_paper_sources_state_the_aggregate_of_table_2(name: str) -> None:
    network = read(name).network
    for dimension, (_, _, gigabits, _) in zip(network.dimensions, TABLE_2[network.name], strict=True):
        stated = re.match(r"table 2: (\d+) Gb/s = (\d+) links? x (\d+) Gb/s per link$", dimension.source)
        total, links, each = map(int, stated.groups())
        assert total == links * each == gigabits


@pytest.mark.parametrize(
    ("name", "policy", "milliseconds"),
    [
        ("toy/fig5.all_reduce.256MB.json", "baseline+fifo", 8),
        ("toy/fig5.all_reduce.256MB.json", "themis+fifo", 8),
        ("toy/fig5.all_reduce.256MB.json", "themis+scf", 7),
        ("toy/two_equal_dims.all_reduce.8MB.json", "baseline+fifo", 8),
        ("toy/two_equal_dims.all_reduce.8MB.json", "themis+fifo", 6),
        ("toy/two_equal_dims.all_reduce.8MB.json", "themis+scf", 6),
        ("toy/one_ring.all_reduce.4MB.json", "baseline+fifo", 6.03),
        ("toy/release_and_subset.mixed.8MB.json", "baseline+fifo", 8),
        *((f"toy/root.{kind}.12MB.json", "baseline+fifo", 18) for kind in ("broadcast", "reduce")),
        *((f"toy/root.{kind}.12MB.json", "themis+scf", 12) for kind in ("broadcast", "reduce")),
        *((f"toy/root.{kind}.12MB.json", "hourglass", 12) for kind in ("broadcast", "reduce")),
    ],
)
def test_toy_answers(name: str, policy: str, milliseconds: float) -> None:
    instance = read(name)
    assert schedule_of(instance, policy).makespan == round(milliseconds * 1e9)


def test_toy_answer_when_latency_occupies() -> None:
    instance = read("toy/one_ring.all_reduce.4MB.json").overridden(latency="occupy")
    assert schedule_of(instance, "baseline+fifo").makespan == 6_120_000_000


def test_toy_all_to_all_ends_sooner_through_dim2_first() -> None:
    instance = read("toy/release_and_subset.mixed.8MB.json")
    paths = (np.array([[0, 0]]), np.array([[1, 0]]))
    chunks = (Chunks(equal_sizes(c), path) for c, path in zip(instance.collectives, paths, strict=True))
    assert simulate(instance, Plan(tuple(chunks))).makespan == 7_000_000_000


def test_readme_lists_exactly_the_files() -> None:
    readme = (INSTANCES / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `((?:paper|clusters|large|toy)/[^`]+)` \|", readme, flags=re.MULTILINE)
    assert sorted(listed) == sorted(FILES)
