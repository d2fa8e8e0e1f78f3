"""The files of ``instances/graphs``: networks that are no product of dimensions, by nodes and links."""

import json
from collections.abc import Iterable
from itertools import combinations, product
from pathlib import Path
from typing import Any

from themis_opt.base.documents import laid_out, write_atomically
from themis_opt.graphs.clusters import KINDS, Cluster, cluster
from themis_opt.problem.documents import INSTANCE_FORMAT

Document = dict[str, Any]
Nodes, Links = list[Document], list[Document]

FORESTCOLL = "L. Zhao et al., ForestColl (2024), https://arxiv.org/abs/2402.06787; latencies are left out"

DGX1 = "0-1:1 0-2:1 0-3:2 0-4:2 1-2:2 1-3:1 1-5:2 2-3:2 2-6:1 3-7:1 4-5:1 4-6:1 4-7:2 5-6:2 5-7:1 6-7:2"
MI250 = (
    "0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1 6-7:4 8-9:4 "
    "8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"
)
"""Ends and number of links."""


def npus(names: Iterable[str]) -> list[Document]:
    """Nodes that are NPUs."""
    return [{"name": name} for name in names]


def switch(name: str, **flags: bool) -> Document:
    """A node that is a switch."""
    return {"name": name, "kind": "switch", **flags}


def link(first: str, second: str, rate: float, name: str = "", latency: str = "") -> Document:
    """A link of so many GB/s each way."""
    extra = {key: value for key, value in (("name", name), ("latency", latency)) if value}
    return {"ends": [first, second], "bandwidth": f"{rate:g} GB/s", **extra}


def wires(text: str, rate: float, box: str = "") -> list[Document]:
    """Links between the NPUs of a box, whose text says how many wires of a rate each has."""
    return [
        link(f"{box}gpu{first}", f"{box}gpu{second}", rate * int(count))
        for ends, _, count in (part.partition(":") for part in text.split())
        for first, second in [ends.split("-")]
    ]


def boxes(
    sizes: Iterable[int], inside: float, outside: float, latencies: tuple[str, str] = ("", ""), **flags: bool
) -> Document:
    """Boxes of NPUs behind an NVSwitch, each with a NIC on one InfiniBand switch."""
    nodes, links = list[Document](), list[Document]()
    for box, size in enumerate(sizes):
        members = [f"box{box}.gpu{j}" for j in range(size)]
        nodes += [*npus(members), switch(f"box{box}.nvswitch", **flags)]
        links += [link(npu, f"box{box}.nvswitch", inside, latency=latencies[0]) for npu in members]
        links += [link(npu, "ib", outside, f"box{box}.nic{j}", latencies[1]) for j, npu in enumerate(members)]
    return {"nodes": [*nodes, switch("ib")], "links": links}


def mi250(used: Iterable[int]) -> Document:
    """Two MI250 boxes with the links among some of their NPUs, and 16 GB/s from each to InfiniBand."""
    members = set(used)
    text = " ".join(part for part in MI250.split() if set(map(int, part.partition(":")[0].split("-"))) <= members)
    names = [[f"box{box}.gpu{j}" for j in sorted(members)] for box in range(2)]
    nodes = [*npus(name for box in names for name in box), switch("ib")]
    links = [*wires(text, 50, "box0."), *wires(text, 50, "box1.")]
    links += [link(name, "ib", 16, name.replace("gpu", "nic")) for box in names for name in box]
    return {"nodes": nodes, "links": links}


def grid(rows: int, columns: int, rate: float, *, wrap: bool, latency: str = "500 ns") -> Document:
    """A mesh or a torus."""
    links = []
    for row, column in product(range(rows), range(columns)):
        for down, right in ((0, 1), (1, 0)):
            near = (row + down, column + right)
            if wrap or (near[0] < rows and near[1] < columns):
                links.append(link(f"r{row}c{column}", f"r{near[0] % rows}c{near[1] % columns}", rate, latency=latency))
    return {"nodes": npus(f"r{row}c{column}" for row, column in product(range(rows), range(columns))), "links": links}


def leaf_spine() -> Document:
    """Four boxes of 8, the j-th NPU of each on leaf j; leaves have half as much to two spines as to NPUs."""
    network = boxes([8] * 4, 450, 50, ("350 ns", "1 us"))
    nodes = [node for node in network["nodes"] if node["name"] != "ib"]
    links = []
    for each in network["links"]:
        first, second = each["ends"]
        links.append(each if second != "ib" else each | {"ends": [first, f"leaf{first[-1]}"]})
    nodes += [switch(name) for name in (*(f"leaf{j}" for j in range(8)), "spine0", "spine1")]
    links += [link(f"leaf{j}", f"spine{s}", 50, latency="500 ns") for j in range(8) for s in range(2)]
    return {"nodes": nodes, "links": links}


