"""Check schedules and lower bounds of the library: one file, standard library alone, whole numbers and fractions.

``python check.py`` checks every row of ``index.json``; ``python check.py INSTANCE SOLUTION [CERTIFICATE]`` checks other
files, equal chunks with ``--equal``.  It is written from the mathematics of ``docs/model.md`` and shares no code with
themis_opt, so that an error in one of them shows.  ``README.md`` beside it describes the files.
"""

import argparse
import gzip
import hashlib
import json
import math
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

PICOSECONDS = 10**12
LARGEST_FILE = 2**28
UNLIMITED = Fraction(10**30)  # picoseconds that no schedule takes: of a case that cannot be
PHASES = {
    "all_reduce": ("reduce_scatter", "all_gather"),
    "reduce_scatter": ("reduce_scatter",),
    "all_gather": ("all_gather",),
    "all_to_all": ("all_to_all",),
    "broadcast": ("scatter", "all_gather"),
    "reduce": ("reduce_scatter", "gather"),
    "send": ("send",),
}
LABELS = {
    "reduce_scatter": "rs",
    "scatter": "sc",
    "all_gather": "ag",
    "gather": "ga",
    "all_to_all": "a2a",
    "send": "p2p",
}
SHRINKING, GROWING = ("reduce_scatter", "scatter"), ("all_gather", "gather")
IN_NETWORK = ("reduce_scatter", "all_gather")
KINDS = {  # and the algorithms of each, of which the first is usual
    "ring": ("ring", "direct", "halving_doubling", "adasum"),
    "fully_connected": ("direct", "ring", "halving_doubling", "adasum"),
    "switch": ("halving_doubling", "direct", "ring", "adasum"),
    "line": ("line",),
    "mesh2d": ("mesh2d",),
}
LARGEST = 10**30  # of numbers in files
QUANTITY = re.compile(r"\s*([-+]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][-+]?[0-9]{1,2})?)\s*([A-Za-zµ/]*)\s*")
TIMES = {"s": 10**12, "ms": 10**9, "us": 10**6, "µs": 10**6, "ns": 10**3, "ps": 1}
DECIMAL, BINARY = ("", "k", "M", "G", "T"), ("", "Ki", "Mi", "Gi", "Ti")
SIZES: dict[str, Fraction | int] = {f"{p}B": 1000**n for n, p in enumerate(DECIMAL)} | {
    f"{p}B": 1024**n for n, p in enumerate(BINARY)
}
SIZES |= {f"{p}b": Fraction(1000**n, 8) for n, p in enumerate(DECIMAL)}
SIZES |= {f"{p}b": Fraction(1024**n, 8) for n, p in enumerate(BINARY)}
SIZES |= {"KB": 1000, "Kb": Fraction(1000, 8), "kiB": 1024, "kib": 128}
SPEEDS = {f"{unit}/s": size for unit, size in SIZES.items()}


class Refused(Exception):
    """Something that is against a rule, in words."""


def require(holds: bool, what: str) -> None:
    """Refuse unless something holds."""
    if not holds:
        raise Refused(what)


def quantity(value: Any, units: Mapping[str, Fraction | int], plain: int = 1) -> Fraction:
    """A number with its unit; plain numbers are in the SI unit, which is `plain` of ours."""
    if not isinstance(value, str):
        number(value)
        return Fraction(value) * plain
    match = QUANTITY.fullmatch(value)
    known = match is not None and (not match[2] or match[2] in units)
    require(known, f": must be a number with a unit, not {shown(value)}")
    assert match is not None
    return Fraction(match[1]) * (units[match[2]] if match[2] else plain)


def picoseconds(value: Any) -> int:
    """A time, rounded."""
    return round(quantity(value, TIMES, PICOSECONDS))


def bytes_of(value: Any) -> int:
    """A size."""
    size = quantity(value, SIZES)
    require(size.denominator == 1, f": must be a whole number of bytes, not {shown(value)}")
    return int(size)


def bandwidth_of(value: Any) -> Fraction:
    """Bytes per second."""
    return quantity(value, SPEEDS)


# ---------------------------------------------------------------- fields

Shape = Callable[[Any], None]  # refuses a value; containers put the place in front of the words


