"""Designs of networks: LIBRA's problems, bounds, budgets, and errors that name their field."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.designing.design import design
from themis_opt.designing.problem import DesignProblem, Price, load_problem, read_constraint, shipped_problems
from themis_opt.problem.catalog import is_graph, shipped
from themis_opt.problem.documents import model_schema
from themis_opt.problem.network import Kind
from themis_opt.solving.bounds import bounds

GIGABYTE = 1e9
NAMES = ("node", "rack", "pod")


def document(**changes: Any) -> dict[str, Any]:
    sizes = zip(NAMES, ("fully_connected", "ring", "switch"), (8, 4, 16), strict=True)
    return {
        "format": "themis-opt/design/1",
        "network": {"dimensions": [{"name": name, "kind": kind, "size": size} for name, kind, size in sizes]},
        "workloads": [{"name": "w", "collectives": [{"kind": "all_reduce", "size": "64 MiB", "chunks": 16}]}],
        "budget": {"bandwidth": "400 GB/s"},
    } | changes


def problem(**changes: Any) -> DesignProblem:
    return DesignProblem.model_validate(document(**changes))


def of_dimensions() -> dict[str, Path]:
    return {name: path for name, path in shipped_problems().items() if not is_graph(read_json(path))}


def with_dimension(number: int, **fields: Any) -> dict[str, Any]:
    network = document()["network"]
    network["dimensions"][number] |= fields
    return network


def with_split(dimension: str, *names: str) -> dict[str, Any]:
    return document()["network"] | {"splits": [{"dimension": dimension, "sizes": [4, 4], "names": names}]}


def refusal(tmp_path: Path, changes: dict[str, Any]) -> str:
    file = tmp_path / "my.json"
    file.write_text(json.dumps(document(**changes)))
    with pytest.raises(InputError) as caught:
        design(load_problem(file))
    return str(caught.value)


def test_libra_gpt_3_with_500_gigabytes_per_second() -> None:
    """The optimum of LIBRA's convex programme (ISPASS 2024) on its shipped inputs."""
    answer = design("libra.gpt-3_4d.sum500", "fixed")
    assert [f"{b / GIGABYTE:.2f}" for b in answer.bandwidths] == ["338.45", "84.61", "58.16", "18.78"]
    assert f"{answer.time / 1000:.0f}" == f"{answer.bound / 1000:.0f}" == "37963539"


def test_libra_resnet_50_with_500_gigabytes_per_second() -> None:
    answer = design("libra.resnet-50_4d.sum500", "fixed")
    assert [f"{b / GIGABYTE:.2f}" for b in answer.bandwidths[:2]] == ["375.09", "109.40"]
    assert f"{answer.time / 1000:.0f}" == "203973"


def test_free_orders_beat_the_best_fixed_order_on_libras_own_constraints() -> None:
    """By exactly a half: 765 GB/s sum over the fixed order's 500 GB/s of the innermost dimension."""
    fixed, free = (design("libra.resnet-50_4d.multiple", reading) for reading in ("fixed", "free"))
    assert f"{fixed.time / 1000:.0f}" == "153017"
    assert fixed.bound / free.time == pytest.approx(1.50037, rel=1e-4)
    assert free.gap < 1e-8


def test_a_split_dimension_serves_two_groups_one_after_the_other() -> None:
    answer = design("libra.gpt-3_4d.sum500", "fixed")
    tensor, data = answer.instances()["gpt-3.activations"], answer.instances()["gpt-3.gradients"]
    assert tensor.network.bandwidths[1] == tensor.network.bandwidths[2] == pytest.approx(answer.bandwidths[1])
    assert [data.network.sizes[k] for k in data.exchanges[0].span] == [2, 4, 32]


