"""Nodes of NCCL topologies: GPUs, NVLinks, the tree of PCI switches, CPUs and adapters, as dimensions or as a graph.

Nodes are dimensions where these are as fast as the graph: GPUs have as many links each, adapters are alike, and what
GPUs send to other nodes uses no cable twice.  All other nodes are a graph, whose adapters meet in one switch.

GB/s are 10^9 bytes per second: of an NVLink those of NCCL by compute capability, of an XGMI link those of RCCL, 24, 36
(gfx90a) or 48 (gfx94x), of a PCI link its lanes times the rate of NCCL (3.0 with 16 lanes: 12), of C2C as the file
says, of an adapter its speed (Mbit/s) over 8000, 10 if it has none.  As in NCCL, an unknown PCI speed is 3.0, and no
width 16 lanes.  Latencies are those of a step of NCCL's model, ring, Simple, half of it at either end of a switch.
Source: https://github.com/NVIDIA/nccl, ``src/graph/topo.cc``, ``topo.h`` and ``tuning.cc`` (2.30);
https://github.com/ROCm/rccl, ``src/graph/topo.h``.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from xml.etree.ElementTree import Element

import networkx as nx

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, simplified
from themis_opt.graphs.problem import GraphNetwork
from themis_opt.problem.network import Dimension, Kind

GIGA = 1e9
NVLINK_LATENCY, PCI_LATENCY, NET_LATENCY = 3_400_000, 5_700_000, 14_000_000  # picoseconds of a step from GPU to GPU

NVLINK_BANDWIDTH: dict[int, float | None] = {60: 18.0, 70: 20.0, 86: 12.0, 87: 20.0, 90: 20.6, 100: 40.1, 130: None}
"""GB/s of one NVLink in one direction, from a compute capability on; None: not known to NCCL."""

XGMI_BANDWIDTH = {"90a": 36.0, "910": 36.0, "94": 48.0, "": 24.0}
"""GB/s of one XGMI link in one direction, by how the name of the architecture begins; files write gfx90a as 910."""

FASTEST_ADAPTER = 10_000_000  # Mbit/s; faster ones are mistakes
MEGABITS_PER_GIGABYTE = 8000
NO_SPEED = 10_000 / MEGABITS_PER_GIGABYTE
PCI_BANDWIDTH_PER_LANE = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""Units of 100 Mbit/s of a lane, by its rate in GT/s."""

UNKNOWN_PCI, UNKNOWN_LANES = 60, 16
PCI_UNITS_PER_GIGABYTE = 80  # NCCL's units of PCI speed
BETWEEN_CPUS = {"GenuineIntel": 10.0, "AuthenticAMD": 16.0, "CentaurHauls": 6.0, "  Shanghai  ": 6.0}
BETWEEN_CPUS_BY_ARCHITECTURE = {"ppc64": 32.0, "arm64": 6.0}
BETWEEN_INTEL_CPUS: dict[int, float | None] = {0x55: 10.0, 0x8F: 22.0, 0xCF: 40.0}
"""GB/s between CPUs of family 6, from a model on; those before have 6."""

OLD_INTEL = 6.0  # GB/s between older CPUs, by NCCL's table
SWITCH_CLASS, CPU_CLASS = "0x068000", "0x068001"
FABRIC = "net"
RATE_DIGITS = 6  # of GB/s that are compared: sums of rates differ in the last ones


class NoProduct(InputError):
    """A network that is no product of dimensions."""


def read_domains(systems: Sequence[tuple[Source, Element]]) -> list[list["_Box"]]:
    """The nodes of some topologies: a node for each host of a file; hosts whose GPUs share a switch go together."""
    domains: list[list[_Box]] = []
    number = 0
    for source, root in systems:
        hosts: dict[str, list[Element]] = {}
        for cpu in root.iter("cpu"):
            hosts.setdefault(cpu.get("host_hash", ""), []).append(cpu)
        if not hosts:
            raise source.error("must describe a GPU within a cpu", "gpu")
        switch = f"box{number}.nvswitch"
        boxes = [_Box(source, cpus, f"box{number + place}.", switch) for place, cpus in enumerate(hosts.values())]
        number += len(boxes)
        is_shared = any(cable.head == switch for box in boxes for cable in box.links)
        domains += [boxes] if is_shared else [[box] for box in boxes]
    return domains


