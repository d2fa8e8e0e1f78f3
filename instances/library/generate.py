"""Draw the instances of the library, the same on every machine, with the standard library alone.

``python instances/library/generate.py [FOLDER]`` writes one file for each of them; the same version, seed and name give
the same bytes.  Where a number is drawn it is a function of ``random.Random(text).random()``, which Python keeps as it
is (https://docs.python.org/3/library/random.html#notes-on-reproducibility).
"""

import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

VERSION, SEED = 1, 1
MAX_NPUS = 10**6
MANY_DIMENSIONS, FEW_CHUNKS = 5, 48  # dimensions from which on there are fewer chunks

Item = TypeVar("Item")
Document = dict[str, Any]


class Level(NamedTuple):
    """Links of one level of a machine: kind, sizes, GB/s of an NPU in one direction, ns, weight and depth."""

    kind: str
    sizes: tuple[int, ...]
    bandwidths: tuple[float, ...]
    latency: tuple[int, int]
    weight: int
    depth: int


LEVELS = (
    Level("fully_connected", (2, 4), (1000, 1500, 2000), (150, 400), 2, 0),  # dies of a package
    Level("ring", (4, 6, 8), (800, 1200), (150, 400), 1, 0),
    Level("switch", (4, 8, 16, 18, 36, 64), (300, 450, 900), (700, 2000), 4, 1),  # NVLink
    Level("fully_connected", (8,), (448, 525), (700, 2000), 2, 1),  # xGMI, Gaudi
    Level("ring", (4, 8), (64, 128), (1000, 2500), 1, 1),  # PCIe
    Level("ring", (4, 6, 8, 12, 16), (90, 100, 200), (700, 1500), 4, 2),  # tori
    Level("line", (3, 4, 5, 8), (100, 375, 750), (300, 1000), 1, 2),  # wafers and meshes
    Level(
        "switch", (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64), (12.5, 25, 50, 100), (2500, 5000), 5, 3
    ),  # NICs
    Level("switch", (2, 3, 4, 6, 8, 9, 12, 16, 24, 32), (6.25, 8.33, 12.5, 16.67, 25), (4000, 8000), 3, 4),  # spines
    Level("switch", (2, 3, 4, 5), (1.25, 2.5, 5, 12.5), (30_000, 150_000), 1, 5),  # sites
)
SHARES = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.0)  # of its peak that a link sustains


