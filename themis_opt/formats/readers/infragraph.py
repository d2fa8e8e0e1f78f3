"""Infrastructures of InfraGraph, as YAML or JSON: devices of components, instances of them, and edges between both.

Components of the kind ``xpu`` are NPUs, all others switches: those that lead nowhere are left out, and chains of them
become one link, which is called by the adapter in it.  An edge may stand for many (``many2many``, ``one2one``), and its
ends for slices in the notation of Python.  GT/s of PCI Express are those of 16 lanes.
Source: https://github.com/Keysight/infragraph, ``schema/`` and ``infragraph_service.py`` (MIT).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from themis_opt.base.errors import reading
from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, refuse_cables, simplified
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.graphs.links import MAX_GRAPH_LINKS, MAX_GRAPH_NODES
from themis_opt.graphs.problem import GraphNetwork

RATES = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9, "gigatransfers_per_second": 16 * 1e9 / 8}
"""Bytes per second of each unit."""

TIMES_IN_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}

DEEPEST = 8  # devices within devices

Document = dict[str, Any]
Physical = tuple[float | None, int]  # bytes per second, which a file may leave out, and picoseconds


def _recognizes(source: Source) -> bool:
    words = (r'"?devices"?\s*:', r'"?instances"?\s*:', r'"?components?"?\s*:')
    return all(re.search(word, source.head) for word in words[::2]) and re.search(words[1], source.text) is not None


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    document = source.yaml_object() if source.ending in ("yaml", "yml") else source.json_object()
    reading = _Reading(source, document)
    note = f"InfraGraph: {len(reading.npus)} xpu are the NPUs, GT/s are those of 16 lanes."
    return Part(graph=reading.network, notes=(note,))


class _Reading:
    """A document, with its devices and links by name."""

    def __init__(self, source: Source, document: Document) -> None:
        self.source = source
        self.name = str(document.get("name") or source.path.stem)
        self.devices = {str(d.get("name")): d for d in self.objects(document, "devices")}
        self.instances = {str(i.get("name")): i for i in self.objects(document, "instances")}
        self.kinds: dict[str, str] = {}
        self.cables: list[tuple[str, str, str, Physical]] = []
        for name, instance in self.instances.items():
            for number in range(self.count(instance, f"instances.{name}")):
                self.place(f"{name}.{number}", str(instance.get("device")), 0)
        links = self.links(document, "links")
        for number, edge in enumerate(self.objects(document, "edges")):
            ends = [list(self.instance_ends(edge, end, f"edges[{number}]")) for end in ("ep1", "ep2")]
            self.join(edge, ends, links, f"edges[{number}]")
        self.npus = [name for name, kind in self.kinds.items() if kind == "xpu"]

    def network(self, bandwidths: Mapping[str, float]) -> GraphNetwork:
        """The graph, with bandwidths of links that the file leaves out. Raises InputError if some are not known."""
        missing = sorted({link for *_, link, (rate, _) in self.cables if rate is None and link not in bandwidths})
        if missing:
            rule = f"has links without a bandwidth: state it by --bandwidths, such as {missing[0]}=50GB/s"
            raise self.source.error(rule, "links", ", ".join(missing))
        cables = [
            ReadCable.both_ways(tail, head, bandwidths[link] if rate is None else rate, latency)
            for tail, head, link, (rate, latency) in self.cables
        ]
        ways = simplified(self.npus, cables, [name for name, kind in self.kinds.items() if kind == "nic"])
        return cabled(plain_name(self.name), reached(self.npus, ways), ways)

    def objects(self, document: Document, field: str) -> list[Document]:
        """A list of objects."""
        return self.source.objects(document.get(field) or [], field)

    def count(self, document: Document, field: str) -> int:
        """How many of something there are."""
        return self.source.whole(document.get("count"), f"{field}.count", least=0, most=MAX_GRAPH_NODES)

    def links(self, document: Document, field: str) -> dict[str, Physical]:
        """Bandwidth and latency of links by name."""
        links: dict[str, Physical] = {}
        for link in self.objects(document, "links"):
            name, physical = str(link.get("name")), link.get("physical") or {}
            rate = self.quantity(physical, "bandwidth", RATES, f"{field}.{name}")
            latency = self.quantity(physical, "latency", TIMES_IN_SECONDS, f"{field}.{name}") or 0.0
            links[name] = rate, round(latency * PICOSECONDS_PER_SECOND)
        return links

    def quantity(self, physical: Any, name: str, units: Mapping[str, float], field: str) -> float | None:
        """A number in one of some units; None where there is none."""
        value = physical.get(name) if isinstance(physical, dict) else None
        if not value:
            return None
        unit = value.get("choice") if isinstance(value, dict) else None
        scale = float(self.source.choice(unit, units, f"{field}.{name}.choice"))
        if value.get(unit) is None:  # a unit may stand without a number
            return None
        least = 1e-9 if name == "bandwidth" else 0.0
        return scale * self.source.number(value.get(unit), f"{field}.{name}.{unit}", least=least, most=1e9)

    def place(self, prefix: str, device_name: str, depth: int) -> None:
        """The components and edges of a device, and of devices in it."""
        device: Document = self.source.choice(device_name, self.devices, "device")
        if depth > DEEPEST:
            raise self.source.error(f"must be nested at most {DEEPEST} deep", "devices", device_name)
        for component in self.objects(device, "components"):
            name, kind = str(component.get("name")), str(component.get("choice"))
            for number in range(self.count(component, f"devices.{device_name}.{name}")):
                place = f"{prefix}.{name}.{number}"
                if kind == "device":
                    self.place(place, name, depth + 1)
                else:
                    self.kinds[place] = kind
        if len(self.kinds) > MAX_GRAPH_NODES:
            raise self.source.error(f"must be at most {MAX_GRAPH_NODES} components", "devices", len(self.kinds))
        links = self.links(device, f"devices.{device_name}.links")
        for number, edge in enumerate(self.objects(device, "edges")):
            field = f"devices.{device_name}.edges[{number}]"
            ends = []
            for end in ("ep1", "ep2"):
                point = self.source.mapping(edge.get(end), f"{field}.{end}")
                path = ".".join(str(point[key]) for key in ("device", "component") if point.get(key))
                ends.append(list(self.components(prefix, device_name, path, f"{field}.{end}")))
            self.join(edge, ends, links, field)

    def join(self, edge: Document, ends: Sequence[list[str]], links: Mapping[str, Physical], field: str) -> None:
        """The cables of an edge."""
        schemes = {"many2many": product, "one2one": zip}
        scheme = self.source.choice(edge.get("scheme", "one2one"), schemes, f"{field}.scheme")
        link = str(edge.get("link"))
        physical: Physical = self.source.choice(link, links, f"{field}.link")
        pairs = islice(scheme(*ends), MAX_GRAPH_LINKS + 1)
        self.cables += [(tail, head, link, physical) for tail, head in pairs if tail != head]
        refuse_cables(len(self.cables), MAX_GRAPH_LINKS, str(self.source))

    def instance_ends(self, edge: Document, end: str, field: str) -> Iterator[str]:
        """Nodes that an end of an edge between instances names."""
        point = self.source.mapping(edge.get(end), f"{field}.{end}")
        word = str(point.get("instance"))
        name = word.partition("[")[0]
        instance: Document = self.source.choice(name, self.instances, f"{field}.{end}.instance")
        for number in self.indices(word, self.count(instance, f"instances.{name}"), f"{field}.{end}.instance"):
            prefix, device = f"{name}.{number}", str(instance.get("device"))
            yield from self.components(prefix, device, str(point.get("component")), f"{field}.{end}.component")

    def components(self, prefix: str, device_name: str, path: str, field: str) -> Iterator[str]:
        """Nodes of a path such as ``cx5[0:2].port[0]``."""
        word, _, rest = path.partition(".")
        name = word.partition("[")[0]
        device: Document = self.source.choice(device_name, self.devices, "device")
        known = {str(c.get("name")): c for c in self.objects(device, "components")}
        component: Document = self.source.choice(name, known, field)
        for number in self.indices(word, self.count(component, field), field):
            place = f"{prefix}.{name}.{number}"
            if rest:
                yield from self.components(place, name, rest, field)
            else:
                yield place

    def indices(self, word: str, count: int, field: str) -> range:
        """Numbers that a word such as ``xpu[0:2]`` names: all of them without brackets."""
        match = re.fullmatch(r"[^\[\]]+(?:\[(-?\d{0,6})((?::-?\d{0,6}){0,2})\])?", word)
        if not match:
            raise self.source.error("must be a name, perhaps with a slice such as [0:2]", field, word)
        first, rest = match[1] or "", match[2] or ""
        if first and not rest:
            number = int(first) + (count if first.startswith("-") else 0)
            if not 0 <= number < count:
                raise self.source.error(f"must be less than {count}", field, word)
            return range(number, number + 1)
        parts = [int(part) if part else None for part in (first, *rest.split(":")[1:])]
        with reading(field, word, "must have a step", self.source):
            return range(count)[slice(*parts)] if len(parts) > 1 else range(count)


READER = Reader("infrastructure of InfraGraph", ("yaml", "yml", "json"), _recognizes, _read)