def pci_speed(pci: Element) -> str:
    """GT/s of a lane of a PCI device, empty where it is not said."""
    return (pci.get("link_speed") or "").split(" ")[0].removesuffix(".0")


def graph(name: str, systems: Sequence[tuple[Source, Element]]) -> GraphNetwork:
    """The graph of some nodes, whose adapters meet in one switch."""
    boxes = [box for domain in read_domains(systems) for box in domain]
    npus = [npu for box in boxes for npu in box.gpus]
    cables = [cable for box in boxes for cable in (*box.cables, *box.links)]
    named = [adapter for box in boxes for adapter in box.adapters]
    if len(boxes) > 1:
        cables += [cable for box in boxes for cable in box.outside()]
    ways = simplified(npus, cables, named)
    return cabled(plain_name(name), reached(npus, ways), ways)


def dimensions(systems: Sequence[tuple[Source, Element]], copies: int = 1) -> tuple[Dimension, ...]:
    """The dimensions within an NVLink domain, or else a node, and between them.

    Raises NoProduct if they would not be as fast as the graph.
    """
    domains = read_domains(systems)
    count = copies * len(domains)
    first, *others = ((_inside(boxes, count), _between(boxes, count)) for boxes in domains)
    if any(other != first for other in others):
        raise NoProduct("nodes differ")
    return tuple(dimension for dimension in first if dimension)


def within(
    kind: Kind, size: int, gigabytes: float, picoseconds: int, description: str, name: str = "node"
) -> Dimension | None:
    """The dimension within a node, or between nodes, of some GB/s per GPU; none if it has one GPU or node."""
    if size == 1:
        return None
    bandwidth, latency = f"{gigabytes:.12g} GB/s", f"{picoseconds} ps"
    return Dimension(kind=kind, size=size, name=name, bandwidth=bandwidth, latency=latency, source=description)


def _inside(boxes: Sequence["_Box"], domains: int) -> Dimension | None:
    gpus = [npu for box in boxes for npu in box.gpus]
    rates: dict[str, dict[str, float]] = {npu: {} for npu in gpus}
    for cable in (cable for box in boxes for cable in box.links):
        rates[cable.tail][cable.head] = rates[cable.tail].get(cable.head, 0) + cable.bandwidth / GIGA
    totals = {round(sum(ways.values()), RATE_DIGITS) for ways in rates.values()}
    if len(totals) > 1:
        raise NoProduct(f"GPUs have {min(totals):g} to {max(totals):g} GB/s of links")
    (total,) = totals
    if not total:
        return _inside_of_pci(boxes, domains)
    is_switched = set.union(*(set(ways) for ways in rates.values())).isdisjoint(gpus)
    pairs = {round(rate, RATE_DIGITS) for ways in rates.values() for rate in ways.values()}
    if not is_switched and (len(pairs) > 1 or any(set(ways) != set(gpus) - {npu} for npu, ways in rates.items())):
        raise NoProduct("pairs of GPUs have different numbers of links")
    kind = Kind.SWITCH if is_switched else Kind.FULLY_CONNECTED
    return within(kind, len(gpus), total, NVLINK_LATENCY, f"links of {total:g} GB/s per GPU")


def _inside_of_pci(boxes: Sequence["_Box"], domains: int) -> Dimension | None:
    """GPUs behind one PCI switch."""
    (box,) = boxes
    ways = simplified(list(box.gpus), box.cables)
    rates = {round(cable.bandwidth / GIGA, RATE_DIGITS) for cable in ways}
    if len(box.gpus) == 1:
        return None
    if domains > 1:
        raise NoProduct("GPUs reach each other and the adapters over the same PCI links")
    switches = {end for cable in ways for end in (cable.tail, cable.head)} - set(box.gpus)
    if len(ways) > len(box.gpus) or len(switches) > 1 or len(rates) > 1:  # two GPUs need no switch between them
        raise NoProduct("GPUs share PCI links")
    (rate,) = rates
    return within(Kind.SWITCH, len(box.gpus), rate, PCI_LATENCY, f"PCI links of the GPUs, {rate:g} GB/s per GPU")