def shown(value: Any) -> str:
    """A value in a sentence: short, and without anything that a terminal obeys."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def number(value: Any) -> None:
    """A whole number, a fraction or a decimal, which is finite; true and false are none."""
    is_number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    require(is_number and abs(value) < LARGEST, f": must be a number, not {shown(value)}")


def whole(least: int = 0, most: int = LARGEST) -> Shape:
    """A whole number in a range."""

    def shape(value: Any) -> None:
        fits = type(value) is int and least <= value <= most
        limits = f"{least} or more" if most == LARGEST else f"from {least} to {most}"
        require(fits, "" if fits else f": must be a whole number, {limits}, not {shown(value)}")

    return shape


def measure(read: Callable[[Any], Fraction | int], least: int = 0) -> Shape:
    """A time, size or bandwidth."""

    def shape(value: Any) -> None:
        require(least <= read(value) <= LARGEST, f": must be {least} or more, not {shown(value)}")

    return shape


def text(value: Any) -> None:
    """Words that nothing depends on."""
    require(isinstance(value, str), f": must be a text, not {shown(value)}")


def name(value: Any) -> None:
    """A name, which can be printed."""
    fits = isinstance(value, str) and value.isprintable() and 0 < len(value) <= 1000
    require(fits, "" if fits else f": must be a name, not {shown(value)}")


def flag(value: Any) -> None:
    """True or false."""
    require(isinstance(value, bool), f": must be true or false, not {shown(value)}")


def one_of(*choices: str) -> Shape:
    """One of some words."""

    def shape(value: Any) -> None:
        fits = isinstance(value, str) and value in choices
        require(fits, "" if fits else f": must be one of {', '.join(choices)}, not {shown(value)}")

    return shape


def null_or(shape: Shape) -> Shape:
    """A value that may be null."""
    return lambda value: None if value is None else shape(value)


def many(shape: Shape, least: int = 0, most: int = LARGEST) -> Shape:
    """A list."""

    def of_all(value: Any) -> None:
        require(isinstance(value, list | tuple), f": must be a list, not {shown(value)[:20]}")
        require(least <= len(value) <= most, f": has {len(value)} entries")
        for place, entry in enumerate(value):
            try:
                shape(entry)
            except Refused as error:
                raise Refused(f"[{place}]{error}") from None

    return of_all


def row_of(*shapes: Shape) -> Shape:
    """A list of one entry for each shape."""

    def of_all(value: Any) -> None:
        many(lambda _: None, len(shapes), len(shapes))(value)
        for shape, entry in zip(shapes, value, strict=True):
            shape(entry)

    return of_all


def fields(needed: Mapping[str, Shape], others: Mapping[str, Shape] | None = None) -> Shape:
    """An object with all of some fields, perhaps others, and no further ones."""
    shapes = {**needed, **(others or {})}

    def of_all(value: Any) -> None:
        require(isinstance(value, dict), f": must be an object, not {shown(value)[:20]}")
        missing = next((key for key in needed if key not in value), None)
        require(missing is None, f".{missing}: is missing")
        for key, entry in value.items():
            require(key in shapes, f": has no field {shown(key)}, or it is not checked")
            try:
                shapes[key](entry)
            except Refused as error:
                raise Refused(f".{key}{error}") from None

    return of_all


def check_fields(what: str, shape: Shape, document: Any) -> None:
    """Refuse a document whose fields are not those of its kind."""
    try:
        shape(document)
    except Refused as error:
        raise Refused(f"{what}{error}") from None


def differ(names: Iterable[str], what: str) -> None:
    """Refuse a name that stands twice."""
    seen: set[str] = set()
    for each in names:
        require(each not in seen, f"{what} {each} stands twice")
        seen.add(each)


def place_of(names: Sequence[str], chosen: str, what: str) -> int:
    """The number of a name."""
    require(chosen in names, f"there is no {what} {chosen}")
    return names.index(chosen)


HEAD = {"name": text, "fingerprint": text, "description": text}
TIME, SIZE, SPEED = measure(picoseconds), measure(bytes_of, 1), measure(bandwidth_of)
_COLLECTIVE = fields(
    {"kind": one_of(*PHASES), "size": SIZE},
    {
        "name": text,
        "chunks": whole(1, 10**6),
        "dimensions": null_or(many(name, 1)),
        "release": TIME,
        "element_bytes": whole(1),
    },
)
_PRODUCT = {
    "dimensions": many(
        fields(
            {"kind": one_of(*KINDS), "size": whole(2, 2**40), "bandwidth": SPEED},
            {
                "name": text,
                "source": text,
                "latency": TIME,
                "launch_overhead": TIME,
                "algorithm": null_or(one_of("ring", "direct", "halving_doubling", "adasum", "line", "mesh2d")),
                "in_network": flag,
                "packet": null_or(fields({"payload": SIZE, "header": measure(bytes_of)})),
                "compression": number,
                "reduction": null_or(SPEED),
                "shares": null_or(name),
            },
        ),
        1,
        12,
    )
}
_ITERATION = fields(
    {
        "tasks": many(fields({"name": name, "duration": TIME}, {"parameter_bytes": TIME, "activation_bytes": TIME}), 1),
        "tensors": many(
            fields(
                {"name": name, "size": SIZE, "ready_after": name, "needed_before": name},
                {
                    "kind": one_of(*PHASES),
                    "needed_in": null_or(one_of("this", "next")),
                    "dimensions": null_or(many(name, 1)),
                    "parallelism": one_of("data", "model"),
                    "element_bytes": whole(1),
                },
            ),
            1,
        ),
    },
    {"launching": text},
)
_OF_INSTANCE = {"format": one_of("themis-opt/instance/1"), "name": text, "description": text}
_RULES = {"latency": one_of("lag", "occupy"), "ag_order": one_of("free", "reverse")}
PROBLEM = fields(
    {"network": fields(_PRODUCT, {"name": text, "source": text, "reduction": null_or(SPEED)})},
    {**_OF_INSTANCE, **_RULES, "collectives": many(_COLLECTIVE), "iteration": _ITERATION, "chunks": whole(1, 10**6)},
)
GRAPH = fields(
    {
        "network": fields(
            {
                "nodes": many(
                    fields({"name": name}, {"kind": one_of("npu", "switch"), "sums": flag, "multicasts": flag}), 2
                ),
                "links": many(
                    fields(
                        {"ends": row_of(name, name), "bandwidth": SPEED},
                        {"back": null_or(SPEED), "latency": TIME, "name": text},
                    ),
                    1,
                ),
            },
            {"name": text, "source": text},
        ),
        "collectives": many(_COLLECTIVE, 1, 1),
    },
    _OF_INSTANCE,
)
_TASK = null_or(fields({"task": name, "later": whole()}))
TABLE = fields(
    {
        "collectives": many(
            fields(
                {
                    "name": name,
                    "kind": one_of(*PHASES),
                    "bytes": whole(1),
                    "chunks": many(
                        fields(
                            {"index": whole(), "bytes": whole(1)},
                            {f"{label}_order": many(name, 1) for label in LABELS.values()},
                        ),
                        1,
                    ),
                },
                {
                    "part": one_of("whole", "scatter", "gather"),
                    "tensors": many(name, 1),
                    "after": _TASK,
                    "before": _TASK,
                    "after_launches": many(name),
                },
            ),
            1,
        ),
        "dimensions": many(
            fields(
                {
                    "name": name,
                    "issue_order": many(
                        fields(
                            {"collective": name, "chunk": whole(), "phase": one_of(*LABELS)},
                            {"dimension": name, "shift": whole()},
                        )
                    ),
                },
                {"size": whole(2)},
            ),
            1,
        ),
    },
    HEAD | {"format": one_of("themis-opt/order-table/1")},
)
GRAPH_TABLE = fields(
    {
        "chunks": whole(1, 10**6),
        "pieces": many(fields({"elements": whole(1), "source": null_or(name), "target": null_or(name)}), 1),
        "transfers": many(
            fields({"piece": whole(), "route": many(name, 2), "adds": flag, "after": many(whole())}),
            1,
        ),
        "links": many(fields({"ends": row_of(name, name), "order": many(row_of(whole(), whole()))}), 1),
    },
    HEAD | {"format": one_of("themis-opt/graph-order/1")},
)
_WINDOW = fields({"resource": name, "head": whole(), "tail": whole(), "weight": whole(1)})
_ARC = fields({"collective": name, "phase": one_of(*LABELS), "visited": many(name), "next": name})


def _tree_node(node: Any) -> None:
    """An inner node of a tree, or a leaf."""
    is_inner = isinstance(node, dict) and "arc" in node
    (_INNER if is_inner else _LEAF)(node)


_INNER = fields({"arc": whole(), "most": whole(), "fewer": _tree_node, "more": _tree_node})
_LEAF = fields({"windows": many(_WINDOW)}, {"prices": many(row_of(whole(), whole(-LARGEST)))})
_TRUSTED = {"picoseconds": whole(), "solver": name}
_OF_BOUNDS: dict[str, tuple[dict[str, Shape], dict[str, Shape]]] = {
    "cut": (
        {"inside": many(name), "side": one_of("sent", "received", "one group")},
        {"collectives": null_or(many(name, 1))},
    ),
    "chain": ({}, {}),
    "windows": ({"windows": many(_WINDOW, 1)}, {}),
    "counts": ({"windows": many(_WINDOW, 1), "few": many(whole(), 1)}, {}),
    "tree": ({"arcs": many(_ARC), "tree": _tree_node}, {}),
    "load": ({"windows": many(_WINDOW, 1)}, {}),
    "path": (
        {"spans": many(fields({"after": name, "before": name, "bounds": many(many(_WINDOW, 1))}))},
        {},
    ),
    "trusted": (_TRUSTED, {}),
}
_OF_GRAPH_BOUNDS: dict[str, tuple[dict[str, Shape], dict[str, Shape]]] = {
    "cut": ({"nodes": many(name, 1), "into": flag}, {}),
    "lengths": ({"lengths": many(row_of(name, name, whole()), 1)}, {}),
    "trusted": (_TRUSTED, {}),
}


def _certificate(kinds: Mapping[str, tuple[dict[str, Shape], dict[str, Shape]]]) -> Shape:
    """A list of bounds of some kinds."""
    kind_of = one_of(*kinds)

    def bound(part: Any) -> None:
        others = part.keys() - {"kind"} if isinstance(part, dict) else ()
        fields({"kind": kind_of}, dict.fromkeys(others, lambda _: None))(part)
        needed, allowed = kinds[part["kind"]]
        fields({"kind": kind_of, **needed}, allowed)(part)

    return fields({"bounds": many(bound, 1)}, HEAD | {"format": one_of("themis-opt/bounds/1")})


CERTIFICATE, GRAPH_CERTIFICATE = _certificate(_OF_BOUNDS), _certificate(_OF_GRAPH_BOUNDS)


# ---------------------------------------------------------------- the instance


class Dimension(NamedTuple):
    """A dimension; `reduction` and `payload` are None where sums and packets cost nothing."""

    name: str
    kind: str
    algorithm: str
    size: int
    bandwidth: Fraction
    latency: int
    in_network: bool
    shares: str | None
    payload: int | None
    header: int
    launch: int
    compression: Fraction
    reduction: Fraction | None


class Exchange(NamedTuple):
    """A collective or a tensor; `ready` and `needed` number tasks, and `later` is 1 if that of the next iteration."""

    name: str
    kind: str
    size: int
    chunks: int
    span: tuple[int, ...]
    element: int
    release: int
    ready: int = -1
    needed: int = -1
    later: int = 0


Arc = tuple[int, int]  # mask of the dimensions visited in the phase, and the next one
Key = tuple[int, int, Arc]  # number of a collective, number of its phase, and an arc


@dataclass(frozen=True)
class Problem:
    """An instance on dimensions."""

    dimensions: tuple[Dimension, ...]
    exchanges: tuple[Exchange, ...]
    durations: tuple[int, ...]  # of compute tasks
    task_names: tuple[str, ...]
    occupies: bool
    mirrored: bool

    @cached_property
    def links(self) -> list[int]:
        """Per dimension the first of those that hold the same link."""
        names = [dimension.name for dimension in self.dimensions]
        links = list(range(len(names)))
        for k, dimension in enumerate(self.dimensions):
            if dimension.shares is not None:
                both = {links[k], links[place_of(names, dimension.shares, "dimension")]}
                links = [min(both) if link in both else link for link in links]
        return links

    @cached_property
    def two_ports(self) -> dict[int, int]:
        """Links with a port in either direction, and the size of the smallest dimension there."""
        ports = {}
        for link in sorted(set(self.links)):
            members = [k for k in range(len(self.links)) if self.links[k] == link]
            phases = {p for e in self.exchanges for p in PHASES[e.kind] if set(members) & set(e.span)}
            if all(self.dimensions[k].in_network for k in members) and phases == set(IN_NETWORK):
                ports[link] = min(self.dimensions[k].size for k in members)
        return ports

    def resource(self, phase: str, k: int) -> str:
        """What a stage holds, by the name that order tables give it."""
        link = self.links[k]
        name = "+".join(d.name for d, other in zip(self.dimensions, self.links, strict=True) if other == link)
        return name if link not in self.two_ports else f"{name} {'in' if phase in GROWING else 'out'}"

    def lag(self, phase: str, k: int) -> int:
        """Picoseconds from the end of a stage to its result."""
        return 0 if self.occupies else steps(self.dimensions[k], phase) * self.dimensions[k].latency

    def fixed(self, phase: str, k: int) -> int:
        """Picoseconds for which a stage holds its dimension whatever it sends."""
        dimension = self.dimensions[k]
        return dimension.launch + (steps(dimension, phase) * dimension.latency if self.occupies else 0)

    def variable(self, phase: str, k: int, size: int, spread: int, *, whole_packets: bool) -> Fraction:
        """Picoseconds for which a chunk holds a dimension to send, with headers, and to sum."""
        dimension = self.dimensions[k]
        sums = phase in IN_NETWORK and dimension.in_network
        blocks = Fraction(blocks_sent(dimension, phase))
        if sums and self.links[k] in self.two_ports:
            blocks = dimension.size * (1 + Fraction(1, self.two_ports[self.links[k]]))
        sent = size * blocks / (dimension.compression * spread)
        if dimension.payload is not None:
            packets = sent / dimension.payload
            sent += (math.ceil(packets) if whole_packets else packets) * dimension.header
        time = sent / dimension.bandwidth
        if phase == "reduce_scatter" and dimension.reduction is not None and not sums:
            inside = dimension.kind == "line" and dimension.size > 2
            added = dimension.size + 1 if inside else dimension.size - 1
            require(dimension.kind != "mesh2d", "sums on a mesh2d are not checked")
            time += Fraction(size * added, spread) / dimension.reduction
        return time * PICOSECONDS

    def spread(self, phase: str, k: int, visited: int, span: tuple[int, ...]) -> int:
        """NPUs over which a chunk is scattered on the scattered side of a stage, after `visited` in its phase."""
        size = self.dimensions[k].size
        if phase in SHRINKING:
            return size * math.prod(self.dimensions[j].size for j in span if visited >> j & 1)
        if phase in GROWING:
            return math.prod(self.dimensions[j].size for j in span if not visited >> j & 1)
        return size

    def occupancy(self, phase: str, k: int, size: int, visited: int, span: tuple[int, ...]) -> int:
        """Whole picoseconds for which a stage holds its dimension."""
        spread = self.spread(phase, k, visited, span)
        return math.ceil(self.variable(phase, k, size, spread, whole_packets=True)) + self.fixed(phase, k)


def steps(dimension: Dimension, phase: str) -> int:
    """Steps of one stage."""
    size, algorithm = dimension.size, dimension.algorithm
    if phase == "send" or (dimension.in_network and phase in IN_NETWORK):
        return 1
    if algorithm in ("ring", "line", "mesh2d"):
        if dimension.kind == "ring" and phase == "all_to_all":
            return size // 2
        return sum(grid(size)) - 2 if algorithm == "mesh2d" else size - 1
    if phase == "all_to_all":
        return size // 2 if dimension.kind == "ring" else 1
    levels = (size - 1).bit_length()
    if algorithm == "direct":
        return 1
    return levels + (levels * (levels + 1) // 2 if algorithm == "adasum" and phase == "reduce_scatter" else 0)


def blocks_sent(dimension: Dimension, phase: str) -> int:
    """Blocks of 1/P of the larger side of a stage that count."""
    size, kind = dimension.size, dimension.kind
    if dimension.in_network and phase in IN_NETWORK:
        return size if phase == "reduce_scatter" else size - 1
    if phase == "send":
        return size * {"ring": min(2, size - 1), "mesh2d": 2}.get(kind, 1)
    if phase == "all_to_all" and kind == "mesh2d":
        rows, columns = grid(size)
        return 2 * max(rows * (columns**2 // 4), columns * (rows**2 // 4))
    if phase == "all_to_all" and kind in ("ring", "line"):
        return size**2 // 4
    if kind == "ring" and phase in IN_NETWORK and dimension.algorithm != "ring":
        if dimension.algorithm == "direct":
            return size**2 // 4
        if size & (size - 1) == 0:
            return 3 * size**2 // 8 if size >= 4 else 1
        return sum(min(2**s, size - 2**s) ** 2 for s in range((size - 1).bit_length()))
    return size - 1


def grid(size: int) -> tuple[int, int]:
    """Rows and columns of a mesh2d."""
    rows = max(rows for rows in range(1, math.isqrt(size) + 1) if size % rows == 0)
    return rows, size // rows


def read_problem(document: dict[str, Any]) -> Problem:
    """The instance of a document."""
    check_fields("instance", PROBLEM, document)
    network, iteration = document["network"], document.get("iteration")
    alone = iteration is None
    require(alone == bool(document.get("collectives")), "an instance has either collectives or an iteration")
    require(not alone or "chunks" not in document, "collectives state their chunks themselves")
    dimensions = tuple(_dimension(part, k, network) for k, part in enumerate(network["dimensions"]))
    names = [dimension.name for dimension in dimensions]
    differ(names, "dimension")
    require(math.prod(dimension.size for dimension in dimensions) <= 2**40, "there are more than 2^40 NPUs")

    def span(part: dict[str, Any]) -> tuple[int, ...]:
        chosen = part.get("dimensions")
        if chosen is None:
            return tuple(range(len(names)))
        differ(chosen, "dimension")
        return tuple(sorted(place_of(names, name, "dimension") for name in chosen))

    if iteration is None:
        exchanges = tuple(
            Exchange(
                part.get("name") or f"{part['kind']}{number}",
                part["kind"],
                bytes_of(part["size"]),
                part.get("chunks", 64),
                span(part),
                part.get("element_bytes", 2),
                picoseconds(part.get("release", 0)),
            )
            for number, part in enumerate(document["collectives"], start=1)
        )
        tasks: list[str] = []
    else:
        tasks = [task["name"] for task in iteration["tasks"]]
        differ(tasks, "task")
        exchanges = tuple(_tensor(part, span(part), tasks, document.get("chunks", 64)) for part in iteration["tensors"])
    differ((exchange.name for exchange in exchanges), "collective")
    for exchange in exchanges:
        elements, rest = divmod(exchange.size, exchange.element)
        require(not rest, f"the size of {exchange.name} is no whole number of elements")
        require(not alone or exchange.chunks <= elements, f"{exchange.name} has more chunks than elements")
    return Problem(
        dimensions,
        exchanges,
        tuple(picoseconds(task["duration"]) for task in iteration["tasks"]) if iteration else (),
        tuple(tasks),
        document.get("latency", "lag") == "occupy",
        document.get("ag_order", "free") == "reverse",
    )


def _dimension(part: dict[str, Any], k: int, network: dict[str, Any]) -> Dimension:
    packet, reduction = part.get("packet") or {}, part.get("reduction", network.get("reduction"))
    name, kind, size = part.get("name") or f"dim{k + 1}", part["kind"], part["size"]
    algorithm = part.get("algorithm") or KINDS[kind][0]
    require(name.isprintable(), f"dimension {k + 1} has a name that cannot be printed")
    require(algorithm in KINDS[kind], f"a {kind} cannot run {algorithm}")
    is_pair = size & (size - 1) == 0 and not part.get("in_network")
    require(algorithm != "adasum" or is_pair, f"adasum on {name} needs a power of two, and no switch that sums")
    require(len(KINDS[kind]) > 1 or not part.get("in_network"), f"a {kind} has no switch that sums")
    require(kind != "mesh2d" or grid(size)[0] > 1, f"{size} NPUs of {name} make no grid")
    require(part.get("compression", 1) >= 1, f"compression of {name} must be 1 or more")
    require(bandwidth_of(part["bandwidth"]) > 0, f"{name} has no bandwidth")
    require(reduction is None or bandwidth_of(reduction) > 0, f"{name} cannot sum")
    return Dimension(
        name,
        kind,
        algorithm,
        size,
        bandwidth_of(part["bandwidth"]),
        picoseconds(part.get("latency", 0)),
        part.get("in_network", False),
        part.get("shares"),
        bytes_of(packet["payload"]) if packet else None,
        bytes_of(packet["header"]) if packet else 0,
        picoseconds(part.get("launch_overhead", 0)),
        Fraction(part.get("compression", 1)),
        None if reduction is None else bandwidth_of(reduction),
    )


def _tensor(part: dict[str, Any], span: tuple[int, ...], tasks: list[str], chunks: int) -> Exchange:
    ready, needed = (place_of(tasks, part[field], "task") for field in ("ready_after", "needed_before"))
    later = int(part.get("needed_in") == "next" or needed <= ready)
    element, size = part.get("element_bytes", 2), bytes_of(part["size"])
    kind = part.get("kind", "all_reduce")
    return Exchange(part["name"], kind, size, chunks, span, element, 0, ready, needed, later)


# ---------------------------------------------------------------- schedules


class Stage(NamedTuple):
    """A visit of a chunk: what it holds and for how long, and how long its result is under way."""

    dimension: str
    resource: str
    occupancy: int
    lag: int

    @property
    def passage(self) -> int:
        """Picoseconds from its start to its result."""
        return self.occupancy + self.lag


class Arrow(NamedTuple):
    """Node `head` starts `delay` after node `tail` did, `height` iterations before."""

    tail: int
    head: int
    delay: int
    height: int


@dataclass
class Launched:
    """A collective operation of an order table: its exchange, and the numbers of the stages of each chunk."""

    exchange: Exchange
    part: dict[str, Any]
    chunks: list[range]


def makespan(problem: Problem, table: dict[str, Any], *, equal: bool = False) -> int:
    """Picoseconds that a schedule takes, or one iteration of it; refuses a table that breaks a rule."""
    check_fields("solution", TABLE, table)
    differ((part["name"] for part in table["collectives"]), "collective")
    differ((row["name"] for row in table["dimensions"]), "dimension")
    stages: list[Stage] = []
    launched = [_launched(problem, part, stages, equal=equal) for part in table["collectives"]]
    _check_carried(problem, launched)
    first = len(problem.durations)
    arrows = [
        Arrow(first + tail, first + tail + 1, stages[tail].occupancy + stages[tail].lag, 0)
        for operation in launched
        for chunk in operation.chunks
        for tail in chunk[:-1]
    ]
    arrows += _turns(problem, table, launched, stages)
    if not problem.durations:
        releases = [operation.exchange.release for operation in launched for chunk in operation.chunks for _ in chunk]
        start = longest_paths(releases, arrows)
        return max(begin + stage.occupancy + stage.lag for begin, stage in zip(start, stages, strict=True))
    arrows += _waits(problem, launched, stages)
    return math.ceil(largest_cycle_ratio(first + len(stages), arrows))


def _launched(problem: Problem, part: dict[str, Any], stages: list[Stage], *, equal: bool) -> Launched:
    """The stages of a collective of the table, which are added to those there are."""
    exchange = _carried(problem, part)
    require(part["kind"] == exchange.kind and part["bytes"] == exchange.size, f"{part['name']} is another collective")
    sizes = [chunk["bytes"] for chunk in part["chunks"]]
    most = min(exchange.chunks, exchange.size // exchange.element)
    require(len(sizes) <= most, f"{part['name']} is cut in {len(sizes)} chunks, at most {most} are allowed")
    require(sum(sizes) == exchange.size, f"the chunks of {part['name']} are not all of its bytes")
    require(all(s > 0 and s % exchange.element == 0 for s in sizes), f"{part['name']} is cut inside elements")
    if equal:
        even = max(sizes) - min(sizes) <= exchange.element and len(sizes) == most
        require(even, f"the chunks of {part['name']} are not equal")
    names = {dimension.name: k for k, dimension in enumerate(problem.dimensions)}
    chunks = []
    orders = [f"{LABELS[phase]}_order" for phase in PHASES[exchange.kind]]
    for chunk in part["chunks"]:
        where = f"chunk {chunk['index']} of {part['name']}"
        require(chunk.keys() == {"index", "bytes", *orders}, f"{where} must have {' and '.join(orders)}")
        paths = [[names.get(name, -1) for name in chunk[order]] for order in orders]
        require(all(tuple(sorted(path)) == exchange.span for path in paths), f"{where} visits other dimensions")
        if problem.mirrored and len(paths) == 2:
            require(paths[0] == paths[1][::-1], f"{where} does not gather in the reverse of its scatter order")
        begin = len(stages)
        for phase, path in zip(PHASES[exchange.kind], paths, strict=True):
            visited = 0
            for k in path:
                held = problem.occupancy(phase, k, chunk["bytes"], visited, exchange.span)
                name = problem.dimensions[k].name
                stages.append(Stage(name, problem.resource(phase, k), held, problem.lag(phase, k)))
                visited |= 1 << k
        chunks.append(range(begin, len(stages)))
    require([chunk["index"] for chunk in part["chunks"]] == list(range(len(chunks))), "chunks are out of order")
    return Launched(exchange, part, chunks)


def _carried(problem: Problem, part: dict[str, Any]) -> Exchange:
    """The collective, or what an operation beside compute has to do for its tensors together."""
    of_launches = part.keys() & {"part", "tensors", "after", "before", "after_launches"}
    beside = bool(problem.durations)
    require(beside or not of_launches, f"{part['name']} has {', '.join(sorted(of_launches))} without compute")
    require(not beside or "tensors" in part, f"{part['name']} names no tensors")
    names = [exchange.name for exchange in problem.exchanges]
    carried = part.get("tensors", [part["name"]])
    members = [problem.exchanges[place_of(names, name, "collective")] for name in carried]
    one, halves = members[0], {"scatter": "reduce_scatter", "gather": "all_gather"}
    alike = all((e.kind, e.span, e.element) == (one.kind, one.span, one.element) for e in members)
    require(alike, f"{part['name']} fuses tensors of different kinds, dimensions or elements")
    half = part.get("part", "whole")
    require(half == "whole" or one.kind == "all_reduce", f"{part['name']} is half of a {one.kind}")
    return one._replace(kind=halves.get(half, one.kind), size=sum(member.size for member in members))


def _check_carried(problem: Problem, launched: list[Launched]) -> None:
    """Every exchange is carried once, whole or in both halves; halves have the same tensors."""
    halves = {"whole": 2, "scatter": 1, "gather": -1}
    carried: dict[str, list[int]] = {exchange.name: [] for exchange in problem.exchanges}
    for operation in launched:
        for name in operation.part.get("tensors", [operation.part["name"]]):
            carried[name].append(halves[operation.part.get("part", "whole")])
    for name, parts in carried.items():
        require(sorted(parts) in ([2], [-1, 1]), f"{name} is not carried once")
    require(not problem.mirrored or all(parts == [2] for parts in carried.values()), "mirrored halves are not checked")


def _turns(problem: Problem, table: dict[str, Any], launched: list[Launched], stages: list[Stage]) -> list[Arrow]:
    """Stages of one resource one after the other, in the order of the table; with compute also in the next period."""
    members = {problem.resource(phase, k): problem.links[k] for phase in LABELS for k in range(len(problem.dimensions))}
    places = {operation.part["name"]: operation for operation in launched}
    waiting: dict[tuple[str, int, str, str], deque[int]] = {}
    for operation in launched:
        width = len(operation.exchange.span)
        for number, chunk in enumerate(operation.chunks):
            for position, stage in enumerate(chunk):
                phase = PHASES[operation.exchange.kind][position // width]
                key = (operation.part["name"], number, phase, stages[stage].resource)
                waiting.setdefault(key, deque()).append(stage)
    arrows, served, first = [], 0, len(problem.durations)
    for row in table["dimensions"]:
        turns = []
        require(row["name"] in members, f"there is no dimension {row['name']}")
        behind = [d for d, link in zip(problem.dimensions, problem.links, strict=True) if link == members[row["name"]]]
        size = math.prod(dimension.size for dimension in behind)
        require(row.get("size", size) == size, f"{row['name']} has {size} NPUs")
        for issue in row["issue_order"]:
            require(bool(problem.durations) or not issue.get("shift"), "shifts are for iterations")
            require(issue["collective"] in places, f"there is no {issue['collective']}")
            key = (issue["collective"], issue["chunk"], issue["phase"], row["name"])
            require(bool(waiting.get(key)), f"{row['name']} serves {key[:3]} once too often")
            turns.append((waiting[key].popleft(), issue.get("shift", 0)))
            dimension = stages[turns[-1][0]].dimension
            require(issue.get("dimension", dimension) == dimension, f"{key[:3]} is on {dimension}")
        served += len(turns)
        for (one, shift), (other, next_shift) in pairwise(turns):
            arrows.append(Arrow(first + one, first + other, stages[one].occupancy, shift - next_shift))
        if problem.durations and turns:
            (begin, next_shift), (end, shift) = turns[0], turns[-1]
            arrows.append(Arrow(first + end, first + begin, stages[end].occupancy, 1 + shift - next_shift))
    require(served == len(stages), f"{len(stages) - served} stages are never served")
    return arrows


def longest_paths(releases: list[int], arrows: list[Arrow]) -> list[int]:
    """The earliest start of every node of a graph without cycles."""
    start, waits = list(releases), [0] * len(releases)
    after: list[list[Arrow]] = [[] for _ in releases]
    for arrow in arrows:
        after[arrow.tail].append(arrow)
        waits[arrow.head] += 1
    ready, done = [node for node, count in enumerate(waits) if not count], 0
    while ready:
        done, node = done + 1, ready.pop()
        for arrow in after[node]:
            start[arrow.head] = max(start[arrow.head], start[node] + arrow.delay)
            waits[arrow.head] -= 1
            if not waits[arrow.head]:
                ready.append(arrow.head)
    require(done == len(releases), "stages wait for each other")
    return start


def _waits(problem: Problem, launched: list[Launched], stages: list[Stage]) -> list[Arrow]:
    """Tasks in turn, data that are made before they leave, and tasks that wait for what they need."""
    count, first = len(problem.durations), len(problem.durations)
    arrows = [Arrow(n, (n + 1) % count, time, int(n + 1 == count)) for n, time in enumerate(problem.durations)]
    by_name = {exchange.name: exchange for exchange in problem.exchanges}
    operations = {operation.part["name"]: operation for operation in launched}
    scatters = {tuple(o.part["tensors"]): o for o in launched if o.part.get("part") == "scatter"}
    for operation in launched:
        part, members = operation.part, [by_name[name] for name in operation.part["tensors"]]
        after = {(member.ready, 0) for member in members}
        before = {(m.needed, m.later) for m in members if part.get("part") != "scatter"}
        for field, tasks in (("after", after), ("before", before)):
            if part.get(field):
                tasks.add((place_of(problem.task_names, part[field]["task"], "task"), part[field]["later"]))
        names = part.get("after_launches", ())
        require(all(name in operations for name in names), f"{part['name']} waits for a collective that is not there")
        earlier = [operations[name] for name in names]
        if part.get("part") == "gather":
            require(tuple(part["tensors"]) in scatters, f"{part['name']} gathers what was not scattered")
            earlier.append(scatters[tuple(part["tensors"])])
        starts = [first + chunk[0] for chunk in operation.chunks]
        ends = [(first + chunk[-1], stages[chunk[-1]].passage) for chunk in operation.chunks]
        arrows += [Arrow(task, s, problem.durations[task], -later) for task, later in after for s in starts]
        arrows += [Arrow(end, task, time, later) for task, later in before for end, time in ends]
        for other in earlier:
            last = [chunk[-1] for chunk in other.chunks]
            arrows += [Arrow(first + end, s, stages[end].passage, 0) for end in last for s in starts]
    return arrows


def largest_cycle_ratio(nodes: int, arrows: list[Arrow]) -> Fraction:
    """The shortest period of a schedule that repeats itself: the largest ratio of delay to height of a cycle."""
    period = Fraction(0)
    while True:
        cycle = _positive_cycle(nodes, arrows, period)
        if cycle is None:
            return period
        height, delay = sum(arrow.height for arrow in cycle), sum(arrow.delay for arrow in cycle)
        require(height > 0, "stages and tasks wait for each other")
        period = Fraction(delay, height)


def _positive_cycle(nodes: int, arrows: list[Arrow], period: Fraction) -> list[Arrow] | None:
    """A cycle that takes longer than its height times a period, if there is one: Bellman and Ford."""
    weights = [arrow.delay * period.denominator - arrow.height * period.numerator for arrow in arrows]
    start, cause = [0] * nodes, [-1] * nodes
    for _ in range(nodes + 1):
        changed = -1
        for number, arrow in enumerate(arrows):
            if start[arrow.tail] + weights[number] > start[arrow.head]:
                start[arrow.head], cause[arrow.head] = start[arrow.tail] + weights[number], number
                changed = arrow.head
        if changed < 0:
            return None
        cycle = _cycle_of(changed, cause, arrows)
        if cycle:
            return cycle
    raise Refused("no period was determined")


def _cycle_of(node: int, cause: list[int], arrows: list[Arrow]) -> list[Arrow]:
    """The cycle that the causes of a node run into, if they do."""
    order: dict[int, int] = {}
    path: list[Arrow] = []
    while node not in order:
        if cause[node] < 0:
            return []
        order[node] = len(path)
        path.append(arrows[cause[node]])
        node = path[-1].tail
    return path[order[node] :]


# ---------------------------------------------------------------- lower bounds


class Bound(NamedTuple):
    """A lower bound in picoseconds; `trusted` where nothing but a solver's word stands behind it."""

    picoseconds: Fraction
    kind: str
    trusted: bool = False


