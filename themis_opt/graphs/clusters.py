"""Clusters as they are built, by name and size, or random ones by seed: documents of a few lines.

Boxes stand on rails: the NICs of GPU j of all boxes of a pod meet at leaf j, and leaves at spines.  Two levels have
spines for all pods; of three levels spines serve a block of pods, and cores join those of the same number.  A pod has
at most 32 boxes or 4 racks, and there are four spines for each pod, at most 16, as NVIDIA builds them
(https://docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-h100/latest/network-fabrics.html).
Several cables between two switches are one link, and latencies are assumptions: 350 ns over NVLink, 700 ns over xGMI,
1 us through a NIC, and 500 ns between switches.

Torus shapes: https://docs.cloud.google.com/tpu/docs/v4; dragonflies: J. Kim et al. (ISCA 2008,
https://doi.org/10.1109/ISCA.2008.19), with the rates of Slingshot (https://arxiv.org/abs/2008.08886).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, isqrt, prod
from typing import Any

from themis_opt.base.errors import InputError, check_choice
from themis_opt.graphs.groups import MAX_GROUP_NPUS
from themis_opt.graphs.problem import GraphInstance
from themis_opt.problem.documents import INSTANCE_FORMAT

NIC_RATE, CORES_FOR_A_SPINE, MOST_SPINES = 50, 4, 16
"""GB/s of a cable of 400 Gb/s, cores that join spines of the same number, and spines."""

ClusterDocument = dict[str, Any]


@dataclass(frozen=True)
class Box:
    """GPUs that faster links join than those that leave: GB/s of each link, who says so, and most boxes of a pod."""

    source: str
    rate: float
    switched: bool = True
    word: str = "box"
    trays: int = 1
    rails: int = 8
    pod: int = 32

    @property
    def npus(self) -> int:
        """GPUs of a box."""
        return self.trays * self.rails

    @property
    def gpu(self) -> str:
        """The name of a GPU in its box."""
        return "gpu{tray}_{gpu}" if self.trays > 1 else "gpu{gpu}"


BOXES: Mapping[str, Box] = {
    "h100": Box("NVLink 4: https://www.nvidia.com/en-us/data-center/technologies/hopper-architecture/", 450),
    "b200": Box("NVLink 5: https://docs.nvidia.com/dgx/dgxb200-user-guide/introduction-to-dgxb200.html", 900),
    "nvl72": Box(
        "NVLink 5: https://docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-gb200/latest/"
        "network-fabrics.html",
        900, word="rack", trays=18, rails=4, pod=4,
    ),
    "mi300x": Box(
        "xGMI: https://rocm.blogs.amd.com/software-tools-optimization/mi300x-rccl-xgmi/README.html", 64, switched=False
    ),
}  # fmt: skip

KINDS = (*BOXES, "tpu_v4", "dragonfly")


@dataclass(frozen=True)
class Cluster:
    """What a cluster is made of.

    `kind`: one of :data:`KINDS`.
    `npus`: GPUs or chips. Racks of NVL72 have 72 GPUs, or 64 in use where 72 do not divide them.
    `boxes`: instead of `npus`: boxes, or racks.
    `shape`: instead of `npus`: chips of a torus along each axis, such as ``4x4x8``. A slice has wrap-around links if
      multiples of four are along all axes.
    `levels`: 2 of leaves and spines, or 3 with cores.
    `oversubscription`: bandwidth of the NICs of a leaf over that of its links to spines: 1, 2 or 4.
    """

    kind: str
    npus: int = 0
    boxes: int = 0
    shape: str = ""
    levels: int = 2
    oversubscription: int = 1

    @property
    def name(self) -> str:
        """The kind and the size, and what is not as usual."""
        levels = f"_{self.levels}levels" if self.levels > 2 else ""
        over = f"_{self.oversubscription}to1" if self.oversubscription > 1 else ""
        return f"{self.kind}-{self.shape or self.npus}{levels}{over}"


def cluster(wanted: Cluster, kind: str = "all_reduce", size: str = "1 GB") -> ClusterDocument:
    """The document of a collective on a cluster, which :func:`themis_opt.load` reads when it is written to a file.

    Raises InputError if there is no such cluster.
    """
    checked = _checked(wanted)
    makers = {"tpu_v4": _torus, "dragonfly": _dragonfly}
    network = {"name": checked.name, **makers.get(checked.kind, _rails)(checked)}
    name = f"{checked.name}.{kind}.{size.replace(' ', '')}"
    return {
        "format": INSTANCE_FORMAT, "name": name, "network": network, "collectives": [{"kind": kind, "size": size}]
    }  # fmt: skip


def random_cluster(seed: int) -> ClusterDocument:
    """The collective and the cluster of a seed: any kind of either, 64 to 1,024 NPUs, 1 KiB to 1 GiB."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    built = Cluster(kind, 2 ** chance.randint(6, 10))
    if kind in BOXES and kind != "nvl72":
        built = replace(built, levels=chance.choice((2, 3)), oversubscription=chance.choice((1, 2)))
    collective = chance.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"))
    return cluster(built, collective, f"{2 ** chance.randint(10, 30)} B")


