"""Clusters by name, as groups of equal nodes that expand."""

import json
from pathlib import Path

import pytest
from generators.graphs import clusters

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.graphs.bounds import best_bound
from themis_opt.graphs.clusters import Cluster, cluster, made, random_cluster
from themis_opt.graphs.matching import greedy_plan
from themis_opt.graphs.policies import shortest_plan
from themis_opt.graphs.schedule import chunked_schedules, simulate_graph
from themis_opt.problem.catalog import shipped_clusters

RING = {
    "counts": {"box": 3, "gpu": 2},
    "groups": [{"name": "box{box}.gpu{gpu}"}, {"name": "leaf{gpu}", "kind": "switch"}],
    "links": [
        {"ends": ["box{box}.gpu{gpu}", "leaf{gpu}"], "name": "box{box}.nic{gpu}", "bandwidth": "50 GB/s"},
        {"ends": ["box{box}.gpu{gpu}", "box{box+1}.gpu{gpu}"], "bandwidth": "10 GB/s", "latency": "1 us"},
        {"ends": ["leaf{gpu}", "leaf{gpu+1}"], "bandwidth": "100 GB/s", "name": "trunk"},
    ],
}


def written(folder: Path, network: object) -> Path:
    path = folder / "cluster.json"
    collective = {"kind": "all_gather", "size": "1 MB"}
    path.write_text(json.dumps({"format": "themis-opt/instance/1", "network": network, "collectives": [collective]}))
    return path


def test_groups_expand_to_nodes_and_links(tmp_path: Path) -> None:
    network = themis_opt.load(written(tmp_path, RING)).network
    assert [node.name for node in network.nodes][4:] == ["box2.gpu0", "box2.gpu1", "leaf0", "leaf1"]
    assert [link.name for link in network.links[:6]] == [f"box{box}.nic{gpu}" for box in range(3) for gpu in range(2)]
    assert {link.ends for link in network.links[6:12]} == {
        (f"box{box}.gpu{gpu}", f"box{(box + 1) % 3}.gpu{gpu}") for box in range(3) for gpu in range(2)
    }
    assert [link.latency for link in network.links] == [0] * 6 + [10**6] * 6 + [0]


def test_links_that_stand_twice_are_one_and_open_axes_end(tmp_path: Path) -> None:
    pair = RING | {"counts": {"box": 2, "gpu": 2}}
    assert len(themis_opt.load(written(tmp_path, pair)).network.links) == 4 + 2 + 1
    line = RING | {"links": [RING["links"][0], RING["links"][1] | {"wrap": False}, RING["links"][2]]}
    assert len(themis_opt.load(written(tmp_path, line)).network.links) == 6 + 4 + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": {"box": 10**6, "gpu": 2}}, "network.groups[0].name: 'box{box}.gpu{gpu}' makes 2000000 NPUs"),
        ({"counts": {"box": 1, "gpu": 40_000}}, "network.groups[0].name: 'box{box}.gpu{gpu}' makes 40000 nodes"),
        ({"counts": {"box": 3}}, "network.groups[0].name: 'gpu' of 'box{box}.gpu{gpu}' is no axis of counts"),
        ({"counts": {"box": 0, "gpu": 2}}, "network.counts.box: input should be greater than 0, not 0"),
        (
            {"groups": [{"name": "box{box.gpu{gpu}"}]},
            "network.groups[0].name: 'box{box.gpu{gpu}' has a brace that does",
        ),
        ({"groups": [{"name": "box{box}.npu{gpu}"}]}, "network.links[0].ends: 'box{box}.gpu{gpu}' is no group; did"),
        ({"groups": [{"name": "box{box+1}"}]}, "network.groups[0].name: 'box{box+1}' must have one axis in each"),
        ({"groups": [RING["groups"][0]] * 2}, "network.groups[1].name: names must differ"),
        ({"links": [RING["links"][1] | {"ends": ["leaf{gpu}", "leaf{gpu}"]}]}, "network.links[0].ends: 'leaf{gpu}-lea"),
        ({"links": [RING["links"][0] | {"ends": ["box{box}.gpu{gpu}", "leaf{box}"]}]}, "network.links[0].ends: 'box{b"),
        ({"links": [RING["links"][0] | {"ends": ["leaf{gpu**2}", "leaf{gpu}"]}]}, "network.links[0].ends: '{gpu**2}' "),
    ],
)
def test_groups_that_do_not_close_are_refused_by_name(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = written(tmp_path, RING | change)
    with pytest.raises(InputError) as refusal:
        themis_opt.load(path)
    assert str(refusal.value).startswith(f"{path}: {message}")
    assert "\n" not in str(refusal.value)


def test_equal_nodes_have_equally_many_links(tmp_path: Path) -> None:
    uneven = RING | {"links": [RING["links"][0] | {"ends": ["box{box}.gpu{gpu}", "leaf{box}"]}]}
    with pytest.raises(InputError, match="does not close: 'leaf1' has 2 of its links, 'leaf0' has 4"):
        themis_opt.load(written(tmp_path, uneven))


def test_shipped_clusters_are_what_the_generator_writes() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in shipped_clusters().values()}
    assert texts == clusters()
    assert all(text.count("\n") < 30 for text in texts.values())