@pytest.mark.parametrize("reading", ["fixed", "free"])
def test_no_random_allocation_beats_the_bound(reading: Any) -> None:
    workloads = [
        {"name": "a", "weight": 2, "collectives": [{"kind": "all_reduce", "size": "64 MiB"}]},
        {"name": "b", "collectives": [{"kind": "all_to_all", "size": "9 MiB", "dimensions": ["node", "pod"]}]},
    ]
    answer = design(problem(workloads=workloads, constraints=["node >= 2 rack"]), reading)
    shares = np.random.default_rng(3).dirichlet(np.ones(3), 60)
    tried = [rates for rates in shares * 400 * GIGABYTE if rates[0] >= 2 * rates[1]]
    time = {"fixed": lambda part, b: part.fixed_time(b), "free": lambda part, b: part.fluid_time(b)}[reading]
    times = [sum(part.weight * time(part, rates) for part in answer.parts) for rates in tried]
    assert len(times) > 10
    assert answer.bound <= answer.time <= min(times)


def test_the_bound_holds_for_what_policies_make_of_the_network() -> None:
    network = with_dimension(2, latency="3 us", launch_overhead="1 us")
    answer = design(problem(network=network), "simulated", evaluations=20)
    assert answer.bound <= answer.times["free"] <= answer.time
    (instance,) = answer.instances().values()
    assert answer.times["free"] <= max(bounds(instance).values()) * (1 + 1e-9)
    assert (answer.utilisation <= 1 + 1e-9).all()


def test_simulated_designs_are_at_least_as_fast_as_those_they_start_from() -> None:
    free, simulated = (design(problem(), r, evaluations=20) for r in ("free", "simulated"))
    assert simulated.times["simulated"] <= free.times["simulated"]


def test_links_come_in_whole_numbers() -> None:
    network = with_dimension(0, links={"rate": "25 GB/s", "most": 18})
    answer = design(problem(network=network))
    links = answer.bandwidths[0] / (25 * GIGABYTE)
    assert links == round(links)
    assert answer.rows()[0]["links"] == links
    assert answer.bandwidths.sum() <= 400 * GIGABYTE * (1 + 1e-9)
    assert answer.bound >= design(problem()).bound * (1 - 1e-6)


@pytest.mark.parametrize(
    ("kind", "size", "dollars"),
    [(Kind.RING, 4, 2), (Kind.FULLY_CONNECTED, 8, 2), (Kind.SWITCH, 8, 9), (Kind.LINE, 4, 3), (Kind.MESH2D, 9, 8 / 3)],
)
def test_prices_per_gigabyte_per_second(kind: Kind, size: int, dollars: float) -> None:
    assert Price(link=2, switch=3, nic=4).per_bandwidth(kind, size) == pytest.approx(dollars)


def test_dimensions_are_named_as_in_section_6_3() -> None:
    network = {
        "dimensions": [
            {"name": name, "kind": "switch", "size": 4, "bandwidth": b}
            for name, b in (("a", "80 GB/s"), ("b", "20 GB/s"), ("c", "10 GB/s"), ("d", "1 GB/s"))
        ]
    }
    assert [word for word, _ in design(problem(network=network)).provisioning] == [
        "just enough",
        "over-provisioned",
        "under-provisioned",
    ]


def test_a_shipped_iteration_is_a_workload() -> None:
    sizes = [{"name": f"dim{k}", "kind": "switch", "size": size} for k, size in enumerate((16, 8, 8), start=1)]
    answer = design(
        problem(network={"dimensions": sizes}, workloads=[{"name": "dlrm", "instance": "3d-sw_sw_sw_hetero.dlrm"}])
    )
    assert answer.bound <= answer.times["simulated"]
    assert answer.schedules[0].has_period


def test_every_shipped_problem_reads_and_is_no_instance() -> None:
    assert len(of_dimensions()) >= 8
    for name, path in of_dimensions().items():
        assert load_problem(name) == load_problem(path)
    assert not [name for name in shipped() if name.endswith(".design")]


def test_the_schema_accepts_what_is_shipped() -> None:
    validator = Draft202012Validator(json.loads(model_schema(DesignProblem)))
    for path in of_dimensions().values():
        validator.validate(json.loads(path.read_text()))
    assert not validator.is_valid(document(budget={"bandwith": "1 GB/s"}))