class Visit(NamedTuple):
    """A stage that a chunk of a class may have: its class, phase and arc, and what the class does if all of it has it.

    `head`, `tail`: least time from the start of all to that of the stage, and from its end to the end of all.
    """

    owner: int
    phase: int
    arc: Arc
    resource: str
    time: Fraction
    fixed: int
    head: Fraction
    tail: Fraction


def bounds(problem: Problem, certificate: dict[str, Any], *, equal: bool = False) -> list[Bound]:
    """Every bound of a certificate, in its order; each may rest on those before."""
    check_fields("certificate", CERTIFICATE, certificate)
    proven: list[Bound] = []
    for part in certificate["bounds"]:
        kind = part["kind"]
        known = max((bound.picoseconds for bound in proven if not bound.trusted), default=Fraction(0))
        if kind == "trusted":
            proven.append(Bound(Fraction(part["picoseconds"]), f"{part['solver']}, trusted", True))
        elif kind == "cut":
            proven.append(Bound(_cut(problem, part), kind))
        elif problem.durations:
            require(kind in ("path", "load"), f"there is no bound '{kind}' on iterations")
            proven.append(Bound((_path if kind == "path" else _load)(problem, part), kind))
        elif kind == "chain":
            proven.append(Bound(max(_chain(problem, e, _most(e)) for e in problem.exchanges), kind))
        elif kind == "tree":
            require(equal and not problem.mirrored, "trees are for equal chunks, not mirrored")
            proven.append(Bound(_tree(problem, part, part["tree"], {}, known), kind))
        else:
            require(kind in ("windows", "counts"), f"there is no bound '{kind}'")
            proven.append(Bound(_windows(problem, problem.exchanges, part, known, equal=equal), kind))
    return proven


