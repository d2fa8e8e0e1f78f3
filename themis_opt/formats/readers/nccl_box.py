"""Nodes of NCCL topologies as graphs: GPUs, NVLinks, the tree of PCI switches, CPUs and adapters.

Latencies are half of a step of NCCL's model at either end: of NVLinks, of PCI, and of adapters behind PCI.
A PCI link without a width has 16 lanes; GB/s between CPUs are those of NCCL for the oldest model of each vendor.
Source: https://github.com/NVIDIA/nccl, ``src/graph/topo.cc`` and ``topo.h`` (2.30).
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from xml.etree.ElementTree import Element

from themis_opt.base.sources import Source
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, simplified
from themis_opt.formats.readers.nccl_topology import (
    PCI_BANDWIDTH_PER_LANE,
    adapter_speed,
    gpu_links,
    whole_attribute,
)
from themis_opt.graphs.problem import GraphNetwork

GIGA = 1e9
NVLINK_LATENCY, PCI_LATENCY, NET_LATENCY = 3_400_000, 5_700_000, 14_000_000
"""Picoseconds of a step from GPU to GPU."""

BETWEEN_CPUS = {"GenuineIntel": 10.0, "AuthenticAMD": 16.0, "CentaurHauls": 6.0, "  Shanghai  ": 6.0}
BETWEEN_CPUS_BY_ARCHITECTURE = {"ppc64": 32.0, "arm64": 6.0}
USUAL_BETWEEN_CPUS = 10.0
SWITCH_CLASS, CPU_CLASS = "0x068000", "0x068001"
FABRIC = "net"


def boxes(name: str, boxes_of: Sequence[tuple[Source, Element]]) -> GraphNetwork:
    """The graph of some nodes, whose adapters meet in one switch."""
    walks = [_Box(source, root, f"box{number}.") for number, (source, root) in enumerate(boxes_of)]
    npus = [npu for walk in walks for npu in walk.gpus]
    cables = [cable for walk in walks for cable in walk.cables]
    named = [adapter for walk in walks for adapter in walk.adapters]
    if len(walks) > 1:
        cables += [cable for walk in walks for cable in walk.outside()]
    ways = simplified(npus, cables, named)
    return cabled(plain_name(name), reached(npus, ways), ways)


class _Box:
    """A node, walked from its CPUs to GPUs and adapters."""

    def __init__(self, source: Source, root: Element, prefix: str) -> None:
        self.source, self.prefix = source, prefix
        self.gpus: dict[str, Element] = {}
        self.adapters: dict[str, float] = {}
        self.cables: list[ReadCable] = []
        self.by_address: dict[str, str] = {}
        cpus = [(f"{prefix}cpu{cpu.get('numaid', number)}", cpu) for number, cpu in enumerate(root.iter("cpu"))]
        for name, cpu in cpus:
            self._walk(cpu, name)
        if not self.gpus:
            raise source.error("must describe a GPU within a cpu", "gpu")
        for (first, cpu), (second, _) in combinations(cpus, 2):
            by_vendor = BETWEEN_CPUS.get(cpu.get("vendor", ""), USUAL_BETWEEN_CPUS)
            rate = BETWEEN_CPUS_BY_ARCHITECTURE.get(cpu.get("arch", ""), by_vendor)
            self.cables.append(ReadCable.both_ways(first, second, rate * GIGA))
        for name, gpu in self.gpus.items():
            self.cables += self._links(name, gpu)

    def _walk(self, element: Element, parent: str) -> None:
        """The cables below a CPU or a PCI switch."""
        for child in element:
            if child.tag == "pci":
                name = self._name(child)
                self.by_address[child.get("busid", "")] = name
                latency = PCI_LATENCY // 2 if name in self.gpus else 0
                self.cables.append(ReadCable.both_ways(parent, name, self._pci_rate(child), latency))
                self._walk(child, name)
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
        rate = adapter_speed(self.source, net) * GIGA
        self.adapters[name] = rate
        self.cables.append(ReadCable.both_ways(parent, name, rate))

    def _pci_rate(self, pci: Element) -> float:
        speed = (pci.get("link_speed") or "").split(" ")[0].removesuffix(".0")
        lanes = whole_attribute(self.source, pci, "link_width", usual="0") or 16
        per_lane = float(self.source.choice(speed, PCI_BANDWIDTH_PER_LANE, "pci.link_speed"))
        return per_lane * max(lanes, 1) * GIGA

    def _links(self, name: str, gpu: Element) -> Iterator[ReadCable]:
        """What a GPU sends over NVLinks or XGMI; links between GPUs stand at both of them."""
        for link, gigabytes in gpu_links(self.source, gpu):
            rate = gigabytes * GIGA
            if link.get("tclass") == SWITCH_CLASS:
                yield ReadCable.both_ways(name, f"{self.prefix}nvswitch", rate, NVLINK_LATENCY // 2)
            elif link.get("tclass") != CPU_CLASS:
                target = self.by_address.get(link.get("target", ""))
                if target not in self.gpus or target == name:
                    raise self.source.error(
                        "must be the address of another GPU", f"{link.tag}.target", link.get("target")
                    )
                yield ReadCable(name, target, rate, 0.0, NVLINK_LATENCY)

    def outside(self) -> Iterator[ReadCable]:
        """The cables of the adapters to the switch between nodes."""
        if not self.adapters:
            raise self.source.error("must describe a network adapter, since there are several nodes", "net")
        for name, rate in self.adapters.items():
            yield ReadCable.both_ways(name, FABRIC, rate, (NET_LATENCY - PCI_LATENCY) // 2)
