"""Schedules on graphs for runtimes and simulators: what is written computes the collective."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.graph_exports import export_graph, graph_program, move_data, units_of_block
from themis_opt.graphs.plan import GraphPiece, GraphPlan, GraphTransfer
from themis_opt.graphs.problem import GraphInstance, GraphNetwork, load_graph
from themis_opt.graphs.registry import GRAPH_POLICIES
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.trees import tree_plan
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.reports.network import draw_network
from themis_opt.reports.pictures import draw_schedule

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce")


def planned(name: str, kind: str, policy: str = "trees", chunks: int = 2) -> GraphSchedule:
    instance = load_graph(next(path for file, path in shipped_graphs().items() if file.startswith(f"{name}.")))
    collective = instance.collective.replace(kind=kind, size="1 MB")
    instance = instance.model_copy(update={"collectives": (collective,)})
    return simulate_graph(GRAPH_POLICIES[policy](instance), chunks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "policy"), [("boxes_5_3", "trees"), ("dgx1", "direct")])
def test_messages_of_a_schedule_compute_its_collective(name: str, policy: str, kind: str) -> None:
    moved = move_data(planned(name, kind, policy))
    assert moved.messages > 0
    assert moved.busiest.bytes > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["msccl", "mscclpp", "astra-sim"])
def test_files_are_run_by_the_rules_of_their_format(tmp_path: Path, form: str, kind: str) -> None:
    files, facts, _ = export_graph(planned("boxes_5_3", kind, "trees=1", 1), form, tmp_path, check=True)
    assert all(path.exists() for path in files)
    assert facts


def test_messages_through_switches_go_from_gpu_to_gpu(tmp_path: Path) -> None:
    _, facts, _ = export_graph(
        planned("a100_x2", "all_gather", "trees=1", 1), "msccl:dialect=azure", tmp_path, check=True
    )
    assert "16 GPUs" in facts[0]


@pytest.mark.parametrize("name", ["boxes_5_3", "dgx1"])
def test_gpus_of_a_box_reach_memory_and_others_ports(tmp_path: Path, name: str) -> None:
    schedule = planned(name, "all_gather", "trees=1", 1)
    (path, *_), _, _ = export_graph(schedule, "mscclpp", tmp_path, check=False)
    numbers = schedule.plan.instance.network.capacities.terminals
    boxes = [schedule.plan.instance.network.nodes[number].name.rpartition(".")[0] for number in numbers]
    ways = {
        (boxes[gpu["id"]] == boxes[peer], channels["channel_type"])
        for gpu in json.loads(path.read_text())["gpus"]
        for channels in gpu["channels"]
        for peer in channels["connected_to"]
    }
    assert ways == {(True, "memory")} | ({(False, "port")} if len(set(boxes)) > 1 else set())


def test_shares_of_trees_are_kept_in_units() -> None:
    schedule = planned("dgx1", "all_gather", chunks=1)
    program = graph_program(schedule, 4096)
    units = program.layout.units / program.layout.total
    elements = np.array([piece.elements for piece in schedule.plan.pieces if piece.elements])
    assert units == pytest.approx(elements / elements.sum() * 8, rel=0.01)


def test_shares_too_small_for_a_unit_are_refused_with_numbers() -> None:
    with pytest.raises(InputError, match=r"have 3 parts, the least 0.0001 of a buffer of 100 units: use fewer trees"):
        units_of_block([[1, 4000, 5999]], 1, 100)


def exchanged(
    routes: Sequence[tuple[int, int]], after: Sequence[tuple[int, ...]], elements: Sequence[int] = (2000,)
) -> GraphSchedule:
    """Pieces whose sums GPUs exchange over links between them, all in the same way."""
    names = [{"name": f"gpu{number}"} for number in range(1 + max(map(max, routes)))]
    ends = sorted({(min(route), max(route)) for route in routes})
    links = [{"ends": [f"gpu{end}" for end in pair], "bandwidth": "1 GB/s", "latency": "1 us"} for pair in ends]
    what = {"network": {"nodes": names, "links": links}, "collectives": [{"kind": "all_reduce", "size": "4 kB"}]}
    transfers = [
        GraphTransfer(piece, route, adds=True, after=tuple(piece * len(routes) + number for number in waits))
        for piece in range(len(elements))
        for route, waits in zip(routes, after, strict=True)
    ]
    parts = tuple(GraphPiece(count, None, None) for count in elements)
    schedule = simulate_graph(GraphPlan("exchange", GraphInstance.model_validate(what), parts, tuple(transfers)))
    validate_graph(schedule)
    return schedule


def doubled(levels: int, elements: Sequence[int] = (2000,)) -> GraphSchedule:
    """GPUs exchange their sums with one that is 1, 2, 4.. away, and what they send in a round is that of the last."""
    routes = [(rank, rank ^ 1 << level) for level in range(levels) for rank in range(1 << levels)]
    number = {route: place for place, route in enumerate(routes)}
    after = [tuple(number[rank ^ 1 << earlier, rank] for earlier in range(level))
             for level in range(levels) for rank in range(1 << levels)]  # fmt: skip
    return exchanged(routes, after, elements)


@pytest.mark.parametrize("form", ["msccl", "mscclpp"])
def test_sums_that_cross_are_sent_as_they_were(tmp_path: Path, form: str) -> None:
    assert move_data(doubled(3)).messages == 24
    _, facts, _ = export_graph(doubled(3), form, tmp_path, check=True)
    assert "every GPU ends with its result" in facts[-2]
    assert facts[-1].endswith("as the schedule")


def test_sums_without_what_arrived_before_are_refused() -> None:
    line = exchanged([(0, 1), (2, 1), (1, 0), (1, 2)], [(), (), (1,), (0,)])
    with pytest.raises(InputError, match="sends sums without what arrived before"):
        graph_program(line, 4096)


def test_scratch_is_no_longer_than_a_buffer_may_be() -> None:
    schedule = doubled(2, (1333, 667))
    exact, coarse = (graph_program(schedule, most).layout for most in (20, 16))
    assert (exact.total, exact.buffers["s"]) == (3, 20)
    assert (coarse.total, coarse.buffers["s"]) == (2, 13)


def test_networks_of_ns3_list_every_link(tmp_path: Path) -> None:
    export_graph(planned("a100_x2", "all_reduce", "trees=1", 1), "astra-sim", tmp_path, check=False)
    first, switches, *links = (tmp_path / "topology.txt").read_text(encoding="utf-8").splitlines()
    assert first == "19 3 32"
    assert switches == "16 17 18"
    assert links[0] == "0 16 2400Gbps 0ms 0"
    assert json.loads((tmp_path / "logical_topology.json").read_text(encoding="utf-8")) == {"logical-dims": ["16"]}


def test_wrong_plans_are_noticed_on_data() -> None:
    schedule = planned("dgx1", "all_reduce", chunks=1)
    *others, last = schedule.plan.transfers
    with pytest.raises(InvalidSchedule, match=r"GPU \d ends with a wrong unit"):
        move_data(replace(schedule, plan=replace(schedule.plan, transfers=(*others, last._replace(adds=True)))))


def test_what_runtimes_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a switch that sums and copies sends no messages between GPUs"):
        export_graph(planned("h100_x2_sharp", "all_reduce", chunks=1), "msccl", tmp_path, check=False)
    with pytest.raises(InputError, match="--to = 'csv': must be one of msccl, mscclpp, astra-sim"):
        export_graph(planned("dgx1", "all_gather", "trees=1", 1), "csv", tmp_path, check=False)
    nodes, rates = [{"name": "a"}, {"name": "b"}], {"bandwidth": "1 GB/s", "back": "2 GB/s"}
    what = {"network": {"nodes": nodes, "links": [{"ends": ["a", "b"], **rates}]}}
    instance = GraphInstance.model_validate(what | {"collectives": [{"kind": "all_gather", "size": "1 MB"}]})
    schedule = simulate_graph(GRAPH_POLICIES["trees"](instance))
    with pytest.raises(InputError, match="must be alike in both directions for ns-3"):
        export_graph(schedule, "astra-sim", tmp_path, check=False)


DGX1 = load_graph(shipped_graphs()["dgx1.all_gather.1GB"])


def texts(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_a_network_shows_its_nodes_and_bandwidths(tmp_path: Path) -> None:
    path = tmp_path / "network.svg"
    draw_network(DGX1.network, path)
    for words in ("gpu0", "gpu7", "25 GB/s", "50 GB/s"):
        assert f">{words}</text>" in texts(path)


def test_rows_of_a_schedule_are_roles_of_links(tmp_path: Path) -> None:
    path = tmp_path / "schedule.svg"
    draw_schedule(simulate_graph(tree_plan(DGX1.resized("1 MB"))), path)
    assert texts(path).count(" and 15 alike</text>") == 2
    assert "2 of 32 link directions" in texts(path)
    assert ">time (us)</text>" in texts(path)


def test_a_row_of_many_messages_hides_no_other_role(tmp_path: Path) -> None:
    few, many = tmp_path / "few.svg", tmp_path / "many.svg"
    draw_schedule(simulate_graph(tree_plan(DGX1.resized("1 GB")), 8), few)
    draw_schedule(simulate_graph(tree_plan(DGX1.resized("1 GB")), 2000), many)
    assert "2 of 32 link directions, 2000 chunks from dark to light" in texts(many)
    assert texts(many).count(" and 15 alike</text>") == 2
    assert texts(few).count("<path") < texts(many).count("<path") < 1000


def test_links_that_serve_early_and_late_chunks_in_turn_have_no_more_bars_than_an_eye_sees(tmp_path: Path) -> None:
    path, sharp = tmp_path / "sharp.svg", load_graph(shipped_graphs()["h100_x2_sharp.all_reduce.1GB"])
    draw_schedule(simulate_graph(tree_plan(sharp), 256), path)
    assert 4 * 50 <= texts(path).count("<path") < 4 * 50 * 3  # roles times shades, however messages alternate


def test_large_networks_are_not_drawn(tmp_path: Path) -> None:
    nodes = [{"name": "sw", "kind": "switch"}, *({"name": f"n{k}"} for k in range(400))]
    links = [{"ends": ["sw", f"n{k}"], "bandwidth": 1e9} for k in range(400)]
    with pytest.raises(InputError, match="nodes = 401: must be at most 400"):
        draw_network(GraphNetwork.model_validate({"nodes": nodes, "links": links}), tmp_path / "n.svg")
