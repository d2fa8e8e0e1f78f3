"""Graphs beside what others publish: ours, theirs and the bound, as CSV beside this file.

    python reports/graphs/tables.py [TABLE...]

Tables, by default all: `shipped`, every shipped graph at three sizes; `forestcoll`, all-gathers of the same graphs by
the code of ForestColl, whose answers are in ``forestcoll.jsonl``; `peers`, what TACOS, TE-CCL (``teccl_answers.csv``),
ForestColl, SyCCL, Bine trees, Swing and PAT publish; `all_to_all`, all-to-alls of 1 GB; `random_graphs`, a
hundred of them at three sizes; `speed`, seconds of the processor for boxes of eight; `small_on_clusters`, messages of
1 KiB to 1 MiB on clusters of 64, and `sisters`, the same on networks of the same make that searches and `exact` take.
"""

import csv
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import themis_opt
from formulations.limits import Limits
from formulations.worst_cut import worst_cut
from themis_opt.base.compiled import compile_at_once
from themis_opt.batches.experiment_run import source_commit
from themis_opt.formats.tables import to_csv
from themis_opt.graphs.bounds import best_bound, throughput
from themis_opt.graphs.clusters import Cluster, cluster, made
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.conversion import as_graph
from themis_opt.graphs.exact import MOST_NODES
from themis_opt.graphs.plan import GraphPlan
from themis_opt.graphs.problem import GraphInstance, load_graph
from themis_opt.graphs.registry import GRAPH_POLICIES, GRAPH_SEARCHES
from themis_opt.graphs.trees import tree_plan
from themis_opt.problem.catalog import INSTANCES, shipped_graphs
from themis_opt.problem.phases import CollectiveKind

FOLDER = Path(__file__).parent
ANSWERS = list(csv.DictReader((INSTANCES / "rivals" / "answers.csv").open(encoding="utf-8")))
SIZES = ("1 GB", "1 MiB", "64 KiB")
LIMITS, LIMITS_OF_LARGE = Limits(seconds=6.0, deterministic=True), Limits(seconds=60.0, deterministic=True)
"""Of searches on small messages, and on 1 GB in many chunks, as the command has it by default.

Work is counted in the place of time, so that rows do not depend on how busy the machine is."""

PS_PER_US = 10**6
Row = dict[str, Any]
MOST_NPUS = 64
"""NPUs up to which all policies are tried: rings of more have a million messages."""

DGX1 = "0-1:2 0-2:1 0-3:1 0-4:2 1-2:1 1-3:2 1-5:1 2-3:2 2-6:2 3-7:1 4-5:2 4-6:1 4-7:1 5-6:1 5-7:2 6-7:2"
"""Links of 25 GB/s in the file ``teccl/topologies/ndv2.py``."""


def shipped() -> Iterator[Row]:
    """Every shipped graph at every size."""
    return map(shipped_row, range(len(SIZES) * len(shipped_graphs())))


def shipped_row(number: int) -> Row:
    """The best of the policies beside the bound, and what others take."""
    place, size = number // len(SIZES), SIZES[number % len(SIZES)]
    instance = load_graph(list(shipped_graphs().values())[place]).resized(size)
    limits = LIMITS_OF_LARGE if size == SIZES[0] else LIMITS
    compared = compare_graph(instance, _policies(instance, size), limits)
    best, times = compared.best, {result.policy: result.schedule.makespan for result in compared.results}
    trees = float(best_bound(instance, trees=True).picoseconds)
    in_class = best.class_bound and percent(best.schedule.makespan / float(best.class_bound.picoseconds))
    row = {
        "graph": instance.name.partition(".")[0],
        "npus": instance.network.num_npus,
        "kind": instance.kind.value,
        "size": size,
        "bound_us": round(best.bound / PS_PER_US, 3),
        "best": best.policy,
        "best_us": round(best.schedule.makespan / PS_PER_US, 3),
        "gap_%": percent(1 + best.gap),
        "gap_to_trees_%": percent(best.schedule.makespan / trees),
        "gap_in_class_%": "" if in_class is None else in_class,
    }
    rivals = ("ring", "double_tree", "bine", "pat", "greedy")
    return row | {
        f"{name}_times": round(times[name] / times[best.policy], 2) if name in times else "" for name in rivals
    }