@pytest.mark.parametrize(
    ("text", "coefficients", "limit"),
    [
        ("node >= 2 pod", (1, 0, -2), 0),
        ("node + 0.5*pod <= 200 GB/s", (1, 0, 0.5), 200e9),
        ("rack == 100 GB/s - pod", (0, 1, 1), 100e9),
    ],
)
def test_constraints_are_read(text: str, coefficients: tuple[float, ...], limit: float) -> None:
    (row,) = read_constraint(text, NAMES)
    assert (row.coefficients, row.limit) == (coefficients, limit)


def test_a_chain_of_signs_is_several_constraints() -> None:
    rows = read_constraint("node >= rack >= pod", NAMES)
    assert [(row.coefficients, row.sense) for row in rows] == [((1, -1, 0), ">="), ((0, 1, -1), ">=")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"constraints": ["node >= rac"]}, ("constraints[0]", "did you mean 'rack'")),
        ({"constraints": ["node"]}, ("constraints[0]", "must have a sign")),
        ({"constraints": ["node >= node"]}, ("constraints[0]", "names nothing")),
        ({"constraints": ["1.2.3 node >= pod"]}, ("constraints[0]", "neither a name")),
        ({"constraints": ["pod == 0 GB/s"]}, ("pod", "leave it no bandwidth")),
        ({"network": with_split("pod", "a", "rack")}, ("network.splits", "different names")),
        ({"network": with_split("pot", "a", "b")}, ("network.splits[0].dimension", "node, rack, pod")),
        ({"constraints": ["node >= 1 TB/s"]}, ("no bandwidths obey",)),
        ({"network": with_dimension(0, least="500 GB/s")}, ("no bandwidths obey", "node needs 500 GB/s")),
        ({"network": with_dimension(0, least="300 GB/s"), "constraints": ["pod >= 200 GB/s"]}, ("no bandwidths obey",)),
        (
            {"network": with_dimension(0, bandwidth="100 GB/s"), "constraints": ["node <= 50 GB/s"]},
            ("no bandwidths obey", "node needs 100 GB/s, and they leave it 50 GB/s"),
        ),
        ({"budget": {}}, ("node", "nothing limits its bandwidth")),
        ({"budget": {"bandwidth": "0 B/s"}}, ("budget.bandwidth", "greater than 0")),
        ({"workloads": [{"name": "w"}]}, ("workloads[0]", "either collectives or an instance")),
        ({"workloads": [{"name": "w", "instance": "nothing"}]}, ("workloads[0].instance", "no shipped instance")),
        ({"workloads": [{"name": "w", "instance": "fig5.all_reduce.256MB"}]}, ("sizes",)),
        ({"network": with_dimension(0, bandwidth="1 GB/s", most="2 GB/s")}, ("dimensions[0].most", "fixed")),
        ({"network": with_dimension(0, name="rack")}, ("network", "must differ")),
        ({"network": with_dimension(0, links={"rate": "1 GB/s", "least": 3, "most": 2})}, ("links.least", "at most")),
        ({"format": "themis-opt/instance/1"}, ("format", "themis-opt/design/1")),
    ],
)
def test_a_broken_rule_is_one_line_that_names_it(tmp_path: Path, changes: dict[str, Any], words: tuple[str]) -> None:
    line = refusal(tmp_path, changes)
    assert "\n" not in line
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("ending", ["", ".design", ".design.json"])
def test_a_shipped_problem_is_found_by_its_name_and_by_that_of_its_file(ending: str) -> None:
    assert load_problem(f"libra.gpt-3_4d.sum500{ending}") == load_problem(shipped_problems()["libra.gpt-3_4d.sum500"])


def test_the_nearest_shipped_problem_is_named() -> None:
    with pytest.raises(InputError, match=r"did you mean 'libra\.gpt-3_4d\.sum500'"):
        load_problem("libra.gpt3_4d.sum500")