def _between(boxes: Sequence["_Box"], domains: int) -> Dimension | None:
    """The network, if GPUs reach alike adapters at the same rate all at once."""
    if domains == 1:
        return None
    ways: nx.DiGraph[str] = nx.DiGraph()
    for box in boxes:
        for cable in (*box.cables, *box.outside()):
            ways.add_edge(cable.tail, cable.head, capacity=cable.bandwidth / GIGA)
            ways.add_edge(cable.head, cable.tail, capacity=cable.back / GIGA)
    gpus = [npu for box in boxes for npu in box.gpus]
    adapters = {name: rate for box in boxes for name, rate in box.adapters.items()}
    ways.add_edges_from((("gpus", gpu) for gpu in gpus), capacity=float("inf"))
    rates = {
        round(min(rate / GIGA, nx.maximum_flow_value(ways, "gpus", name)), RATE_DIGITS)
        for name, rate in adapters.items()
    }
    if len(rates) > 1:
        raise NoProduct(f"adapters have {min(rates):g} to {max(rates):g} GB/s")
    total = nx.maximum_flow_value(ways, "gpus", FABRIC)
    ways.add_edges_from((("gpus", gpu) for gpu in gpus), capacity=total / len(gpus))
    if nx.maximum_flow_value(ways, "gpus", FABRIC) < total * (1 - 10**-RATE_DIGITS):
        raise NoProduct("GPUs are not alike near to adapters")
    description = f"{len(adapters)} adapters of {total:.{RATE_DIGITS}g} GB/s behind PCI for {len(gpus)} GPUs"
    return within(Kind.SWITCH, domains, total / len(gpus), NET_LATENCY, description, "net")


