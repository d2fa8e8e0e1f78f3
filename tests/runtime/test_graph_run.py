"""Schedules on graphs run by processes: exact data, and wrong data are named."""

import pytest

from formulations.limits import Limits
from themis_opt.base.errors import InputError
from themis_opt.graphs.problem import GraphInstance, load_graph
from themis_opt.graphs.registry import GRAPH_POLICIES, GRAPH_SEARCHES
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.steps import GraphContest
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.runtime import graph_run
from themis_opt.runtime.graph_run import GraphProgram, execute_graph, in_messages_to_run
from themis_opt.runtime.links import RankFailure


def small(kind: str, name: str = "boxes_5_3", size: str = "40 kB") -> GraphInstance:
    path = next(path for file, path in shipped_graphs().items() if file.startswith(name))
    instance = load_graph(path).on(load_graph(path).network.scaled(2e6))
    return instance.model_copy(update={"collectives": (instance.collective.replace(kind=kind, size=size),)})


def planned(kind: str, policy: str = "trees", chunks: int = 2, **options: str) -> GraphSchedule:
    return simulate_graph(GRAPH_POLICIES[policy](small(kind, **options)), chunks)


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
def test_runs_end_with_exact_data(kind: str) -> None:
    (executed,) = execute_graph({"trees": planned(kind)}, repeat=1)
    assert executed.measured_seconds >= executed.predicted_seconds * 0.9


def test_sums_that_cross_on_their_way_are_exact() -> None:
    contest = GraphContest(small("all_reduce", size="4 kB"), Limits(0.3, deterministic=True))
    GRAPH_SEARCHES["climb"].run(contest)
    schedule = contest.schedules["climb"]
    graph_run.run_once(GraphProgram.of(in_messages_to_run(schedule)), 0)


def test_switches_pass_messages_on() -> None:
    nodes = [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "sw", "kind": "switch"}]
    links = [{"ends": [npu, "sw"], "bandwidth": "1 MB/s", "latency": "1 ms"} for npu in "abc"]
    what = {"network": {"nodes": nodes, "links": links}, "collectives": [{"kind": "all_gather", "size": "12 kB"}]}
    schedule = simulate_graph(GRAPH_POLICIES["trees"](GraphInstance.model_validate(what)))
    assert graph_run.run_once(GraphProgram.of(schedule), 0) > 0.004


def test_wrong_data_are_named() -> None:
    program = GraphProgram.of(planned("all_reduce", chunks=1))
    copied = {arc: [task._replace(adds=False) for task in tasks] for arc, tasks in program.tasks.items()}
    with pytest.raises(RankFailure, match=r"rank \d \(box\d.gpu\d\) piece \d+ is wrong"):
        graph_run.run_once(GraphProgram(program.schedule, copied), 0)


def test_messages_are_long_enough_for_processes() -> None:
    schedule = planned("all_reduce", chunks=64)
    assert in_messages_to_run(schedule).chunks < 8


def test_what_would_take_too_long_is_refused() -> None:
    with pytest.raises(InputError, match=r"makespan = .*: must be at most 120 s to be run"):
        GraphProgram.of(planned("all_reduce", size="1 GB", chunks=1))
    with pytest.raises(InputError, match=r"network.nodes = 73: must be at most 64 to be run here"):
        GraphProgram.of(planned("all_gather", name="a100_x8.", chunks=1))