def _arcs(span: tuple[int, ...]) -> list[Arc]:
    """Every set of dimensions visited with a next one, smaller sets first."""
    masks = [sum(1 << k for bit, k in enumerate(span) if choice >> bit & 1) for choice in range(1 << len(span))]
    return [(visited, k) for visited in masks for k in span if not visited >> k & 1]


def _cheapest(span: tuple[int, ...], cost: Mapping[Arc, Fraction]) -> Fraction:
    """The cheapest order of the dimensions."""
    return _reached(span, cost)[sum(1 << k for k in span)]


def _reached(span: tuple[int, ...], cost: Mapping[Arc, Fraction]) -> dict[int, Fraction]:
    """The least cost of having visited each set of dimensions, over the arcs that there are; others are left out."""
    best = {0: Fraction(0)}
    for visited, k in _arcs(span):
        if visited in best and (visited, k) in cost:
            total = best[visited] + cost[visited, k]
            best[visited | 1 << k] = min(best.get(visited | 1 << k, total), total)
    return best


def _mirror(span: tuple[int, ...], arc: Arc) -> Arc:
    """The arc of the same dimension where the dimensions are visited in reverse."""
    visited, k = arc
    return sum(1 << j for j in span) & ~(visited | 1 << k), k


def _cheapest_paths(problem: Problem, exchange: Exchange, costs: list[dict[Arc, Fraction]]) -> Fraction:
    """The cheapest orders of all phases, of which the second may have to reverse the first."""
    span = exchange.span
    if problem.mirrored and len(costs) == 2:
        return _cheapest(span, {arc: cost + costs[1][_mirror(span, arc)] for arc, cost in costs[0].items()})
    return sum((_cheapest(span, cost) for cost in costs), Fraction(0))


