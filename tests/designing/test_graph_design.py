"""Designs of graphs: equal to brute force over cuts and partitions, reached by trees; errors name their field."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from formulations.concurrent_flow import concurrent_flow
from themis_opt.base.errors import InputError
from themis_opt.designing.design import design
from themis_opt.designing.problem import GraphDesignProblem, load_problem
from themis_opt.graphs.problem import GraphNetwork

GIGABYTE, SIZE, BUDGET = 1e9, 1e9, 400e9


def nodes(count: int, switches: int = 0) -> list[dict[str, str]]:
    return [{"name": f"n{k}", "kind": "npu" if k < count - switches else "switch"} for k in range(count)]


def boxes(**changes: Any) -> dict[str, Any]:
    """Two boxes of four NPUs, each NPU with a link to the switch of its box and one to the spine."""
    npus = [f"box{box}.gpu{j}" for box in range(2) for j in range(4)]
    switches = [{"name": name, "kind": "switch"} for name in ("box0.sw", "box1.sw", "spine")]
    links = [{"ends": [npu, f"{npu[:4]}.sw"], "group": "inside", "latency": "1 us"} for npu in npus]
    links += [{"ends": [npu, "spine"], "group": "outside", "latency": "2 us"} for npu in npus]
    return {
        "format": "themis-opt/design/1",
        "network": {"nodes": [*({"name": npu} for npu in npus), *switches], "links": links},
        "workloads": [{"name": "w", "collectives": [{"kind": "all_gather", "size": "1 GB"}]}],
        "budget": {"bandwidth": "1000 GB/s"},
    } | changes


def problem(**changes: Any) -> GraphDesignProblem:
    return GraphDesignProblem.model_validate(boxes(**changes))


def workload(name: str, kind: str = "all_gather") -> dict[str, Any]:
    return {"name": name, "collectives": [{"kind": kind, "size": "1 GB"}]}


def random_problem(seed: int, kind: str, *, switches: int = 0) -> GraphDesignProblem:
    """A ring with chords, each link in one of two groups, or fixed."""
    chance = random.Random(seed)
    count = chance.randint(3, 5) + switches
    pairs = {(k, k + 1) for k in range(count - 1)} | {(0, count - 1)}
    pairs |= {(a, b) for a, b in itertools.combinations(range(count), 2) if chance.random() < 0.4}
    links: list[dict[str, Any]] = []
    for number, (a, b) in enumerate(sorted(pairs)):
        link: dict[str, Any] = {"ends": [f"n{a}", f"n{b}"]}
        group = number if number < 2 else chance.randint(0, 2)
        links.append(link | ({"bandwidth": "10 GB/s"} if group == 2 else {"group": f"g{group}"}))
    network = {"nodes": nodes(count, switches), "links": links}
    return problem(network=network, workloads=[workload("w", kind)], budget={"bandwidth": f"{BUDGET} B/s"})


def crossing(network: GraphNetwork, inside: set[int]) -> float:
    return float(sum(rate for (a, b), rate in network.arcs.items() if a in inside and b not in inside))


def cuts(network: GraphNetwork) -> Iterator[set[int]]:
    """All sets of nodes that miss an NPU and hold one."""
    npus, count = set(network.capacities.terminals), len(network.nodes)
    sets = (set(some) for size in range(1, count) for some in itertools.combinations(range(count), size))
    return (some for some in sets if some & npus and npus - some)


def gather_time(network: GraphNetwork) -> float:
    npus = set(network.capacities.terminals)
    return max(SIZE / len(npus) * len(some & npus) / crossing(network, some) for some in cuts(network))


def broadcast_time(network: GraphNetwork) -> float:
    return max(SIZE / crossing(network, some) for some in cuts(network) if 0 in some)


def parts_of(items: list[int]) -> list[list[set[int]]]:
    if not items:
        return [[]]
    first, rest = items[0], parts_of(items[1:])
    joined = [[*p[:k], p[k] | {first}, *p[k + 1 :]] for p in rest for k in range(len(p))]
    return [[{first}, *p] for p in rest] + joined


def all_reduce_time(network: GraphNetwork) -> float:
    """W. Tutte and C. Nash-Williams, for graphs without switches."""
    divided = [parts for parts in parts_of(list(range(len(network.nodes)))) if len(parts) > 1]
    return max(2 * (len(p) - 1) * SIZE / sum(crossing(network, part) for part in p) for p in divided)


def all_to_all_time(network: GraphNetwork) -> float:
    flow = concurrent_flow(network.capacities, fold=False)
    return SIZE / (flow.throughput * float(network.unit) * network.num_npus)


def best_time(problem: GraphDesignProblem, time: Callable[[GraphNetwork], float]) -> float:
    """The least time over all ways to divide the budget between two groups; times are convex."""
    counts = [len(links) for links in problem.network.members.values()]

    def at(part: float) -> float:
        rates = (
            round(BUDGET * share / count / 1000) * 1000.0 for share, count in zip((part, 1 - part), counts, strict=True)
        )
        return time(problem.network.at(dict(zip(problem.names, rates, strict=True))))

    low, high = 1e-4, 1 - 1e-4
    for _ in range(30):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if at(first) <= at(second) else (first, high)
    return at((low + high) / 2)


KINDS = {
    "all_gather": gather_time,
    "reduce_scatter": gather_time,
    "broadcast": broadcast_time,
    "all_reduce": all_reduce_time,
    "all_to_all": all_to_all_time,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_designs_equal_brute_force(kind: str, seed: int) -> None:
    problem = random_problem(seed, kind, switches=0 if kind == "all_reduce" else seed % 2)
    answer = design(problem)
    best = best_time(problem, KINDS[kind]) * 1e12
    assert answer.bound <= best * (1 + 1e-6)
    assert answer.time == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("kind", ["all_gather", "all_to_all", "all_reduce"])
def test_trees_reach_the_bound_over_all_bandwidths(kind: str) -> None:
    answer = design(problem(workloads=[workload("w", kind)]))
    assert answer.bound * (1 - 1e-9) <= answer.simulated <= answer.bound * 1.01


def test_cuts_that_decide_are_named() -> None:
    answer = design(problem())
    assert set(answer.deciding[0]) <= {"out of the 4 NPUs of box1", "out of the 7 NPUs but box0.gpu0"}
    assert answer.deciding[0]
    assert sum(8 * rate for rate in answer.bandwidths.values()) == pytest.approx(1000 * GIGABYTE, rel=1e-6)


def test_the_worst_time_is_no_larger_than_with_the_best_sum() -> None:
    workloads = [workload("a", "all_gather"), workload("b", "all_to_all")]
    total, worst = (design(problem(workloads=workloads, minimise=m)) for m in ("sum", "worst"))
    assert max(worst.times) <= max(total.times) * (1 + 1e-6)
    assert sum(total.times) <= sum(worst.times) * (1 + 1e-6)
    assert worst.time == pytest.approx(max(worst.times))


def test_weights_and_counts_scale_times() -> None:
    collectives = [{"kind": "all_gather", "size": "1 GB", "count": 3}]
    once, often = (
        problem(workloads=[w]) for w in (workload("w"), {"name": "w", "weight": 2, "collectives": collectives})
    )
    assert design(often).bound == pytest.approx(6 * design(once).bound)


def test_limits_and_constraints_hold() -> None:
    document = boxes(constraints=["inside >= 4 outside"])
    document["network"]["groups"] = [{"name": "inside", "most": "60 GB/s"}]
    rates = design(GraphDesignProblem.model_validate(document)).bandwidths
    assert rates["inside"] <= 60 * GIGABYTE
    assert rates["inside"] >= 4 * rates["outside"] * (1 - 1e-6)


def test_links_that_nothing_needs_are_not_built() -> None:
    document = boxes()
    document["network"]["links"].append({"ends": ["box0.sw", "box1.sw"], "group": "spare"})
    document["network"]["groups"] = [{"name": "spare", "price": 1}]
    answer = design(GraphDesignProblem.model_validate(document))
    built = [name for name, rate in answer.bandwidths.items() if rate]
    assert answer.bandwidths["spare"] == 0
    assert len(answer.network.links) == 8 * len(built)


def test_money_buys_more_of_what_is_cheap() -> None:
    document = boxes(budget={"money": 10_000})
    document["network"]["groups"] = [{"name": "inside", "price": 5}, {"name": "outside", "price": 50}]
    answer = design(GraphDesignProblem.model_validate(document))
    assert answer.money == pytest.approx(10_000, rel=1e-6)
    assert answer.constraint_prices["budget: money"] > 0


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no limit": ({"budget": {}}, "inside: nothing limits its bandwidth"),
    "no solution": ({"constraints": ["inside >= 300 GB/s"]}, "constraints: no bandwidths obey all constraints"),
    "unknown name": ({"constraints": ["outsid >= 3 GB/s"]}, "constraints[0]: 'outsid' is neither"),
    "a send": (
        {"workloads": [{"name": "w", "collectives": [{"kind": "send", "size": 8}]}]},
        "workloads[0].collectives[0]",
    ),
    "two of the worst": (
        {
            "minimise": "worst",
            "workloads": [{"name": "w", "collectives": [{"kind": "reduce", "size": 8, "chunks": 1}] * 2}],
        },
        "workloads[0].collectives",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_field(case: str, tmp_path: Path) -> None:
    changes, message = REFUSED[case]
    file = tmp_path / "my.json"
    file.write_text(json.dumps(boxes(**changes)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        design(file)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ({"ends": ["box0.gpu0", "box0.gpu1"], "bandwidth": "1 GB/s", "group": "inside"}, "links[16].group"),
        ({"ends": ["box0.gpu0", "box0.gpu1"], "back": "1 GB/s"}, "links[16].back"),
        ({"ends": ["box0.gpu0", "box9.gpu1"]}, "'box9.gpu1' is no node"),
    ],
)
def test_links_that_break_a_rule_are_named(link: dict[str, Any], message: str, tmp_path: Path) -> None:
    document = boxes()
    document["network"]["links"].append(link)
    file = tmp_path / "my.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_problem(file)
    assert message in str(caught.value)