def small() -> Iterator[Row]:
    """Every kind of small messages on shipped graphs of few NPUs: rules alone, and with the searches of `solve`."""
    return map(small_row, range(len(_small())))


def _small() -> list[tuple[GraphInstance, str, str]]:
    """The graphs, kinds and sizes of the table `small`."""
    kinds = [kind.value for kind in CollectiveKind if kind is not CollectiveKind.SEND]
    graphs = [load_graph(path) for path in shipped_graphs().values()]
    few = [graph for graph in graphs if graph.network.num_npus <= MOST_NODES]
    return list(itertools.product(few, kinds, reversed(SIZES[1:])))


def small_row(number: int) -> Row:
    """A kind of small messages by rules alone, and with searches."""
    instance, kind, size = _small()[number]
    changed = instance.collective.replace(kind=kind, size=size)
    one = instance.model_copy(update={"collectives": (changed,)})
    rule, best = compare_graph(one).best, compare_graph(one, limits=LIMITS).best
    row = {"graph": instance.name.partition(".")[0], "kind": kind, "size": size}
    row |= {"bound_us": round(best.bound / PS_PER_US, 3), "rule": rule.policy, "rule_gap_%": percent(1 + rule.gap)}
    times = {"best": best.policy, "best_us": round(best.schedule.makespan / PS_PER_US, 3)}
    return row | times | {"gap_%": percent(1 + best.gap)}


def percent(ratio: float) -> float:
    """By how many per cent something is more."""
    return round(100 * (ratio - 1), 2)


def _policies(instance: GraphInstance, size: str) -> tuple[str, ...]:
    """All, but for large messages and graphs, where the others can only lose, and take minutes."""
    if instance.network.num_npus > MOST_NPUS:
        return ("trees", "trees=1")
    if size == "1 GB" or instance.network.num_npus > 2 * MOST_NODES:
        usual: tuple[str, ...] = ("trees", "trees=1", "greedy")
    else:
        usual = tuple(GRAPH_POLICIES)
    missing = {CollectiveKind.ALL_TO_ALL: ("double_tree", "greedy"), CollectiveKind.ALL_REDUCE: ()}
    usual = tuple(name for name in usual if name not in missing.get(instance.kind, ("double_tree",)))
    return (*usual, *GRAPH_SEARCHES) if instance.network.num_npus <= MOST_NODES and size != "1 GB" else usual


def forestcoll() -> list[Row]:
    """All-gathers by both."""
    theirs = {row["graph"]: row for row in map(json.loads, (FOLDER / "forestcoll.jsonl").read_text().splitlines())}
    rows = []
    for name, path in shipped_graphs().items():
        instance = load_graph(path)
        instance = instance.model_copy(update={"collectives": (instance.collective.replace(kind="all_gather"),)})
        started = perf_counter()
        rate = worst_cut(instance.network.capacities).ratio * instance.network.unit * instance.network.num_npus
        middle = perf_counter()
        plan = tree_plan(instance)
        ended = perf_counter()
        row = theirs.get(name.partition(".")[0])
        if row is None or "algbw" not in row:
            continue
        rows.append(
            {
                "graph": row["graph"],
                "npus": instance.network.num_npus,
                "forestcoll_GB/s": round(row["algbw"], 3),
                "ours_GB/s": round(float(rate) / 1e9, 3),
                "forestcoll_bound_s": row["bound_s"],
                "ours_bound_s": round(middle - started, 2),
                "forestcoll_trees": row.get("trees", "none in 120 s"),
                "ours_trees": len(plan.pieces),
                "forestcoll_depth": row.get("height", ""),
                "forestcoll_trees_s": row["trees_s"],
                "ours_trees_s": round(ended - middle, 2),
            }
        )
    return rows


