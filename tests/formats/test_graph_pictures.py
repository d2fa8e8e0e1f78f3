"""Pictures of graphs and of schedules on them."""

from pathlib import Path

import pytest

from themis_opt.base.errors import InputError
from themis_opt.graphs.problem import GraphNetwork, load_graph
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.trees import tree_plan
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.reports.network import draw_network
from themis_opt.reports.pictures import draw_schedule

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
