"""The shipped files of iterations: they are what the generators make, and hold the figures they claim."""

import re
from pathlib import Path

import pytest
from generators.paper import NETWORKS
from generators.shipped import shipped_iterations

from themis_opt.problem.catalog import instance_text, load
from themis_opt.problem.instance import Instance

FOLDER = Path(__file__).parents[2] / "instances" / "iterations"
SHIPPED = shipped_iterations()


def read(name: str) -> Instance:
    instance = load(FOLDER / name)
    assert isinstance(instance, Instance)
    return instance


def test_the_folder_holds_exactly_the_generated_files() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_file_is_what_the_generator_writes(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == instance_text(SHIPPED[name])


@pytest.mark.parametrize("network", NETWORKS)
def test_paper_networks_are_those_of_the_collectives(network: str) -> None:
    collectives = load(f"{network}.all_reduce.100MiB")
    assert isinstance(collectives, Instance)
    assert read(f"{network}.resnet-152.json").network == collectives.network


@pytest.mark.parametrize("name", SHIPPED)
def test_every_dimension_has_a_source(name: str) -> None:
    assert all(dimension.source for dimension in read(name).network.dimensions)


def test_readme_lists_exactly_the_files() -> None:
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `iterations/([^`]+)` \| (\d+) \| (\d+), ([0-9.]+) ms \| (\d+) \| (\d+) \|$", readme, re.MULTILINE
    )
    expected = [
        (name, i.network.num_npus, len(i.iteration.tasks), f"{i.compute / 1e9:.3f}", len(i.iteration.tensors), i.chunks)
        for name, i in SHIPPED.items()
    ]
    assert sorted(rows) == sorted(tuple(map(str, row)) for row in expected)


def test_two_files_are_never_the_same_problem() -> None:
    assert len({instance.fingerprint for instance in SHIPPED.values()}) == len(SHIPPED)


@pytest.mark.parametrize(
    ("name", "tensors", "parameters"),
    [("v100-256.resnet-50.json", 54, 25_557_032), ("v100-256.bert-large.json", 50, 335_141_888)],
)
def test_layer_wise_files_hold_the_whole_model_in_fp32(name: str, tensors: int, parameters: int) -> None:
    instance = read(name)
    assert len(instance.exchanges) == tensors
    assert sum(t.size for t in instance.exchanges) == instance.parameter_bytes == 4 * parameters