def teccl_networks() -> Iterator[tuple[str, dict[str, Any]]]:
    """The topologies whose results TE-CCL ships, by the constants in its files."""
    nvlink = {"latency": "350 ns", "bandwidth": "125 GB/s"}
    nodes = [{"name": f"box{box}.gpu{j}"} for box in range(2) for j in range(16)]
    nodes += [{"name": f"box{box}.nvswitch", "kind": "switch"} for box in range(2)]
    links = [{"ends": [f"box{b}.gpu{j}", f"box{b}.nvswitch"], **nvlink} for b in range(2) for j in range(16)]
    out = {"bandwidth": "12.5 GB/s", "back": 0, "latency": "2600 ns"}
    links += [{"ends": [f"box{b}.gpu{j}", f"box{1 - b}.gpu{j - 1}"], **out} for b in range(2) for j in range(1, 16, 2)]
    yield "DGX2 2", {"nodes": nodes, "links": links}
    for boxes in (2, 4):
        yield f"NDv2 {boxes}", ndv2(boxes)


def ndv2(boxes: int) -> dict[str, Any]:
    """Boxes with the links of a DGX-1; NPU 1 sends to, and NPU 0 receives from, the other boxes or a switch."""
    nodes = [{"name": f"box{box}.gpu{j}"} for box in range(boxes) for j in range(8)]
    links: list[dict[str, Any]] = []
    for box in range(boxes):
        for ends, _, count in (part.partition(":") for part in DGX1.split()):
            a, b = (f"box{box}.gpu{end}" for end in ends.split("-"))
            links.append({"ends": [a, b], "bandwidth": f"{25 * int(count)} GB/s", "latency": "700 ns"})
    out = {"bandwidth": "12.5 GB/s", "back": 0, "latency": "1300 ns"}
    if boxes == 2:
        links += [{"ends": [f"box{b}.gpu0", f"box{1 - b}.gpu1"], **out} for b in range(2)]
    else:
        nodes.append({"name": "switch", "kind": "switch"})
        links += [{"ends": [f"box{b}.gpu0", "switch"], **out} for b in range(boxes)]
        links += [{"ends": ["switch", f"box{b}.gpu1"], **out} for b in range(boxes)]
    return {"nodes": nodes, "links": links}


def peers() -> Iterator[Row]:
    """Problems of other makers of schedules in one run: what they publish, and what comes out here.

    Times are in microseconds; `published` is a time of the peer, or says in words what its paper claims.
    """
    for rows in (_tacos, _teccl, _forestcoll, _syccl, _bine, _swing, _pat):
        yield from rows()


def _peer(peer: str, problem: str, instance: GraphInstance, policies: Sequence[str] | None, published: Any) -> Row:
    started = process_time()
    best = compare_graph(instance, policies).best
    ours, bound = (time / PS_PER_US for time in (best.schedule.makespan, best.bound))
    row: Row = {"peer": peer, "problem": problem, "npus": instance.network.num_npus, "kind": instance.kind.value}
    row |= {"published": published, "ours": round(ours, 2), "policy": best.policy, "bound": round(bound, 2)}
    row |= {"published_gap_%": percent(published / bound) if isinstance(published, float) else ""}
    return row | {"ours_gap_%": percent(1 + best.gap), "cpu_s": round(process_time() - started, 1)}


def _tacos() -> Iterator[Row]:
    """Its regression tests, as graphs."""
    for answer in (answer for answer in ANSWERS if answer["rival"] == "TACOS"):
        instance = as_graph(themis_opt.load(answer["instance"]))
        problem = answer["instance"].removeprefix("tacos.").replace(".all_gather.", " ")
        yield _peer("TACOS", problem, instance, ("trees", "trees=1", "greedy"), float(answer["time_us"]))


