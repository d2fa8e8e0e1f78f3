"""No schedule on a random graph is below a bound, whatever its sizes, latencies, switches and kind of collective.

``python -m pytest -m benchmarks benchmarks/test_random_graph_schedules.py`` looks at 500 graphs of up to 12
nodes in some minutes, and prints how near the best schedule comes to the best bound.
"""

import random
import sys
from pathlib import Path
from statistics import median

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tests" / "graphs"))

from graph_samples import network_of, random_graph, searched

from formulations.limits import Limits
from themis_opt.base.errors import InputError
from themis_opt.graphs.bounds import graph_bounds
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rarest import is_for_rarest, rarest_plan
from themis_opt.graphs.registry import GRAPH_POLICIES, GRAPH_SEARCHES
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.phases import CollectiveKind

KINDS = [kind.value for kind in CollectiveKind if kind is not CollectiveKind.SEND]


def random_instance(seed: int) -> GraphInstance:
    """A graph of three to twelve nodes with latencies of up to 2 us, and a buffer of 1 KB to 4 MB."""
    chance = random.Random(seed)
    graph = random_graph(seed, symmetric=seed % 2 == 0, switches=seed % 3, most=12)
    document = network_of(graph).model_dump(mode="json")
    document["links"] = [link | {"latency": f"{chance.randint(0, 2000)} ns"} for link in document["links"]]
    size = 4 * round(250 * 4096 ** chance.random())
    collective = {"kind": chance.choice(KINDS), "size": f"{size} B"}
    network = GraphNetwork.model_validate(document)
    return GraphInstance.model_validate({"network": network, "collectives": [collective]})


def schedules(instance: GraphInstance, seed: int) -> list[GraphSchedule]:
    """A schedule by every policy that is for the kind."""
    made = []
    for policy in GRAPH_POLICIES.values():
        try:
            plan = policy(instance)
        except InputError:
            continue
        made.append(simulate_graph(plan, 1 if plan.ranked else 1 + seed % 8))
    if is_for_rarest(instance):
        made.append(simulate_graph(rarest_plan(instance, 4 + seed % 16, seed)))
    for name, seconds in (("mix", 1.0), ("mirror", 0.5)):
        if GRAPH_SEARCHES[name].is_for(instance):
            made += filter(None, [searched(name, instance, Limits(seconds, seed=seed, deterministic=True))])
    return made


@pytest.mark.benchmarks
@pytest.mark.timeout(0)
def test_no_schedule_on_a_random_graph_is_below_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    gaps = []
    for seed in range(500):
        instance = random_instance(seed)
        bounds = [bound for bound in graph_bounds(instance).values() if bound.holds == "any algorithm"]
        made = schedules(instance, seed)
        for schedule in made:
            validate_graph(schedule)
        best = min(schedule.makespan for schedule in made)
        for bound in bounds:
            assert best >= bound.picoseconds, f"seed {seed}: {bound.name}"
        gaps.append(best / float(max(bound.picoseconds for bound in bounds)) - 1)
    with capsys.disabled():
        print(f"\n{len(gaps)} graphs: the best schedule is {median(gaps):.1%} above the best bound in the median")
