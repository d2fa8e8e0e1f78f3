"""Problems that other groups published: how near we come to what no algorithm beats."""

import csv

import pytest

import themis_opt
from themis_opt.problem.catalog import INSTANCES
from themis_opt.solving.cut import cut

ANSWERS = {
    row["instance"]: row for row in csv.DictReader((INSTANCES / "rivals" / "answers.csv").open(encoding="utf-8"))
}
TACOS = [name for name in ANSWERS if name.startswith("tacos.")]
PS_PER_US = 10**6


def makespan(name: str, chunks: int) -> int:
    instance = themis_opt.load(name).overridden(chunks=chunks)
    schedule = themis_opt.simulate(instance, themis_opt.make_policy("hourglass")(instance))
    themis_opt.validate(schedule)
    return schedule.makespan


def test_every_answer_belongs_to_a_shipped_instance() -> None:
    names = {path.name.removesuffix(".json") for path in (INSTANCES / "rivals").glob("*.json")}
    assert set(ANSWERS) == {name for name in names if not name.endswith(".design")}


def test_every_file_says_where_its_figures_come_from() -> None:
    assert all("http" in themis_opt.load(name).network.source for name in ANSWERS)


@pytest.mark.parametrize("name", TACOS)
def test_no_published_time_is_below_the_bound_for_every_algorithm(name: str) -> None:
    assert float(ANSWERS[name]["time_us"]) * PS_PER_US >= cut(themis_opt.load(name)) * (1 - 1e-6)


@pytest.mark.parametrize("name", TACOS)
def test_with_256_chunks_every_mesh_and_torus_is_near_the_bound(name: str) -> None:
    assert makespan(name, 256) <= cut(themis_opt.load(name)) * 1.003


@pytest.mark.parametrize("name", TACOS)
def test_with_256_chunks_every_published_time_of_tacos_is_beaten(name: str) -> None:
    """On the mesh 4x2x3 with 252 of them, which deal out more evenly."""
    chunks = 252 if name.startswith("tacos.mesh_4x2x3") else 256
    assert makespan(name, chunks) < float(ANSWERS[name]["time_us"]) * PS_PER_US


@pytest.mark.parametrize("network", ["mesh_4x2x3", "mesh_7x12", "mesh_8x5_80_35"])
def test_a_dozen_chunks_of_free_sizes_are_faster_than_what_tacos_publishes(network: str) -> None:
    name = next(name for name in TACOS if name.startswith(f"tacos.{network}."))
    instance = themis_opt.load(name).overridden(chunks=256)
    schedule = themis_opt.simulate(instance, themis_opt.make_policy("hourglass:sizes=free")(instance))
    themis_opt.validate(schedule)
    assert len(schedule.plan.chunks[0].sizes) <= 18
    assert schedule.makespan < float(ANSWERS[name]["time_us"]) * PS_PER_US


@pytest.mark.parametrize("name", [name for name in ANSWERS if name.startswith("forestcoll.")])
def test_the_cut_is_the_throughput_that_forestcoll_proves(name: str) -> None:
    assert cut(themis_opt.load(name)) / PS_PER_US == pytest.approx(float(ANSWERS[name]["time_us"]), rel=1e-5)


def test_with_few_chunks_tacos_is_faster() -> None:
    """A chunk of ours uses one dimension at a time."""
    name = "tacos.torus_3x3x3.all_gather.1024MiB"
    assert makespan(name, 1) > 2 * float(ANSWERS[name]["time_us"]) * PS_PER_US