def _teccl() -> Iterator[Row]:
    """The problems whose results it ships."""
    networks = dict(teccl_networks())
    with (FOLDER / "teccl_answers.csv").open(encoding="utf-8") as file:
        answers = list(csv.DictReader(file))
    for answer in answers:
        kind = {"AllGather": "all_gather", "AlltoAll": "all_to_all"}[answer["collective"]]
        collectives = [{"kind": kind, "size": answer["bytes"]}]
        network = networks[f"{answer['topology']} {answer['chassis']}"]
        instance = GraphInstance.model_validate({"network": network, "collectives": collectives})
        problem = f"{answer['topology']} x{answer['chassis']} {answer['size']}"
        yield _peer("TE-CCL", problem, instance, None, float(answer["finish_us"]))


def _forestcoll() -> Iterator[Row]:
    """Its systems of A100, whose optimum it publishes."""
    for answer in (answer for answer in ANSWERS if answer["rival"] == "ForestColl"):
        instance = as_graph(themis_opt.load(answer["instance"]))
        problem = answer["instance"].split(".")[1]
        yield _peer("ForestColl", problem, instance, ("trees",), float(answer["time_us"]))


def _syccl() -> Iterator[Row]:
    """Up to 64 servers of 8 H800: https://doi.org/10.1145/3718958.3750499.

    Its paper gives bars, of which no numbers are public, and claims: 127 % more bandwidth at most than NCCL and other
    makers, and tens of minutes on 192 cores for 512 GPUs.
    """
    for size in ("1 MB", "1 GB"):
        instance = _h800("all_gather", size, 64)
        ring = compare_graph(instance, ("ring",)).best.schedule.makespan
        faster = ring / compare_graph(instance, ("hierarchical",)).best.schedule.makespan
        words = f"at most 2.27 times the bandwidth of NCCL and others; here {faster:.2f} times as fast as ring"
        yield _peer("SyCCL", f"8 x 8 H800 {size}", instance, ("hierarchical",), words)
    yield _peer("SyCCL", "8 x 8 H800 1 GB", _h800("all_to_all", "1 GB", 64), ("hierarchical",), "no figure for 64 GPUs")
    for kind, size in itertools.product(("all_gather", "reduce_scatter", "all_to_all"), ("1 MB", "1 GB")):
        words = "tens of minutes on 192 cores"
        yield _peer("SyCCL", f"64 x 8 H800 {size}", _h800(kind, size, 512), ("hierarchical",), words)


def _h800(kind: str, size: str, npus: int) -> GraphInstance:
    """A collective on H800, whose NVLink has 200 GB/s in each direction, on rails of 400 Gb/s."""
    document = cluster(Cluster("h100", npus), kind, size)
    for link in document["network"]["links"]:
        link["bandwidth"] = link["bandwidth"].replace("450 GB/s", "200 GB/s")
    return made(document)


def _bine() -> Iterator[Row]:
    """Bytes that leave boxes of 8, beside distances that double."""
    for npus in (64, 128):
        instance = _boxes("all_gather", "1 MB", npus)
        sent = {name: _bytes_out(GRAPH_POLICIES[name](instance)) for name in ("bine", "pat")}
        less = 100 * (1 - sent["bine"] / sent["pat"])
        words = f"up to 33 % fewer bytes between groups; here {less:.1f} % fewer than the trees of PAT"
        yield _peer("Bine trees", f"boxes of 8, {npus} NPUs", instance, ("bine",), words)


