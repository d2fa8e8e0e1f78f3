"""Network files (JSON) of ASTRA-sim 1's analytical backend.

Lists of one length, innermost dimension first; six names are enough.  A link has ``link-bandwidth`` GB/s of 2^30 bytes
and ``link-latency`` nanoseconds, an NPU ``links-count`` links in a dimension, of which a ring uses an even number and
full connection a multiple of P - 1.  A message crosses one link, two and the router through a switch, and two NICs.
Source: https://github.com/astra-sim/astra-network-analytical, v1.0.0, README and ``HierarchicalTopology.cc``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import format_bandwidth
from themis_opt.formats.readers.astra_sim_network import GIGABYTE, HOPS, TOPOLOGY_KINDS, nanoseconds
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.problem.fields import MAX_DIMENSIONS, MAX_NPUS
from themis_opt.problem.network import Dimension, Kind, Network

REQUIRED_FIELDS = (
    "dimensions-count",
    "topologies-per-dim",
    "units-count",
    "links-count",
    "link-latency",
    "link-bandwidth",
)
DELAYS = ("nic-latency", "router-latency")
MEMORY = ("hbm-latency", "hbm-bandwidth", "hbm-scale")
NETWORK_1_FIELDS = (*REQUIRED_FIELDS, "topology-name", "dimension-type", *DELAYS, *MEMORY)


def _recognizes(source: Source) -> bool:
    return len(source.keys() & set(REQUIRED_FIELDS)) >= 3


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    document = source.json_object()
    source.check_keys(document, NETWORK_1_FIELDS, REQUIRED_FIELDS)
    source.choice(document.get("topology-name", "Hierarchical"), {"Hierarchical": True}, "topology-name")
    count = source.whole(document["dimensions-count"], "dimensions-count", least=1, most=MAX_DIMENSIONS)
    lists = [name for name in document if name not in ("dimensions-count", "topology-name")]
    columns = {name: _column(source, document, name, count) for name in lists}
    rows = [_dimension(source, {name: column[k] for name, column in columns.items()}, k) for k in range(count)]
    notes = [
        "ASTRA-sim 1: GB/s are 2^30 bytes per second of one link; the bandwidth of a dimension is that of the links of "
        "an NPU, of which a ring uses an even number."
    ]
    if any(columns.get("hbm-scale", ())):
        notes.append("Memory of the NPUs (hbm-*) is left out.")
    name = source.path.name.removesuffix(".json")
    return Part(network=Network(name=name, dimensions=tuple(rows)), notes=tuple(notes))


def _column(source: Source, document: Mapping[str, Any], name: str, count: int) -> list[Any]:
    values = document[name]
    if not isinstance(values, list) or len(values) != count:
        raise source.error(f"must be a list of {count} entries, as dimensions-count says", name, values)
    return values


def _dimension(source: Source, row: Mapping[str, Any], k: int) -> Dimension:
    kind: Kind = source.choice(row["topologies-per-dim"], TOPOLOGY_KINDS, f"topologies-per-dim[{k}]")
    size = source.whole(row["units-count"], f"units-count[{k}]", least=2, most=MAX_NPUS)
    links = _links(source, kind, size, row["links-count"], k)
    bandwidth = source.number(row["link-bandwidth"], f"link-bandwidth[{k}]", least=1e-6, most=1e9)
    delays = {name: source.number(row.get(name, 0), f"{name}[{k}]", most=1e12) for name in ("link-latency", *DELAYS)}
    latency = HOPS[kind] * delays["link-latency"] + 2 * delays["nic-latency"]
    if kind is Kind.SWITCH:
        latency += delays["router-latency"]
    return Dimension(
        kind=kind, size=size, bandwidth=format_bandwidth(links * bandwidth * GIGABYTE), latency=nanoseconds(latency)
    )


def _links(source: Source, kind: Kind, size: int, value: object, k: int) -> int:
    given = source.whole(value, f"links-count[{k}]", least=1, most=10**6)
    if kind is Kind.RING:
        return max(given - given % 2, 1)
    if kind is Kind.SWITCH:
        return given
    if given < size - 1:
        raise source.error(f"must be at least {size - 1}, one link to each of the others", f"links-count[{k}]", given)
    return given - given % (size - 1)


READER = Reader("network of ASTRA-sim 1 (analytical)", ("json",), _recognizes, _read)