def _passages(problem: Problem, exchange: Exchange, size: int) -> list[dict[Arc, Fraction]]:
    """By phase and arc, the time from the start of a stage of a chunk of `size` bytes to its result."""
    return [
        {
            (visited, k): Fraction(problem.occupancy(p, k, size, visited, exchange.span) + problem.lag(p, k))
            for visited, k in _arcs(exchange.span)
        }
        for p in PHASES[exchange.kind]
    ]


def _chain(problem: Problem, exchange: Exchange, chunks: int) -> Fraction:
    """The largest of so many chunks through all its stages."""
    elements = exchange.size // exchange.element
    size = -(-elements // chunks) * exchange.element
    return exchange.release + _cheapest_paths(problem, exchange, _passages(problem, exchange, size))


def _visits(
    problem: Problem, exchanges: tuple[Exchange, ...], *, equal: bool, absent: Set[Key] = frozenset()
) -> list[Visit]:
    """All stages that chunks may have, without absent arcs and what needs them.

    Heads and tails are those of a chunk of no size, or of equal ones.
    """
    visits = []
    for owner, exchange in enumerate(exchanges):
        span, phases, least = exchange.span, PHASES[exchange.kind], _least(exchange) if equal else 0
        passages = [
            {arc: time for arc, time in passage.items() if (owner, q, arc) not in absent}
            for q, passage in enumerate(_passages(problem, exchange, least))
        ]
        before = [_reached(span, passage) for passage in passages]
        after = [_reached(span, {_mirror(span, arc): time for arc, time in passage.items()}) for passage in passages]
        everything = sum(1 << k for k in span)
        if not all(everything in reached for reached in before):
            continue
        whole = [reached[everything] for reached in before]
        for q, phase in enumerate(phases):
            for visited, k in passages[q]:
                spread, left = problem.spread(phase, k, visited, span), everything & ~(visited | 1 << k)
                if visited not in before[q] or left not in after[q]:
                    continue
                time = problem.variable(phase, k, exchange.size, spread, whole_packets=False)
                head = exchange.release + sum(whole[:q]) + before[q][visited]
                tail = problem.lag(phase, k) + after[q][left] + sum(whole[q + 1 :])
                fixed, resource = problem.fixed(phase, k), problem.resource(phase, k)
                visits.append(Visit(owner, q, (visited, k), resource, time + fixed, fixed, head, tail))
    return visits


def _most(exchange: Exchange) -> int:
    """The most chunks, which equal ones are."""
    return min(exchange.chunks, exchange.size // exchange.element)


def _least(exchange: Exchange) -> int:
    """Bytes of the smallest of equal chunks."""
    return exchange.size // exchange.element // _most(exchange) * exchange.element


def _windows(
    problem: Problem, exchanges: tuple[Exchange, ...], part: dict[str, Any], known: Fraction, *, equal: bool
) -> Fraction:
    """A weighted mean of the loads of windows, least over all paths: Lagrangian relaxation.

    A window is a resource, and its stages with a head and a tail of at least some lengths.  They do not overlap, so all
    takes at least head + load + tail; should none of them be used, head + tail alone must be no more than is known.
    With ``few`` either a collective has at most so many chunks, of which the largest is long, or all have more.
    """
    visits, few = _visits(problem, exchanges, equal=equal), part.get("few") or [0] * len(exchanges)
    value, total = Fraction(0), 0
    require(len(few) == len(exchanges), "few has one number for each collective")
    costs = [[dict.fromkeys(_arcs(e.span), Fraction(0)) for _ in PHASES[e.kind]] for e in exchanges]
    for window in part["windows"]:
        weight = window["weight"]
        head, tail, total = window["head"], window["tail"], total + weight
        on = [visit for visit in visits if visit.resource == window["resource"]]
        inside = [visit for visit in on if visit.head >= head and visit.tail >= tail]
        partly = {(v.owner, v.phase, v.arc[1]) for v in on if not (v.head >= head and v.tail >= tail)}
        surely = {(v.owner, v.phase, v.arc[1]): v.fixed for v in inside}
        surely = {key: fixed for key, fixed in surely.items() if key not in partly}
        require(bool(surely) or head + tail <= known, "a window may be empty, and ends later than is known")
        value += weight * (head + tail + sum(few[owner] * fixed for (owner, *_), fixed in surely.items()))
        for visit in inside:
            costs[visit.owner][visit.phase][visit.arc] += weight * visit.time
    value += sum(_cheapest_paths(problem, *pair) for pair in zip(exchanges, costs, strict=True))
    chains = [_chain(problem, e, count) for e, count in zip(exchanges, few, strict=True) if count]
    return min([value / total, *chains])


def _tree(
    problem: Problem, part: dict[str, Any], node: dict[str, Any], limits: dict[Key, tuple[int, int]], known: Fraction
) -> Fraction:
    """The worse side of a node: at most so many chunks take an arc, or more do; a leaf bounds what its limits allow."""
    if "arc" not in node:
        return _leaf(problem, part, node, limits, known)
    key, most = _key(problem, part, node["arc"]), node["most"]
    low, high = limits.get(key, (0, _most(problem.exchanges[key[0]])))
    fewer, more = limits | {key: (low, min(high, most))}, limits | {key: (max(low, most + 1), high)}
    return min(_tree(problem, part, node["fewer"], fewer, known), _tree(problem, part, node["more"], more, known))


def _key(problem: Problem, part: dict[str, Any], number: int) -> Key:
    """The arc of a number in a certificate."""
    require(number < len(part["arcs"]), f"there is no arc {number}")
    arc = part["arcs"][number]
    names = [dimension.name for dimension in problem.dimensions]
    owner = place_of([exchange.name for exchange in problem.exchanges], arc["collective"], "collective")
    visited = sum(1 << place_of(names, name, "dimension") for name in set(arc["visited"]))
    phase = place_of(PHASES[problem.exchanges[owner].kind], arc["phase"], "phase")
    return owner, phase, (visited, place_of(names, arc["next"], "dimension"))


def _leaf(
    problem: Problem, part: dict[str, Any], leaf: dict[str, Any], limits: dict[Key, tuple[int, int]], known: Fraction
) -> Fraction:
    """A weighted mean of the loads of windows, and prices of arcs times their limits, least over all paths of chunks.

    Chunks are equal, and each takes an arc or not.  An arc whose limit is 0 is absent, which heads and tails know of.
    Without windows a value above 0 says that no chunks keep the limits.
    """
    exchanges, absent = problem.exchanges, {key for key, (_, high) in limits.items() if high <= 0}
    visits, value, total = _visits(problem, exchanges, equal=True, absent=absent), Fraction(0), 0
    costs: list[list[dict[Arc, Fraction]]] = [[{} for _ in PHASES[exchange.kind]] for exchange in exchanges]
    for visit in visits:
        costs[visit.owner][visit.phase][visit.arc] = Fraction(0)
    for window in leaf["windows"]:
        weight, total = window["weight"], total + window["weight"]
        inside, is_used = _window(visits, window)
        require(is_used or window["head"] + window["tail"] <= known, "a window may be empty, and ends too late")
        value += weight * (window["head"] + window["tail"])
        for owner, phase, (visited, k), *_ in inside:
            exchange = exchanges[owner]
            time = problem.occupancy(PHASES[exchange.kind][phase], k, _least(exchange), visited, exchange.span)
            costs[owner][phase][visited, k] += weight * time
    for number, price in leaf.get("prices", ()):
        key = _key(problem, part, number)
        owner, phase, arc = key
        require(key in limits, "an arc without limits has a price")
        value += min(price * limit for limit in limits[key])
        if arc in costs[owner][phase]:
            costs[owner][phase][arc] -= price
    for exchange, phases in zip(exchanges, costs, strict=True):
        for cost in phases:
            if not cost:
                return UNLIMITED  # no path is left
            value += _most(exchange) * _cheapest(exchange.span, cost)
    require(bool(total) or value > 0, "a leaf without windows proves nothing")
    return value / total if total else UNLIMITED


def _window(visits: list[Visit], window: dict[str, Any]) -> tuple[list[Visit], bool]:
    """The stages in a window, and whether every chunk of some collective must have one of them."""
    on = [visit for visit in visits if visit.resource == window["resource"]]
    inside = [visit for visit in on if visit.head >= window["head"] and visit.tail >= window["tail"]]
    outside = set(on) - set(inside)
    partly = {(visit.owner, visit.phase, visit.arc[1]) for visit in outside}
    return inside, any((visit.owner, visit.phase, visit.arc[1]) not in partly for visit in inside)


def _cut(problem: Problem, part: dict[str, Any]) -> Fraction:
    """What groups of NPUs, which differ in dimensions `inside` alone, must exchange, over the links between them."""
    names = [dimension.name for dimension in problem.dimensions]
    chosen, every = part.get("collectives"), [exchange.name for exchange in problem.exchanges]
    owners = range(len(every)) if chosen is None else {place_of(every, name, "collective") for name in chosen}
    exchanges = [problem.exchanges[owner] for owner in sorted(owners)]
    inside, side = {place_of(names, name, "dimension") for name in part["inside"]}, part["side"]
    require(side != "one group" or len(exchanges) == 1, "one group is for one collective")
    sent, speeds = Fraction(0), dict[int, Fraction]()
    for exchange in exchanges:
        outside = [k for k in exchange.span if k not in inside]
        sent += exchange.size * _crossing(problem, exchange, outside, side)
        for k in outside:
            speed = _speed(problem.dimensions[k], mean=side != "one group")
            speeds[problem.links[k]] = max(speeds.get(problem.links[k], speed), speed)
    require(sent > 0, "nothing crosses the cut")
    time = sent * PICOSECONDS / sum(speeds.values())
    return time + min(exchange.release for exchange in exchanges)


def _crossing(problem: Problem, exchange: Exchange, outside: list[int], side: str) -> Fraction:
    """Share of a collective that an NPU exchanges with other groups."""
    phases = PHASES[exchange.kind]
    groups = math.prod(problem.dimensions[k].size for k in outside)
    if groups == 1:
        return Fraction(0)
    share = Fraction(groups - 1, groups)
    if side == "one group":
        share = Fraction(1) if len(phases) > 1 else share
    elif exchange.kind not in ("broadcast", "reduce"):
        share *= len(phases)
    once = [phase for phase in phases if phase in IN_NETWORK]
    if side != "one group" and once and any(problem.dimensions[k].in_network for k in outside):
        many = "all_gather" if side == "received" else "reduce_scatter"
        share = sum((Fraction(groups - 1 if phase == many else 1, groups) for phase in once), Fraction(0))
    if exchange.kind in ("all_to_all", "send"):
        return share
    return share / math.prod(problem.dimensions[k].size for k in exchange.span if k not in outside)


def _speed(dimension: Dimension, *, mean: bool) -> Fraction:
    """Bytes before compression that an NPU sends per second at most, in the mean over the dimension or at its end."""
    links = Fraction(1)
    if mean and dimension.kind == "line":
        links = Fraction(2 * (dimension.size - 1), dimension.size)
    if mean and dimension.kind == "mesh2d":
        rows, columns = grid(dimension.size)
        links = 2 - Fraction(1, rows) - Fraction(1, columns)
    header = Fraction(dimension.header, dimension.payload) if dimension.payload else Fraction(0)
    return dimension.bandwidth * links * dimension.compression / (1 + header)


def _load(problem: Problem, part: dict[str, Any]) -> Fraction:
    """What resources carry in one period."""
    plain = all(window["head"] == window["tail"] == 0 for window in part["windows"])
    require(plain, "loads of a period have no heads and tails")
    return _windows(problem, _fused(problem.exchanges), part, Fraction(0), equal=False)


def _path(problem: Problem, part: dict[str, Any]) -> Fraction:
    """Tasks of a period, with spans between two of them that take as long as the tensors made and needed inside.

    A span goes from the end of one task to the start of a later one, of the same iteration or the next; spans follow
    each other, and together are no longer than a period.
    """
    count, clock = len(problem.durations), [0]
    for time in problem.durations * 3:
        clock.append(clock[-1] + time)
    value, begin, end = Fraction(clock[count]), None, 0
    for span in part["spans"]:
        after, before = (place_of(problem.task_names, span[side], "task") for side in ("after", "before"))
        while after < end:
            after += count
        while before <= after:
            before += count
        begin, end = after if begin is None else begin, before
        inside = _fused(e for e in problem.exchanges if _is_inside(e, after, before, count))
        passages = (_cheapest_paths(problem, exchange, _passages(problem, exchange, 0)) for exchange in inside)
        known = max(passages, default=Fraction(0))
        for windows in span["bounds"]:  # each may rest on those before
            known = max(known, _windows(problem, inside, {"windows": windows}, known, equal=False))
        value += max(known - (clock[before] - clock[after + 1]), Fraction(0))
    require(begin is None or end - begin <= count, "spans are longer than a period together")
    return value


def _fused(exchanges: Iterable[Exchange]) -> tuple[Exchange, ...]:
    """One collective for each kind and dimensions, since tensors may be sent together."""
    sums: dict[tuple[str, tuple[int, ...]], Exchange] = {}
    for exchange in exchanges:
        key = (exchange.kind, exchange.span)
        size = exchange.size + (sums[key].size if key in sums else 0)
        sums[key] = exchange._replace(size=size, release=0)
    return tuple(sums.values())


def _is_inside(exchange: Exchange, after: int, before: int, count: int) -> bool:
    """Whether a tensor is made and needed within a span, in one of the periods that it touches."""
    needed = exchange.needed + exchange.later * count
    return any(after <= exchange.ready + shift and needed + shift <= before for shift in (0, count, 2 * count))


# ---------------------------------------------------------------- graphs


@dataclass(frozen=True)
class Graph:
    """A network of nodes and links, and one collective of all NPUs; links have two directions."""

    nodes: dict[str, dict[str, Any]]
    bandwidth: dict[tuple[str, str], Fraction]
    latency: dict[tuple[str, str], int]
    kind: str
    size: int
    element: int

    @property
    def npus(self) -> list[str]:
        """Names of the NPUs; the first one is the root."""
        return [name for name, node in self.nodes.items() if node.get("kind", "npu") == "npu"]

    @property
    def share(self) -> int:
        """Elements of each NPU."""
        share, rest = divmod(self.size, self.element * len(self.npus))
        require(not rest, "the size is not divided evenly among the NPUs")
        return share

    def demands(self) -> dict[tuple[str | None, str | None], int]:
        """Elements that go from a source to a target; None is every NPU."""
        npus, whole = self.npus, self.size // self.element
        match self.kind:
            case "all_gather":
                return {(npu, None): self.share for npu in npus}
            case "reduce_scatter":
                return {(None, npu): self.share for npu in npus}
            case "broadcast":
                return {(npus[0], None): whole}
            case "reduce":
                return {(None, npus[0]): whole}
            case "all_to_all":
                return {(one, other): self.share for one in npus for other in npus if one != other}
        return {(None, None): whole}


def read_graph(document: dict[str, Any]) -> Graph:
    """The graph of a document."""
    check_fields("instance", GRAPH, document)
    network, collective = document["network"], document["collectives"][0]
    require(not collective.keys() & {"dimensions", "release"}, "a collective on a graph has no dimensions or release")
    names = [node["name"] for node in network["nodes"]]
    differ(names, "node")
    bandwidth: dict[tuple[str, str], Fraction] = {}
    latency: dict[tuple[str, str], int] = {}
    for link in network["links"]:
        one, other = link["ends"]
        joins = one in names and other in names and one != other and not {(one, other), (other, one)} & bandwidth.keys()
        require(joins, f"a link must join two nodes that no other link joins, not {one} and {other}")
        there = bandwidth_of(link["bandwidth"])
        require(there > 0, f"the link of {one} and {other} has no bandwidth")
        back = there if link.get("back") is None else bandwidth_of(link["back"])
        for ends, speed in (((one, other), there), ((other, one), back)):
            if speed:
                bandwidth[ends], latency[ends] = speed, picoseconds(link.get("latency", 0))
    nodes = {node["name"]: node for node in network["nodes"]}
    size, element = bytes_of(collective["size"]), collective.get("element_bytes", 2)
    require(size % element == 0, "the size is no whole number of elements")
    require(collective["kind"] != "send", "messages on graphs are not checked")
    graph = Graph(nodes, bandwidth, latency, collective["kind"], size, element)
    require(len(graph.npus) > 1, "a collective needs two NPUs")
    return graph


def graph_makespan(graph: Graph, table: dict[str, Any]) -> int:
    """Picoseconds until the last byte arrives; refuses transfers that break a rule."""
    check_fields("solution", GRAPH_TABLE, table)
    chunks, pieces, transfers = table["chunks"], table["pieces"], table["transfers"]
    require(
        all(transfer["piece"] < len(pieces) for transfer in transfers), "a transfer sends a piece that is not there"
    )
    waits = (other for transfer in transfers for other in transfer["after"])
    require(max(waits, default=0) < len(transfers), "a transfer waits for one that is not there")
    amounts: dict[tuple[str | None, str | None], int] = {}
    for piece in pieces:
        ends = (piece["source"], piece["target"])
        amounts[ends] = amounts.get(ends, 0) + piece["elements"]
    require({e: a for e, a in amounts.items() if a} == graph.demands(), "pieces are not what the collective moves")
    hops = [(n, ends) for n, transfer in enumerate(transfers) for ends in pairwise(transfer["route"])]
    require(all(ends in graph.bandwidth for _, ends in hops), "a route uses a link that is not there")
    _check_turns(table, hops)
    lengths = [len(transfer["route"]) - 1 for transfer in transfers]
    first = [0, *accumulate(lengths[:-1])]
    last = [hop + length - 1 for hop, length in zip(first, lengths, strict=True)]
    time = [
        [_sending(graph, pieces[transfers[n]["piece"]], ends, c, chunks) for n, ends in hops] for c in range(chunks)
    ]
    before = [(hop, hop + 1) for hop in range(len(hops) - 1) if hops[hop][0] == hops[hop + 1][0]]
    before += [(last[other], first[n]) for n, transfer in enumerate(transfers) for other in transfer["after"]]
    arrows = [
        Arrow(c * len(hops) + one, c * len(hops) + other, time[c][one] + graph.latency[hops[one][1]], 0)
        for c in range(chunks)
        for one, other in before
    ]
    for link in table["links"]:
        for (c, one), (d, other) in pairwise(link["order"]):
            arrows.append(Arrow(c * len(hops) + one, d * len(hops) + other, time[c][one], 0))
    start = longest_paths([0] * (chunks * len(hops)), arrows)
    rows = [start[c * len(hops) : (c + 1) * len(hops)] for c in range(chunks)]
    arrival = [
        [s + t + graph.latency[e] for s, t, (_, e) in zip(*row, hops, strict=True)]
        for row in zip(rows, time, strict=True)
    ]
    for number, piece in enumerate(pieces):
        moves = [(n, t) for n, t in enumerate(transfers) if t["piece"] == number]
        for c in range(min(chunks, piece["elements"])):
            _check_data(graph, piece, {n: (rows[c][first[n]], arrival[c][last[n]], t) for n, t in moves})
    return max(max(row) for row in arrival)


def _check_turns(table: dict[str, Any], hops: list[tuple[int, tuple[str, str]]]) -> None:
    """Each link has one list, and serves every chunk of its hops once."""
    chunks = table["chunks"]
    differ((" to ".join(link["ends"]) for link in table["links"]), "link")
    turns = [(c, hop, tuple(link["ends"])) for link in table["links"] for c, hop in link["order"]]
    there = all(c < chunks and hop < len(hops) for c, hop, _ in turns)
    require(there, "a link serves a chunk or a hop that is not there")
    require(all(hops[hop][1] == ends for _, hop, ends in turns), "a link serves another one's hop")
    require(len(turns) == chunks * len(hops) == len(set(turns)), "links do not serve each hop once")


def _sending(graph: Graph, piece: dict[str, Any], ends: tuple[str, str], chunk: int, chunks: int) -> int:
    """Picoseconds that a link takes for one chunk of a piece."""
    elements: int = piece["elements"] // chunks + (chunk < piece["elements"] % chunks)
    return math.ceil(elements * graph.element * PICOSECONDS / graph.bandwidth[ends])


def _check_data(graph: Graph, piece: dict[str, Any], moves: dict[int, tuple[int, int, dict[str, Any]]]) -> None:
    """Nodes send what they have, sums count every NPU once, and all who want a piece have it in the end.

    A transfer sends what its sender had at first, or the last copy that it waits for, and the sums that it waits for.
    """
    whole = frozenset(graph.npus if piece["source"] is None else [piece["source"]])
    sent: dict[int, frozenset[str]] = {}
    passed: set[int] = set()  # what switches that cannot copy have sent
    received: dict[str, list[int]] = {node: [] for node in graph.nodes}

    def content(node: str, arrivals: list[int]) -> frozenset[str]:
        held = whole & {node}
        for number in sorted(arrivals):
            if not moves[number][2]["adds"]:
                held = sent[number]
                continue
            require(not held & sent[number], f"{node} adds something twice")
            held |= sent[number]
        return held

    for number, (start, _, transfer) in moves.items():
        sender, receiver = transfer["route"][0], transfer["route"][-1]
        waits = all(
            n in sent and moves[n][2]["route"][-1] == sender and moves[n][1] <= start for n in transfer["after"]
        )
        require(waits, f"{sender} sends what it lacks")
        sent[number] = content(sender, transfer["after"])
        require(bool(sent[number]), f"{sender} sends what it lacks")
        for end, skill in ((receiver, "sums" if transfer["adds"] else "multicasts"), (sender, None)):
            node = graph.nodes[end]
            able = node.get(skill) if skill else node.get("sums") or node.get("multicasts")
            require(node.get("kind", "npu") == "npu" or bool(able), f"{end} only passes messages on")
        node = graph.nodes[sender]
        if node.get("kind", "npu") == "switch" and not node.get("multicasts"):
            require(passed.isdisjoint(transfer["after"]), f"{sender} sends a sum twice, and does not copy")
            passed.update(transfer["after"])
        received[receiver].append(number)
    held = {node: content(node, arrivals) for node, arrivals in received.items()}
    for npu in graph.npus if piece["target"] is None else [piece["target"]]:
        require(held[npu] == whole, f"{npu} does not get all it needs")


def graph_bounds(graph: Graph, certificate: dict[str, Any]) -> list[Bound]:
    """Every bound of a certificate."""
    check_fields("certificate", GRAPH_CERTIFICATE, certificate)
    proven = []
    for part in certificate["bounds"]:
        if part["kind"] == "cut":
            proven.append(Bound(_graph_cut(graph, frozenset(part["nodes"]), into=part["into"]), "cut"))
        elif part["kind"] == "lengths":
            proven.append(Bound(_lengths(graph, part["lengths"]), "lengths"))
        else:
            proven.append(Bound(Fraction(part["picoseconds"]), f"{part['solver']}, trusted", True))
    return proven


def _graph_cut(graph: Graph, nodes: frozenset[str], *, into: bool) -> Fraction:
    """What must leave some nodes, or enter them, over the links there, and the least latency after its last byte."""
    npus = graph.npus
    require(nodes <= graph.nodes.keys(), "a cut has nodes that are not there")
    inside, count = len(nodes & set(npus)), len(npus)
    require(0 < inside < count, "a cut must divide the NPUs")
    whole, rooted = Fraction(graph.size), graph.kind in ("all_reduce", "broadcast", "reduce")
    part = Fraction(0 if rooted else graph.share * graph.element)
    volume = {
        "all_gather": part * (count - inside if into else inside),
        "reduce_scatter": part * (inside if into else count - inside),
        "broadcast": whole if (npus[0] in nodes) != into else Fraction(0),
        "reduce": whole if (npus[0] in nodes) == into else Fraction(0),
        "all_reduce": whole,
        "all_to_all": part * inside * (count - inside),
    }[graph.kind]
    crossing = [(a, b) for a, b in graph.bandwidth if (b if into else a) in nodes and (a if into else b) not in nodes]
    require(bool(crossing) and volume > 0, "nothing crosses the cut")
    speed = sum((graph.bandwidth[ends] for ends in crossing), Fraction(0))
    return volume * PICOSECONDS / speed + min(graph.latency[ends] for ends in crossing)


def _lengths(graph: Graph, rows: list[list[Any]]) -> Fraction:
    """Bytes times the distances they must go, over the bandwidth times the length of all links, for any lengths."""
    require(graph.kind == "all_to_all", "lengths are for an all-to-all")
    lengths = {(one, other): Fraction(length) for one, other, length in rows}
    require(len(lengths) == len(rows) and lengths.keys() <= graph.bandwidth.keys(), "lengths are of links, once each")
    distance = {(a, b): lengths.get((a, b), Fraction(0)) for a, b in graph.bandwidth}
    for middle in graph.nodes:
        for one in graph.nodes:
            for other in graph.nodes:
                if (one, middle) in distance and (middle, other) in distance:
                    way = distance[one, middle] + distance[middle, other]
                    distance[one, other] = min(distance.get((one, other), way), way)
    joined = all((a, b) in distance for a in graph.npus for b in graph.npus if a != b)
    require(joined and any(lengths.values()), "some NPUs do not reach each other, or all lengths are 0")
    way = sum((distance[a, b] for a in graph.npus for b in graph.npus if a != b), Fraction(0))
    room = sum((graph.bandwidth[ends] * length for ends, length in lengths.items()), Fraction(0))
    return graph.share * graph.element * way * PICOSECONDS / room


# ---------------------------------------------------------------- files


def read(path: Path) -> dict[str, Any]:
    """A document, perhaps packed; decimals are read exactly.

    Raises
    ------
    Refused
        If there is no such file, or it is no object of JSON.
    """
    try:
        require(path.is_file(), "there is no such file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        require(len(raw) <= LARGEST_FILE, f"is larger than {LARGEST_FILE} bytes")
        document = json.loads(raw, parse_float=_decimal, parse_constant=_decimal, object_pairs_hook=_object)
    except (Refused, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise Refused(f"{shown(str(path))}: {error or 'cannot be read'}") from None
    require(isinstance(document, dict), f"{shown(str(path))}: must be an object")
    return dict(document)


def _decimal(digits: str) -> Fraction:
    match = QUANTITY.fullmatch(digits)
    require(match is not None and not match[2], f"{shown(digits)} is too long or no number")
    return Fraction(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    differ((shown(key) for key, _ in pairs), "field")
    return dict(pairs)


class Verdict(NamedTuple):
    """A makespan and bounds, in picoseconds; None where no such file was given."""

    makespan: int | None
    bounds: list[Bound]

    def best(self, *, trusted: bool) -> Fraction:
        """The best bound, of the proven ones or of all."""
        return max((b.picoseconds for b in self.bounds if trusted or not b.trusted), default=Fraction(0))


def judge(
    instance: dict[str, Any],
    table: dict[str, Any] | None = None,
    certificate: dict[str, Any] | None = None,
    *,
    equal: bool = False,
) -> Verdict:
    """Check documents.

    Raises
    ------
    Refused
        With the rule that is broken.
    """
    try:
        verdict = _judged(instance, table, certificate, equal=equal)
    except RecursionError:
        raise Refused("a document is nested too deeply") from None
    for bound in verdict.bounds:
        above = verdict.makespan is not None and bound.picoseconds > verdict.makespan
        require(
            not above, f"the bound {bound.kind}, {bound.picoseconds} ps, is above the makespan, {verdict.makespan} ps"
        )
    return verdict


def _judged(instance: Any, table: Any, certificate: Any, *, equal: bool) -> Verdict:
    network = instance.get("network") if isinstance(instance, dict) else None
    if isinstance(network, dict) and "nodes" in network:
        graph = read_graph(instance)
        taken = None if table is None else graph_makespan(graph, table)
        return Verdict(taken, [] if certificate is None else graph_bounds(graph, certificate))
    problem = read_problem(instance)
    taken = None if table is None else makespan(problem, table, equal=equal)
    return Verdict(taken, [] if certificate is None else bounds(problem, certificate, equal=equal))


def check_row(folder: Path, row: dict[str, Any]) -> str | None:
    """What is wrong with a row of the index, or None."""
    raw = (folder / row["file"]).read_bytes()
    try:
        require(hashlib.sha256(raw).hexdigest() == row["sha256"], "the file of the instance was changed")
        documents = [read(folder / row[field]) for field in ("file", "solution", "certificate")]
        verdict = judge(*documents, equal=row["sizes"] == "equal")
        require(verdict.makespan == row["makespan_ps"], f"takes {verdict.makespan} ps, not {row['makespan_ps']}")
        best = math.floor(verdict.best(trusted=True))
        require(best == row["bound_ps"], f"is bounded by {best} ps, not {row['bound_ps']}")
        proven = math.floor(verdict.best(trusted=False))
        require(proven == row["proven_ps"], f"has a proven bound of {proven} ps, not {row['proven_ps']}")
    except (Refused, KeyError, ValueError, TypeError, ZeroDivisionError, OSError) as error:
        return f"{row['name']}: {error if isinstance(error, Refused) else repr(error)}"
    return None


def beside_best_known(instance: Path, taken: int, best: Fraction, *, equal: bool) -> str:
    """How far a makespan is from the best known one and from the best bound of the library and of a certificate.

    Raises
    ------
    Refused
        If the makespan is below the bound of the library.
    """
    index, key = Path(__file__).parent / "index.json", hashlib.sha256(instance.read_bytes()).hexdigest()
    rows = read(index)["instances"] if index.exists() else []
    sizes = "equal" if equal else "free"
    row = next((row for row in rows if (row["sha256"], row["sizes"]) == (key, sizes)), None)
    words = f"no instance of the library with {sizes} sizes"
    if row is not None:
        known = row["makespan_ps"]
        require(taken >= row["bound_ps"], f"takes {taken} ps, and {row['bound_ps']} ps are the bound of the library")
        words = f"{_above(taken, known)} the best known of {row['name']}, {_microseconds(known)}"
        best = max(best, Fraction(row["bound_ps"]))
    return words + (f"; {_above(taken, float(best))} the bound, {_microseconds(float(best))}" if best else "")


def _above(taken: float, other: float) -> str:
    """How far a time is above or below another, or that they are equal."""
    if taken == other:
        return "equal to"
    return f"{100 * abs(taken - other) / other:.4f} % {'above' if taken > other else 'BELOW'}"


def _microseconds(picoseconds: float) -> str:
    return f"{picoseconds / 10**6:.2f} us"


def main(arguments: list[str]) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(description="Check all rows of the library, or one solution and its certificate.")
    parser.add_argument("instance", nargs="?", type=Path, help="its file; without it all rows of index.json")
    parser.add_argument("solution", nargs="?", type=Path, help="an order table")
    parser.add_argument("certificate", nargs="?", type=Path, help="bounds")
    parser.add_argument("--equal", action="store_true", help="chunks must be equal")
    given = parser.parse_args(arguments)
    if given.instance and not given.solution:
        parser.error("an instance needs a solution")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _check(given) if given.instance else _check_all()
    except Refused as error:
        print(f"refused: {error}")
        return 1


def _check_all() -> int:
    folder = Path(__file__).parent
    rows = read(folder / "index.json")["instances"]
    flaws = [flaw for row in rows if (flaw := check_row(folder, row))]
    print(*flaws, f"{len(rows) - len(flaws)} of {len(rows)} rows are confirmed", sep="\n")
    return int(bool(flaws))


def _check(given: argparse.Namespace) -> int:
    paths = (given.instance, given.solution, given.certificate)
    verdict = judge(*(None if path is None else read(path) for path in paths), equal=given.equal)  # type: ignore[arg-type]
    if verdict.makespan is not None:
        best = verdict.best(trusted=True)
        beside = beside_best_known(given.instance, verdict.makespan, best, equal=given.equal)
        print(f"makespan {verdict.makespan} ps, {_microseconds(verdict.makespan)}: {beside}")
    for bound in verdict.bounds:
        print(f"bound {bound.picoseconds} ps, about {float(bound.picoseconds):.3f}: {bound.kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