def cluster_named(name: str) -> GraphInstance:
    """The instance of a name such as ``cluster:h100:npus=1024`` or ``cluster:seed=17``.

    Raises InputError if it names no cluster.
    """
    kind, *changes = name.removeprefix("cluster:").split(":")
    given = dict(change.partition("=")[::2] for change in (changes if "=" not in kind else [kind, *changes]))
    fields = {"npus": int, "boxes": int, "levels": int, "oversubscription": int, "shape": str, "seed": int}
    values = dict[str, Any]()
    for field, text in given.items():
        check_choice(field, fields, "cluster")
        if fields[field] is int and not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise InputError("must be a whole number", field=f"cluster.{field}", value=text)
        values[field] = fields[field](text)
    return made(random_cluster(values["seed"]) if "seed" in values else cluster(Cluster(kind, **values)))


def made(document: ClusterDocument) -> GraphInstance:
    """The instance of a document. Raises InputError if it breaks a rule."""
    return GraphInstance.model_validate(document)


def _checked(wanted: Cluster) -> Cluster:
    """The cluster with its number of NPUs. Raises InputError if a figure is none of those that there are."""
    check_choice(wanted.kind, KINDS, "cluster.kind")
    for field, known in (("levels", (2, 3)), ("oversubscription", (1, 2, 4))):
        check_choice(getattr(wanted, field), known, f"cluster.{field}")
    unused = [f for f in ("shape",) if wanted.kind != "tpu_v4"] + [f for f in ("boxes",) if wanted.kind not in BOXES]
    for field in unused:
        if getattr(wanted, field):
            raise InputError(f"is not for {wanted.kind}", field=f"cluster.{field}", value=getattr(wanted, field))
    if sum(map(bool, (wanted.npus, wanted.boxes, wanted.shape))) > 1:
        raise InputError("is stated twice: leave out all but one of npus, boxes and shape", field="cluster.npus")
    if wanted.boxes:
        wanted = replace(wanted, npus=wanted.boxes * BOXES[wanted.kind].npus)
    if not wanted.shape and not 1 < (wanted.npus or 64) <= MAX_GROUP_NPUS:
        raise InputError(f"must be 2 to {MAX_GROUP_NPUS}", field="cluster.npus", value=wanted.npus)
    return wanted if wanted.shape else replace(wanted, npus=wanted.npus or 64)


def _rails(wanted: Cluster) -> ClusterDocument:
    """Boxes on rails of leaves and spines."""
    box = BOXES[wanted.kind]
    if box.trays > 1 and wanted.npus % box.npus:
        box = replace(box, trays=16)
    count, rest = divmod(wanted.npus, box.npus)
    if rest:
        rule = f"must be a multiple of {box.npus}, the GPUs of a {box.word}"
        raise InputError(rule, field="cluster.npus", value=wanted.npus)
    network = _inside(box)
    network["counts"][box.word] = count
    if count > 1:
        _join_boxes(network, box, wanted, count)
    return network


def _inside(box: Box) -> ClusterDocument:
    """The GPUs of boxes, and the links within."""
    gpu, place = f"{box.word}{{{box.word}}}.{box.gpu}", f"{box.word}{{{box.word}}}"
    counts = ({"tray": box.trays} if box.trays > 1 else {}) | {"gpu": box.rails}
    if box.switched:
        switches, port = [{"name": f"{place}.nvswitch", "kind": "switch"}], gpu.replace(".gpu", ".port")
        links = [_link(gpu, f"{place}.nvswitch", box.rate, "350 ns", port)]
    else:
        switches, links = [], [_link(gpu, gpu.replace("{gpu}", "{gpu+step+1}"), box.rate, "700 ns")]
        counts["step"] = box.rails - 1
    source = f"{box.source}; NICs of 400 Gb/s; latencies are assumptions"
    return {"source": source, "counts": counts, "groups": [{"name": gpu}, *switches], "links": links}