class _Box:
    """A node, walked from its CPUs to GPUs and adapters.

    `cables`: of PCI, between CPUs and to adapters; `links`: of NVLink and XGMI.
    """

    def __init__(self, source: Source, cpus: Sequence[Element], prefix: str, switch: str) -> None:
        self.source, self.prefix, self.switch = source, prefix, switch
        self.gpus: dict[str, Element] = {}
        self.adapters: dict[str, float] = {}
        self.cables: list[ReadCable] = []
        self.by_address: dict[str, str] = {}
        names = [f"{prefix}cpu{cpu.get('numaid', number)}" for number, cpu in enumerate(cpus)]
        for name, cpu in zip(names, cpus, strict=True):
            self._walk(cpu, name, name)
        if not self.gpus:
            raise source.error("must describe a GPU within a cpu", "gpu")
        for (first, cpu), (second, _) in combinations(zip(names, cpus, strict=True), 2):
            self.cables.append(ReadCable.both_ways(first, second, self._between_cpus(cpu) * GIGA))
        self.links = [cable for name, gpu in self.gpus.items() for cable in self._links(name, gpu)]

    def _walk(self, element: Element, parent: str, cpu: str) -> None:
        """The cables below a CPU, or a PCI switch below it."""
        for child in element:
            if child.tag == "pci":
                name = self._name(child)
                self.by_address[child.get("busid", "")] = name
                latency = PCI_LATENCY // 2 if name in self.gpus else 0
                self.cables.append(ReadCable.both_ways(parent, name, self._pci_rate(child), latency))
                for link in child.iterfind("gpu/c2c"):
                    rate = self._whole(link, "bw") * self._whole(link, "count") / 1000 * GIGA
                    self.cables.append(ReadCable.both_ways(cpu, name, rate, latency))
                self._walk(child, name, cpu)
            elif child.tag == "nic":
                for number, net in enumerate(child.iter("net")):
                    self._add_adapter(net, parent, number)

    def _name(self, pci: Element) -> str:
        """The GPU of a PCI device, or the device itself."""
        gpu = pci.find("gpu")
        if gpu is None:
            return plain_name(f"{self.prefix}pci{pci.get('busid', len(self.by_address))}")
        name = plain_name(f"{self.prefix}gpu{gpu.get('dev', len(self.gpus))}")
        if name in self.gpus:
            raise self.source.error("must differ from GPU to GPU", "gpu.dev", gpu.get("dev"))
        self.gpus[name] = gpu
        return name

    def _add_adapter(self, net: Element, parent: str, number: int) -> None:
        name = plain_name(f"{self.prefix}{net.get('name') or f'nic{len(self.adapters)}'}")
        if name in self.adapters:
            name = f"{name}.{net.get('port', number)}"
        speed = self._whole(net, "speed", usual="0")
        if speed > FASTEST_ADAPTER:
            raise self.source.error(f"must be at most {FASTEST_ADAPTER} Mbit/s", "net.speed", speed)
        self.adapters[name] = (speed / MEGABITS_PER_GIGABYTE if speed > 0 else NO_SPEED) * GIGA
        self.cables.append(ReadCable.both_ways(parent, name, self.adapters[name]))

    def _pci_rate(self, pci: Element) -> float:
        lanes = self._whole(pci, "link_width", usual="0") or UNKNOWN_LANES
        units = PCI_BANDWIDTH_PER_LANE.get(pci_speed(pci), UNKNOWN_PCI)
        return max(lanes, 1) * units / PCI_UNITS_PER_GIGABYTE * GIGA

    def _between_cpus(self, cpu: Element) -> float:
        if cpu.get("vendor") == "GenuineIntel" and cpu.get("familyid") == "6":
            model = self._whole(cpu, "modelid", usual="0")
            return _last_below(BETWEEN_INTEL_CPUS, model) or OLD_INTEL
        by_vendor = BETWEEN_CPUS.get(cpu.get("vendor", ""), BETWEEN_CPUS["GenuineIntel"])
        return BETWEEN_CPUS_BY_ARCHITECTURE.get(cpu.get("arch", ""), by_vendor)

    def _links(self, name: str, gpu: Element) -> Iterator[ReadCable]:
        """What a GPU sends over NVLinks or XGMI; links between GPUs stand at both of them."""
        for link in (*gpu.iter("nvlink"), *gpu.iter("xgmi")):
            rate = (self._nvlink if link.tag == "nvlink" else self._xgmi)(gpu) * self._whole(link, "count") * GIGA
            if not rate:
                continue
            if link.get("tclass") == SWITCH_CLASS:
                yield ReadCable.both_ways(name, self.switch, rate, NVLINK_LATENCY // 2)
            elif link.get("tclass") != CPU_CLASS:
                target = self.by_address.get(link.get("target", ""))
                if target not in self.gpus or target == name:
                    rule = "must be the address of another GPU"
                    raise self.source.error(rule, f"{link.tag}.target", link.get("target"))
                yield ReadCable(name, target, rate, 0.0, NVLINK_LATENCY)

    def _xgmi(self, gpu: Element) -> float:
        name = gpu.get("gcn", "").removeprefix("gfx")
        return next(rate for start, rate in XGMI_BANDWIDTH.items() if name.startswith(start))

    def _nvlink(self, gpu: Element) -> float:
        rate = _last_below(NVLINK_BANDWIDTH, self._whole(gpu, "sm"))
        if rate is None:
            rule = "must be 60 to 129: the bandwidth of other NVLinks is not known"
            raise self.source.error(rule, "gpu.sm", gpu.get("sm"))
        return rate

    def _whole(self, element: Element, name: str, usual: str | None = None) -> int:
        """A whole number. Raises InputError if it is none."""
        text = element.get(name, usual)
        if text is None or not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise self.source.error("must be a whole number", f"{element.tag}.{name}", text)
        return self.source.whole(int(text), f"{element.tag}.{name}", least=-1, most=10**9)

    def outside(self) -> Iterator[ReadCable]:
        """The cables of the adapters to the switch between nodes."""
        if not self.adapters:
            raise self.source.error("must describe a network adapter, since there are several nodes", "net")
        for name, rate in self.adapters.items():
            yield ReadCable.both_ways(name, FABRIC, rate, (NET_LATENCY - PCI_LATENCY) // 2)


def _last_below(steps: dict[int, float | None], value: int) -> float | None:
    """The value of the last step that a number reaches, none below the first one."""
    return next((step for start, step in reversed(steps.items()) if value >= start), None)