def _bytes_out(plan: GraphPlan) -> int:
    """Elements that leave boxes of 8 NPUs, which stand in the order of their numbers."""
    npus = {npu: place for place, npu in enumerate(plan.instance.network.capacities.terminals)}
    ends = ((transfer, npus[transfer.route[0]] // 8, npus[transfer.route[-1]] // 8) for transfer in plan.transfers)
    return sum(plan.pieces[transfer.piece].elements for transfer, tail, head in ends if tail != head)


def _swing() -> Iterator[Row]:
    """All-reduces on a torus of 8 x 8, whose NPUs are neighbours in the order of their names."""
    for size in ("32 KiB", "2 MiB"):
        instance = load_graph(shipped_graphs()["torus_8x8.all_reduce.1GB"]).resized(size)
        ring = compare_graph(instance, ("ring",)).best.schedule.makespan
        faster = ring / compare_graph(instance, ("bine",)).best.schedule.makespan
        words = f"up to 3 times as fast as others, 32 B to 128 MiB; here {faster:.2f} times as fast as ring"
        yield _peer("Swing", f"torus 8x8 {size}", instance, ("bine",), words)


def _pat() -> Iterator[Row]:
    """All-gathers of few bytes, beside the ring."""
    for size in ("1 KiB", "1 MB"):
        instance = _boxes("all_gather", size, 64)
        faster = compare_graph(instance, ("ring",)).best.schedule.makespan
        faster /= compare_graph(instance, ("pat",)).best.schedule.makespan
        words = f"logarithmic instead of linear in NPUs for small sizes; here {faster:.2f} times as fast as ring"
        yield _peer("PAT", f"boxes of 8 {size}", instance, ("pat",), words)


def _boxes(kind: str, size: str, npus: int) -> GraphInstance:
    """A collective on H100 on rails."""
    return made(cluster(Cluster("h100", npus), kind, size))


def all_to_all() -> Iterator[Row]:
    """All-to-alls and their maximum concurrent flow."""
    for name, path in shipped_graphs().items():
        instance = load_graph(path)
        if instance.network.num_npus > MOST_NPUS // 2:
            continue
        instance = instance.model_copy(update={"collectives": (instance.collective.replace(kind="all_to_all"),)})
        compared = compare_graph(instance, ["trees", "direct"])
        results = {result.policy: result for result in compared.results}
        yield {
            "graph": name.partition(".")[0],
            "optimum_GB/s": round(throughput(instance, compared.best.proof) / 1e9, 3),
            "trees_GB/s": round(results["trees"].schedule.algorithm_bandwidth / 1e9, 3),
            "direct_GB/s": round(results["direct"].schedule.algorithm_bandwidth / 1e9, 3),
            "gap_%": round(100 * results["trees"].gap, 2),
        }


def random_network(seed: int) -> dict[str, Any]:
    """A ring of 4 to 12 nodes with chords, of which up to two are switches; half of them uneven in both directions."""
    chance = random.Random(seed)
    switches = seed % 3
    count = chance.randint(4 + switches, 10 + switches)
    pairs = {(node, (node + 1) % count) for node in range(count)}
    pairs |= {(a, b) for a in range(count) for b in range(a) if chance.random() < CHORDS and (b, a) not in pairs}
    nodes = [{"name": f"n{k}", "kind": "switch" if k >= count - switches else "npu"} for k in range(count)]
    links = []
    for a, b in sorted(pairs):
        rate = chance.randint(1, 6)
        back = rate if seed % 2 else chance.randint(1, 6)
        rates = {"bandwidth": f"{25 * rate} GB/s", "back": f"{25 * back} GB/s"}
        links.append({"ends": [f"n{a}", f"n{b}"], **rates, "latency": "1 us"})
    return {"nodes": nodes, "links": links}


NUM_RANDOM, CHORDS = 100, 0.4
"""Random graphs, and the part of all pairs beside the ring that have a link."""

RANDOM_KINDS = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "broadcast")


def random_graphs() -> Iterator[Row]:
    """What the best of the policies takes on random graphs, and what every other policy takes beside it."""
    return map(random_row, range(NUM_RANDOM * len(SIZES)))


def random_row(number: int) -> Row:
    """A collective on a random graph; seeds go through the kinds."""
    seed, size = number // len(SIZES), SIZES[number % len(SIZES)]
    kind = RANDOM_KINDS[seed % len(RANDOM_KINDS)]
    document = {"network": random_network(seed), "collectives": [{"kind": kind, "size": size}]}
    instance = GraphInstance.model_validate(document)
    compared = compare_graph(instance)
    times = {result.policy: result.schedule.makespan for result in compared.results}
    best, trees = compared.best, min(time for name, time in times.items() if name.startswith("trees"))
    row = {"seed": seed, "npus": instance.network.num_npus, "links": len(instance.network.links), "kind": kind}
    row |= {"size": size, "best": best.policy, "best_us": round(best.schedule.makespan / PS_PER_US, 3)}
    row |= {"gap_%": percent(1 + best.gap)}
    rivals = {name: times.get(name) for name in ("ring", "double_tree", "bine", "pat", "direct", "greedy")}
    row |= {f"{name}_times": round(time / best.schedule.makespan, 3) if time else "" for name, time in rivals.items()}
    return row | {"trees_times": round(trees / best.schedule.makespan, 3)}


def boxes_of_eight(npus: int) -> GraphInstance:
    """An all-gather of 1 GB on boxes of eight behind NVSwitches, with a NIC for each NPU."""
    nodes = [{"name": f"box{k // 8}.gpu{k % 8}"} for k in range(npus)]
    switches = [f"box{box}.nvswitch" for box in range(npus // 8)]
    links = [{"ends": [f"box{k // 8}.gpu{k % 8}", switches[k // 8]], "bandwidth": "450 GB/s"} for k in range(npus)]
    links += [{"ends": [f"box{k // 8}.gpu{k % 8}", "ib"], "bandwidth": "50 GB/s"} for k in range(npus)]
    nodes += [{"name": name, "kind": "switch"} for name in (*switches, "ib")]
    collective = {"kind": "all_gather", "size": "1 GB"}
    return GraphInstance.model_validate({"network": {"nodes": nodes, "links": links}, "collectives": [collective]})


def speed() -> list[Row]:
    """Seconds of the processor for bounds and trees, and how they grow: the power of the number of NPUs."""
    rows = [speed_row(npus) for npus in (64, 128, 256, 512, 1024, 2048, 4096)]
    for before, row in itertools.pairwise(rows):
        for name in ("bound", "trees"):
            old, new = before[f"{name}_cpu_s"], row[f"{name}_cpu_s"]
            row[f"{name}_power"] = round(log2(new / old), 1) if old and new else ""
    return rows


def speed_row(npus: int) -> Row:
    """Seconds of the processor for so many NPUs."""
    instance, started = boxes_of_eight(npus), process_time()
    worst_cut(instance.network.capacities)
    middle = process_time()
    if npus <= MOST_PLANNED:
        tree_plan(instance)
    trees = round(process_time() - middle, 2) if npus <= MOST_PLANNED else ""
    bound = round(middle - started, 3)
    return {"npus": npus, "bound_cpu_s": bound, "trees_cpu_s": trees, "bound_power": "", "trees_power": ""}


MOST_PLANNED = 512
"""NPUs up to which trees are planned for the table: of twice as many it takes minutes."""


SMALL_CLUSTERS = ("h100", "mi300x", "tpu_v4", "dragonfly")
SMALL_KINDS = ("all_to_all", "broadcast", "reduce", "all_reduce")
SMALL_SIZES = ("1 KiB", "32 KiB", "1 MiB")
SECONDS_OF_RULES = 8.0
LIMITS_OF_SISTERS = Limits(seconds=4.0, deterministic=True)


def small_on_clusters() -> Iterator[Row]:
    """Small messages on clusters of 64 NPUs, by the rules; plans beyond 8 s a case are left out."""
    return map(_cluster_row, itertools.product(SMALL_CLUSTERS, SMALL_KINDS, SMALL_SIZES))


def _cluster_row(case: tuple[str, str, str]) -> Row:
    """The best of the rules on a cluster beside the bound."""
    make, kind, size = case
    instance = made(cluster(Cluster(make, 64), kind, size))
    best = compare_graph(instance, tuple(GRAPH_POLICIES), Limits(seconds=SECONDS_OF_RULES)).best
    row = {"cluster": instance.network.name, "kind": kind, "size": instance.name.rpartition(".")[2]}
    row |= {"bound_us": round(best.bound / PS_PER_US, 3), "bound": best.proof.name, "best": best.policy}
    return row | {"best_us": round(best.schedule.makespan / PS_PER_US, 3), "gap_%": percent(1 + best.gap)}


def sisters() -> Iterator[Row]:
    """Small networks of the same make, where searches say how far the bound is from a schedule."""
    return map(sister_row, range(len(SISTERS) * len(SMALL_KINDS[:3]) * len(SMALL_SIZES)))


def sister_row(number: int) -> Row:
    """A sister by rules and by all searches, beside the bound."""
    name, kind, size = list(itertools.product(SISTERS, SMALL_KINDS[:3], SMALL_SIZES))[number]
    network, collectives = SISTERS[name], [{"kind": kind, "size": size}]
    instance = GraphInstance.model_validate({"name": name, "network": network, "collectives": collectives})
    rule = compare_graph(instance, tuple(GRAPH_POLICIES)).best
    best = compare_graph(instance, ("greedy", *GRAPH_SEARCHES), LIMITS_OF_SISTERS).best
    times = {"bound_us": rule.bound, "best_us": best.schedule.makespan}
    row: Row = {"network": name, "kind": kind, "size": size, "rule": rule.policy, "best": best.policy}
    row |= {title: round(value / PS_PER_US, 3) for title, value in times.items()}
    return row | {"rule_gap_%": percent(1 + rule.gap), "gap_%": percent(1 + best.gap)}


def sister(boxes: int, gpus: int) -> dict[str, Any]:
    """Boxes of few GPUs on rails with one spine."""
    ends, nvlink = "box{box}.gpu{gpu}", {"bandwidth": "450 GB/s", "latency": "350 ns"}
    links = [{"ends": [ends, "box{box}.nvswitch"], **nvlink}]
    links.append({"ends": [ends, "leaf{gpu}"], "bandwidth": "50 GB/s", "latency": "1 us"})
    links.append({"ends": ["leaf{gpu}", "spine"], "bandwidth": f"{50 * boxes} GB/s", "latency": "500 ns"})
    switches = [{"name": name, "kind": "switch"} for name in ("box{box}.nvswitch", "leaf{gpu}", "spine")]
    return {"counts": {"box": boxes, "gpu": gpus}, "groups": [{"name": ends}, *switches], "links": links}


SISTERS: dict[str, dict[str, Any]] = {
    "rails 2 x 2": sister(2, 2),
    "rails 3 x 2": sister(3, 2),
    "torus 2 x 2 x 3": cluster(Cluster("tpu_v4", shape="2x2x3"))["network"],
}
"""Networks of at most 16 nodes."""


TABLES: dict[str, Callable[[], Iterable[Row]]] = {
    table.__name__: table
    for table in (
        shipped,
        small,
        forestcoll,
        peers,
        all_to_all,
        random_graphs,
        speed,
        small_on_clusters,
        sisters,
    )
}
TIMED = ("forestcoll", "speed", "small_on_clusters")
"""Tables of seconds, or of searches that a clock ends."""

SINGLE = {"shipped": shipped_row, "small": small_row, "random_graphs": random_row, "sisters": sister_row}
"""How tables make one row by its number."""


def main(names: Sequence[str]) -> None:
    """Make some tables."""
    compile_at_once()
    for name in names or TABLES:
        (FOLDER / f"{name}.csv").write_text(
            to_csv([row | {"commit": source_commit()} for row in TABLES[name]()]), encoding="utf-8"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