def _join_boxes(network: ClusterDocument, box: Box, wanted: Cluster, count: int) -> None:
    """Add NICs, leaves, spines and cores."""
    pods = max(-(-count // box.pod), wanted.levels - 1)
    blocks = 1 if wanted.levels == 2 else max(pods // 4, 2)
    cables, rest = divmod(count // pods * box.trays, wanted.oversubscription)
    if count % pods or pods % blocks or rest:
        rule = f"do not close: {pods} pods of equally many in {blocks} blocks, and whole cables from leaves to spines"
        raise InputError(rule, field=f"cluster.{box.word}", value=count)
    block, pod = "block{block}." if blocks > 1 else "", "pod{pod}." if pods // blocks > 1 else ""
    counts = {"block": blocks, "pod": pods // blocks, box.word: count // pods}
    spines = gcd(cables, min(4 * pods // blocks, MOST_SPINES))
    network["counts"] |= {axis: number for axis, number in counts.items() if number > 1 or axis == box.word}
    network["counts"]["spine"] = spines
    for entry in [*network["groups"], *network["links"]]:  # the prefix of what is in a box
        entry |= {"name": block + pod + entry["name"]} if entry.get("name") else {}
        entry |= {"ends": [block + pod + end for end in entry["ends"]]} if "ends" in entry else {}
    gpu, leaf, spine = network["groups"][0]["name"], f"{block}{pod}leaf{{gpu}}", f"{block}spine{{spine}}"
    network["groups"] += [{"name": leaf, "kind": "switch"}, {"name": spine, "kind": "switch"}]
    network["links"] += [
        _link(gpu, leaf, NIC_RATE, "1 us", gpu.replace(".gpu", ".nic")),
        _link(leaf, spine, NIC_RATE * cables // spines, "500 ns", f"{leaf}.up{{spine}}"),
    ]
    if blocks > 1:
        core, up = "plane{spine}.core{core}", cables // spines * box.rails * (pods // blocks)
        network["counts"]["core"] = CORES_FOR_A_SPINE
        network["groups"].append({"name": core, "kind": "switch"})
        network["links"].append(_link(spine, core, NIC_RATE * up / CORES_FOR_A_SPINE, "500 ns", f"{spine}.up{{core}}"))


def _torus(wanted: Cluster) -> ClusterDocument:
    """A slice of TPUs."""
    sizes = (
        _sides(wanted.npus) if not wanted.shape else [int(s) if s.isdecimal() else 0 for s in wanted.shape.split("x")]
    )
    if len(sizes) != 3 or not all(0 < size <= MAX_GROUP_NPUS for size in sizes) or prod(sizes) < 2:
        raise InputError("must be three numbers, such as 4x4x8", field="cluster.shape", value=wanted.shape)
    wrap = all(size % 4 == 0 for size in sizes)
    counts = dict(zip("xyz", sizes, strict=True))
    chip = "x{x}y{y}z{z}"
    links = [
        _link(chip, chip.replace(f"{{{axis}}}", f"{{{axis}+1}}"), 45, "1 us") | ({} if wrap else {"wrap": False})
        for axis, size in counts.items()
        if size > 1
    ]
    source = "TPU v4: https://jax-ml.github.io/scaling-book/tpus, shapes https://docs.cloud.google.com/tpu/docs/v4"
    return {"source": source, "counts": counts, "groups": [{"name": chip}], "links": links}


def _sides(npus: int) -> list[int]:
    """Three sides whose longest is shortest, multiples of four where there are such."""
    shapes = [
        (a, b, npus // a // b)
        for a, b in product(range(1, isqrt(npus) + 1), repeat=2)
        if a <= b and npus % (a * b) == 0 and b <= npus // a // b
    ]
    return list(min(shapes, key=lambda sides: (sum(side % 4 > 0 for side in sides), max(sides))))


def _dragonfly(wanted: Cluster) -> ClusterDocument:
    """Groups of routers that are all joined, and groups that are.

    Of 2h²(2h²+1) NPUs routers have h NPUs and h links to other groups, one for each pair of groups: a balanced
    dragonfly.  Of a power of two each router is joined to that of the same number in every other group.
    """
    half = next((h for h in range(1, 32) if 2 * h * h * (2 * h * h + 1) >= wanted.npus), 0)
    bits = wanted.npus.bit_length() - 1
    if 2 * half * half * (2 * half * half + 1) == wanted.npus:
        counts = {"group": 2 * half * half + 1, "router": 2 * half, "npu": half, "step": 2 * half - 1, "port": half}
        far = f"group{{group+{half}*router+port+1}}.router{{-router-1}}"
    elif wanted.npus == 2**bits and bits >= 3:
        sides = [2 ** ((bits + extra) // 3) for extra in (2, 1, 0)]
        counts = dict(zip(("group", "router", "npu"), sides, strict=True))
        counts |= {"step": counts["router"] - 1, "other": counts["group"] - 1}
        far = "group{group+other+1}.router{router}"
    else:
        rule = "do not close as a dragonfly: must be a power of two from 8, or 72, 342, 1056 and so on"
        raise InputError(rule, field="cluster.npus", value=wanted.npus)
    npu, router = "group{group}.npu{router}_{npu}", "group{group}.router{router}"
    links = [
        _link(npu, router, 25, "300 ns"),
        _link(router, router.replace("{router}", "{router+step+1}"), 25, "300 ns"),
        _link(router, far, 25, "1 us"),
    ]
    source = "J. Kim et al. (ISCA 2008); Slingshot: https://arxiv.org/abs/2008.08886; latencies are assumptions"
    return {
        "source": source,
        "counts": counts,
        "groups": [{"name": npu}, {"name": router, "kind": "switch"}],
        "links": links,
    }


def _link(first: str, second: str, rate: float, latency: str, name: str = "") -> ClusterDocument:
    ends = {"ends": [first, second], "bandwidth": f"{rate:g} GB/s", "latency": latency}
    return {"name": name, **ends} if name else ends