def dragonfly() -> Document:
    """Five groups of four routers with two NPUs each; all routers of a group are joined, and each group with each."""
    routers = [[f"g{group}.router{r}" for r in range(4)] for group in range(5)]
    nodes = npus(f"{router.replace('router', 'n')}{j}" for group in routers for router in group for j in range(2))
    nodes += [switch(router) for group in routers for router in group]
    links = [
        link(f"{router.replace('router', 'n')}{j}", router, 25, latency="300 ns")
        for group in routers
        for router in group
        for j in range(2)
    ]
    links += [link(a, b, 25, latency="300 ns") for group in routers for a, b in combinations(group, 2)]
    links += [link(routers[a][b - 1], routers[b][a], 25, latency="1 us") for a, b in combinations(range(5), 2)]
    return {"nodes": nodes, "links": links}


def uneven_boxes() -> Document:
    """Boxes of five and three NPUs, fully connected inside, with three NICs each, of which one is slow."""
    members = [[f"box{box}.gpu{j}" for j in range(size)] for box, size in enumerate((5, 3))]
    inside = [link(a, b, 50, latency="700 ns") for box in members for a, b in combinations(box, 2)]
    outside = [link(f"box0.gpu{j}", f"box1.gpu{j}", rate, f"nic{j}", "2 us") for j, rate in enumerate((12.5, 25, 25))]
    return {"nodes": [node for box in members for node in npus(box)], "links": [*inside, *outside]}


def networks() -> dict[str, tuple[str, str, Document]]:
    """Source, collective with its size, and nodes and links, by the name of the network."""
    nvidia = "NVIDIA: 450 GB/s NVLink and 400 Gb/s per GPU; latencies are assumptions"
    assumed = "made up; figures are assumptions"
    v100 = "NVIDIA DGX-1 with V100: NVLinks of 25 GB/s; latencies are left out"
    return {
        **{f"a100_x{n}": (FORESTCOLL, "all_gather.1GB", boxes([8] * n, 300, 25)) for n in (2, 3, 8)},
        "h100_x16": (nvidia, "all_reduce.1GB", boxes([8] * 16, 450, 50, ("350 ns", "1 us"))),
        "h100_x2_sharp": (
            nvidia,
            "all_reduce.1GB",
            boxes([8] * 2, 450, 50, ("350 ns", "1 us"), sums=True, multicasts=True),
        ),
        "h100_8_8_8_4": (nvidia, "all_reduce.1GB", boxes([8, 8, 8, 4], 450, 50, ("350 ns", "1 us"))),
        "dgx1": (v100, "all_gather.1GB", {"nodes": npus(f"gpu{j}" for j in range(8)), "links": wires(DGX1, 25)}),
        "mi250": (
            FORESTCOLL,
            "all_gather.1GB",
            {"nodes": npus(f"gpu{j}" for j in range(16)), "links": wires(MI250, 50)},
        ),
        "mi250_16_16": (FORESTCOLL, "all_gather.1GB", mi250(range(16))),
        "mi250_8_8": (FORESTCOLL, "all_gather.1GB", mi250(range(8))),
        "mesh_4x4": (assumed, "all_reduce.1GB", grid(4, 4, 50, wrap=False)),
        "mesh_4x5": (assumed, "all_reduce.1GB", grid(4, 5, 750, wrap=False, latency="20 ns")),
        "torus_4x4": (assumed, "all_to_all.1GB", grid(4, 4, 50, wrap=True)),
        "torus_8x8": (assumed, "all_reduce.1GB", grid(8, 8, 50, wrap=True)),
        "boxes_5_3": (assumed, "all_reduce.1GB", uneven_boxes()),
        "leaf_spine_2to1": (assumed, "all_reduce.1GB", leaf_spine()),
        "dragonfly": (f"J. Kim et al., dragonfly (ISCA 2008); {assumed}", "all_reduce.1GB", dragonfly()),
    }


def documents() -> dict[str, Document]:
    """The document of each file, by file name."""
    instances: dict[str, Document] = {
        f"{name}.{collective}.json": {
            "format": INSTANCE_FORMAT,
            "name": f"{name}.{collective}",
            "network": {"name": name, "source": source, **network},
            "collectives": [{"kind": collective.partition(".")[0], "size": "1 GB"}],
        }
        for name, (source, collective, network) in networks().items()
    }
    return instances


def text_of(document: Document) -> str:
    """The document with a line for each node and link."""
    network = document["network"]
    rows = {key: ",\n".join(f"    {json.dumps(row)}" for row in network[key]) for key in ("nodes", "links")}
    head = json.dumps(
        {**document, "network": {k: v for k, v in network.items() if k not in rows} | {key: [] for key in rows}}
    )
    for key, row in rows.items():
        head = head.replace(f'"{key}": []', f'"{key}": [\n{row}]')
    return head + "\n"


SHIPPED_CLUSTERS = (
    *(Cluster(kind, npus) for kind in KINDS for npus in (64, 1024)),
    Cluster("h100", 1024, levels=3, oversubscription=2),
)


def clusters() -> dict[str, str]:
    """The text of each file of ``instances/clusters`` whose network is a graph, by file name."""
    made = map(cluster, SHIPPED_CLUSTERS)
    return {f"{document['name']}.json": f"{laid_out(document)}\n" for document in made}


def write_graphs(folder: Path) -> None:
    """Write all files, and those of clusters in the folder beside. Raises InputError if one cannot be written."""
    for name, text in clusters().items():
        write_atomically(folder.parent / "clusters" / name, text)
    for name, document in documents().items():
        write_atomically(folder / name, text_of(document))