class Draws:
    """Random draws of one instance."""

    def __init__(self, name: str, seed: int) -> None:
        self._random = random.Random(f"themis-opt library {VERSION} {seed} {name}").random

    def whole(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + int(self._random() * (high - low + 1))

    def one(self, items: Sequence[Item]) -> Item:
        """One of some items."""
        return items[self.whole(0, len(items) - 1)]

    def happens(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        return self._random() < probability

    def log_uniform(self, low: float, high: float) -> float:
        """A number whose logarithm is uniform."""
        return low * math.pow(high / low, self._random())

    def level(self) -> Level:
        """A level, by its weight."""
        return self.one([level for level in LEVELS for _ in range(level.weight)])


def dimensions(draws: Draws, count: int) -> list[Document]:
    """Levels from the inside to the outside, drawn again until the machine is no larger than any that exists."""
    while True:
        levels = sorted((draws.level() for _ in range(count)), key=lambda level: level.depth)
        chosen = [_dimension(draws, level) for level in levels]
        once = [level.depth for level in levels if level.depth in (0, 5)]
        if math.prod(each["size"] for each in chosen) <= MAX_NPUS and len(set(once)) == len(once):
            return chosen


def _dimension(draws: Draws, level: Level) -> Document:
    bandwidth = round(draws.one(level.bandwidths) * draws.one(SHARES) * 1000)
    return {
        "kind": level.kind,
        "size": draws.one(level.sizes),
        "bandwidth": f"{bandwidth} MB/s",
        "latency": f"{draws.whole(*level.latency)} ns",
    }


def collective(draws: Draws, kind: str, num_dimensions: int, most: float = 2.0**32) -> Document:
    """A collective of 16 MiB to 4 GiB in 12 to 128 chunks."""
    elements = round(draws.log_uniform(2**24, most) / 2)
    chunks = round(draws.log_uniform(12, 128 if num_dimensions < MANY_DIMENSIONS else FEW_CHUNKS))
    return {"kind": kind, "size": f"{2 * elements} B", "chunks": chunks}


def _all_reduce(draws: Draws, number: int) -> Document:
    count = (2, 3, 2, 4, 3, 5, 2, 3, 4, 6)[number % 10]
    return {
        "network": {"dimensions": dimensions(draws, count)},
        "collectives": [collective(draws, "all_reduce", count)],
    }


def _bulk(draws: Draws, number: int) -> Document:
    """Gradients and parameters of large models: 1 to 16 GiB in 64 to 192 chunks."""
    count, kind = 2 + number % 2, ("all_reduce", "all_reduce", "reduce_scatter", "all_gather")[number % 4]
    size = f"{2 * round(draws.log_uniform(2**29, 2**33))} B"
    chosen = {"kind": kind, "size": size, "chunks": draws.whole(64, 192)}
    return {"network": {"dimensions": dimensions(draws, count)}, "collectives": [chosen]}


def _equal(draws: Draws, number: int) -> Document:
    count = 2 + number % 3
    chosen = collective(draws, "all_reduce", count)
    return {
        "network": {"dimensions": dimensions(draws, count)},
        "collectives": [chosen | {"chunks": draws.whole(3, 32)}],
    }


def _kinds(draws: Draws, number: int) -> Document:
    kind = ("reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce")[number % 5]
    count = draws.one((2, 2, 3, 3, 4, 5))
    return {"network": {"dimensions": dimensions(draws, count)}, "collectives": [collective(draws, kind, count)]}


def _costs(draws: Draws, number: int) -> Document:
    """Launches and packets everywhere; and sums, switches that reduce, compression, latency that blocks, or reverse."""
    count = (2, 3, 2, 4, 2)[number % 5]
    document: Document = {"network": {"dimensions": dimensions(draws, count)}}
    launch = f"{draws.whole(500, 5000)} ns"
    for dimension in document["network"]["dimensions"]:
        dimension["launch_overhead"] = launch
        if draws.happens(0.5):
            dimension["packet"] = {"payload": f"{draws.one((256, 1024, 4096))} B", "header": f"{draws.whole(16, 64)} B"}
        if dimension["kind"] == "switch" and draws.happens(0.3):
            dimension["in_network"] = True
        if draws.happens(0.2):
            dimension["compression"] = draws.one((1.25, 1.5, 2.0))
    if draws.happens(0.4):
        document["network"]["reduction"] = f"{draws.whole(200, 1500)} GB/s"
    document["collectives"] = [collective(draws, "all_reduce", count)]
    document["latency"] = draws.one(("lag", "occupy"))
    document["ag_order"] = "reverse" if draws.happens(0.25) else "free"
    return document


def _several(draws: Draws, number: int) -> Document:
    """Collectives of several kinds and releases, some on a part of the dimensions."""
    count = 2 + number % 3
    members = []
    for place in range(draws.whole(2, 5)):
        kind = draws.one(("all_reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
        member = collective(draws, kind, count, 2.0**29)
        member |= {"name": f"c{place + 1}", "chunks": draws.whole(2, 16)}
        if place and draws.happens(0.5):
            member["release"] = f"{draws.whole(10, 2000)} us"
        if draws.happens(0.3):
            first = draws.whole(1, count - 1)
            member["dimensions"] = [f"dim{k}" for k in range(first, first + 2)]
        members.append(member)
    return {"network": {"dimensions": dimensions(draws, count)}, "collectives": members}


def _iteration(draws: Draws, number: int) -> Document:
    """Layers whose gradients are all-reduced beside the backward pass; experts swap tokens in every third instance."""
    layers, count = draws.whole(3, 10), 2 + number % 3
    pace = draws.log_uniform(50, 2000)
    forward = [max(1, round(pace * draws.log_uniform(0.3, 3))) for _ in range(layers)]
    tasks = [{"name": f"forward{n}", "duration": f"{time} us"} for n, time in enumerate(forward)]
    tasks += [{"name": f"backward{n}", "duration": f"{2 * forward[n]} us"} for n in reversed(range(layers))]
    tensors = [
        {
            "name": f"gradient{n}",
            "size": f"{2 * round(draws.log_uniform(2**18, 2**27))} B",
            "ready_after": f"backward{n}",
            "needed_before": f"forward{n}",
        }
        for n in reversed(range(layers))
    ]
    if number % 3 == 2:
        size = f"{2 * round(draws.log_uniform(2**18, 2**23))} B"
        tokens = {"name": "tokens", "kind": "all_to_all", "size": size, "ready_after": "forward0"}
        tensors.append(tokens | {"needed_before": "forward1", "parallelism": "model"})
    network = {"dimensions": dimensions(draws, count)}
    return {"network": network, "iteration": {"tasks": tasks, "tensors": tensors}, "chunks": draws.one((1, 2, 4, 8))}


def _graph(draws: Draws, number: int) -> Document:
    """Boxes around a switch, whose NPUs have NICs of unequal speeds; every other pair of boxes a direct link too."""
    boxes, npus = draws.whole(2, 4), draws.one((2, 4))
    nodes: list[Document] = []
    links: list[Document] = []
    inner = f"{draws.one((150, 300, 450))} GB/s"
    for box in range(boxes):
        nodes += [{"name": f"box{box}.npu{n}"} for n in range(npus)] + [{"name": f"box{box}.switch", "kind": "switch"}]
        links += [{"ends": [f"box{box}.npu{n}", f"box{box}.switch"], "bandwidth": inner} for n in range(npus)]
    nodes.append({"name": "spine", "kind": "switch"})
    for box in range(boxes):
        for n in range(npus):
            links.append({"ends": [f"box{box}.npu{n}", "spine"], "bandwidth": f"{draws.one((12.5, 25, 50))} GB/s"})
    if number % 2:
        direct = f"{draws.one((12.5, 25, 100))} GB/s"
        links += [
            {"ends": [f"box{b}.npu0", f"box{b + 1}.npu{npus - 1}"], "bandwidth": direct} for b in range(boxes - 1)
        ]
    latency = f"{draws.whole(300, 1500)} ns"
    kind = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")[number % 5]
    size = f"{2 * boxes * npus * round(draws.log_uniform(2**20, 2**27))} B"
    network = {"nodes": nodes, "links": [link | {"latency": latency} for link in links]}
    return {"network": network, "collectives": [{"kind": kind, "size": size}]}


PAPER = (
    (("switch", 16, 150, 700), ("switch", 64, 100, 1700)),
    (("fully_connected", 8, 175, 700), ("ring", 16, 100, 700), ("switch", 8, 50, 1700)),
    (("switch", 16, 200, 700), ("switch", 8, 100, 700), ("switch", 8, 50, 1700)),
    (("switch", 16, 100, 700), ("switch", 8, 100, 700), ("switch", 8, 100, 1700)),
    (("ring", 4, 375, 20), ("fully_connected", 8, 175, 700), ("ring", 4, 150, 700), ("switch", 8, 100, 1700)),
    (("ring", 4, 250, 20), ("switch", 4, 200, 700), ("switch", 8, 100, 700), ("switch", 8, 50, 1700)),
)
"""Networks of the Themis paper (ISCA 2022, table 2): kind, size, GiB/s, ns."""


def _paper(draws: Draws, number: int) -> Document:
    """Nothing is drawn: each network with 100 and 1000 MiB, in 8, 16 and 64 chunks."""
    case, place = divmod(number - 1, len(PAPER))
    fields = ("kind", "size", "bandwidth", "latency")
    rows = [(kind, size, f"{bandwidth} GiB/s", f"{latency} ns") for kind, size, bandwidth, latency in PAPER[place]]
    size, chunks = (100, 1000)[case % 2], (8, 16, 64)[case // 2]
    chosen = {"kind": "all_reduce", "size": f"{size} MiB", "chunks": chunks}
    return {"network": {"dimensions": [dict(zip(fields, row, strict=True)) for row in rows]}, "collectives": [chosen]}


FAMILIES: dict[str, tuple[int, Callable[[Draws, int], Document]]] = {
    "all_reduce": (60, _all_reduce),
    "equal": (30, _equal),
    "kinds": (35, _kinds),
    "costs": (30, _costs),
    "several": (20, _several),
    "iteration": (15, _iteration),
    "graph": (10, _graph),
    "paper": (36, _paper),
    "bulk": (54, _bulk),
}
"""How many instances there are of each family, and who draws them."""


def generate(seed: int = SEED) -> dict[str, Document]:
    """Every instance by name, such as ``costs-07``."""
    return {
        f"{family}-{number:02}": _document(f"{family}-{number:02}", draw, number, seed)
        for family, (count, draw) in FAMILIES.items()
        for number in range(1, count + 1)
    }


def _document(name: str, draw: Callable[[Draws, int], Document], number: int, seed: int) -> Document:
    rules = {"equal": "Chunks are equal.", "paper": "Chunks are equal, or have any sizes."}
    rule = rules.get(name.rpartition("-")[0], "Chunks have any sizes.")
    head = {"format": "themis-opt/instance/1", "name": name}
    origin = f"{rule} Version {VERSION} of instances/library/generate.py, seed {seed}."
    return head | {"description": origin} | draw(Draws(name, seed), number)


def text_of(document: Document) -> str:
    """The text of a file: one line for each dimension, collective, task, tensor, node or link."""
    text = json.dumps(document)
    for field in ("dimensions", "collectives", "tasks", "tensors", "nodes", "links"):
        text = text.replace(f'"{field}": [{{', f'"{field}": [\n  {{')
    return text.replace("}, {", "},\n  {") + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "instances"
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in generate().items():
        (folder / f"{name}.json").write_text(text_of(document), encoding="utf-8")