@pytest.mark.parametrize(
    ("wanted", "npus", "switches", "links"),
    [
        (Cluster("h100", boxes=2), 16, 2 + 8 + 2, 32 + 16),
        (Cluster("b200", 64, oversubscription=4), 64, 8 + 8 + 2, 128 + 16),
        (Cluster("h100", 1024, levels=3), 1024, 128 + 32 + 16 + 32, 2048 + 32 * 8 + 16 * 4),
        (Cluster("nvl72", boxes=2), 144, 2 + 4 + 4, 288 + 16),
        (Cluster("nvl72", 64), 64, 1, 64),
        (Cluster("mi300x", 16), 16, 8 + 2, 2 * 28 + 16 + 16),
        (Cluster("tpu_v4", shape="4x4x8"), 128, 0, 3 * 128),
        (Cluster("tpu_v4", shape="2x2x4"), 16, 0, 8 + 8 + 12),
        (Cluster("tpu_v4", 1024), 1024, 0, 3 * 1024),
        (Cluster("dragonfly", 72), 72, 36, 72 + 9 * 6 + 36),
        (Cluster("dragonfly", 64), 64, 16, 64 + 4 * 6 + 4 * 6),
    ],
)
def test_clusters_have_the_parts_of_their_kind(wanted: Cluster, npus: int, switches: int, links: int) -> None:
    network = made(cluster(wanted)).network
    assert (network.num_npus, len(network.nodes) - npus, len(network.links)) == (npus, switches, links)


@pytest.mark.parametrize("oversubscription", [1, 2, 4])
@pytest.mark.parametrize("levels", [2, 3])
def test_uplinks_of_leaves_have_their_part_of_the_nics(levels: int, oversubscription: int) -> None:
    network = made(cluster(Cluster("h100", 512, levels=levels, oversubscription=oversubscription))).network
    leaf = next(node.name for node in network.nodes if "leaf" in node.name)
    nics, up = (
        sum(link.bandwidth for link in network.links if leaf in link.ends and ("nic" in link.name) is is_nic)
        for is_nic in (True, False)
    )
    assert nics == up * oversubscription


def test_names_and_seeds_make_clusters() -> None:
    assert themis_opt.load("cluster:h100:npus=64").fingerprint == themis_opt.load("h100-64.all_reduce.1GB").fingerprint
    assert themis_opt.load("cluster:seed=17") == made(random_cluster(17))
    assert len({made(random_cluster(seed)).name for seed in range(12)}) == 12


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h10", "cluster.kind = 'h10': must be one of h100, b200"),
        ("h100:npus=63", "cluster.npus = 63: must be a multiple of 8"),
        ("h100:boxes=33", "cluster.box = 33: do not close: 2 pods"),
        ("h100:boxes=2:npus=16", "cluster.npus: is stated twice"),
        ("h100:levels=4", "cluster.levels = 4: must be one of 2, 3"),
        ("h100:levels=two", "cluster.levels = 'two': must be a whole number"),
        ("h100:shape=4x4x4", "cluster.shape = '4x4x4': is not for h100"),
        ("h100:box=3", "cluster = 'box': must be one of npus, boxes"),
        ("tpu_v4:shape=4x4", "cluster.shape = '4x4': must be three numbers"),
        ("tpu_v4:npus=2000000", "cluster.npus = 2000000: must be 2 to 1000000"),
        ("dragonfly:npus=65", "cluster.npus = 65: do not close as a dragonfly"),
    ],
)
def test_clusters_that_nobody_builds_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        themis_opt.load(f"cluster:{name}")
    assert str(refusal.value).startswith(message)


def test_rarest_chunks_first_bring_what_one_npu_sends_near_the_bound() -> None:
    """A random choice takes 60 % longer than the bound."""
    instance = made(cluster(Cluster("tpu_v4", shape="4x4x1"), "broadcast", "1 MiB"))
    assert simulate_graph(greedy_plan(instance)).makespan < 1.2 * best_bound(instance).picoseconds


def test_any_chunk_is_matched_where_that_is_faster_than_the_rarest() -> None:
    instance = themis_opt.load("a100_x8.all_gather.1GB")
    assert simulate_graph(greedy_plan(instance)).makespan < 2 * best_bound(instance).picoseconds


def test_the_first_schedule_has_several_chunks_where_links_wait_in_one() -> None:
    instance = made(cluster(Cluster("tpu_v4", shape="4x4x1"), "all_reduce", "1 GB"))
    first = next(chunked_schedules(shortest_plan(instance)))
    assert first.chunks > 1
    assert first.makespan < 1.5 * best_bound(instance).picoseconds


def test_fewer_chunks_are_tried_where_links_wait_much() -> None:
    instance = made(cluster(Cluster("h100", boxes=4), "all_reduce", "256 KiB"))
    first, *others = chunked_schedules(shortest_plan(instance))
    best = min(others, key=lambda schedule: schedule.makespan)
    assert best.chunks <= first.chunks // 4
    assert best.makespan < first.makespan
