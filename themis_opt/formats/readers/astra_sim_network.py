"""Network files (YAML) of ASTRA-sim 2's analytical backends.

Four lists of equal length, innermost dimension first: ``topology`` (Ring, FullyConnected or Switch), ``npus_count``,
``bandwidth`` (GB/s of 2^30 bytes, of one link in one direction) and ``latency`` (nanoseconds of one link).
Source: https://github.com/astra-sim/astra-network-analytical, ``common/network-parser/NetworkParser.cpp``.

An NPU has links in both directions of a ring, to all others where all are connected, and one to a switch.  A step of
an algorithm crosses one link, two where a switch lies between.
"""

from collections.abc import Sequence
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import format_bandwidth
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.problem.fields import MAX_DIMENSIONS, MAX_NPUS
from themis_opt.problem.network import Dimension, Kind, Network

NETWORK_FIELDS = ("topology", "npus_count", "bandwidth", "latency")
TOPOLOGY_KINDS = {"Ring": Kind.RING, "FullyConnected": Kind.FULLY_CONNECTED, "Switch": Kind.SWITCH}
GIGABYTE = 2**30  # bytes of what these simulators call a GB
HOPS = {Kind.RING: 1, Kind.FULLY_CONNECTED: 1, Kind.SWITCH: 2}  # links that a message between neighbours crosses


def links(kind: Kind, size: int) -> int:
    """Links over which an NPU can send at once; the two of a ring of two NPUs are one."""
    return {Kind.RING: min(2, size - 1), Kind.FULLY_CONNECTED: size - 1, Kind.SWITCH: 1}[kind]


def nanoseconds(time: float) -> str:
    """A time in nanoseconds as a quantity."""
    return f"{time:.12g} ns"


def link_rows(source: Source) -> list[tuple[Kind, int, float, float]]:
    """Of each dimension its kind, NPUs, and GB/s and nanoseconds of one link. Raises InputError if it is no network."""
    document = source.yaml_object()
    source.check_keys(document, NETWORK_FIELDS, NETWORK_FIELDS)
    columns = [_list(source, document, name) for name in NETWORK_FIELDS]
    return [
        (
            source.choice(topology, TOPOLOGY_KINDS, f"topology[{number}]"),
            source.whole(count, f"npus_count[{number}]", least=2, most=MAX_NPUS),
            source.number(bandwidth, f"bandwidth[{number}]", least=1e-6, most=1e9),
            source.number(latency, f"latency[{number}]", most=1e12),
        )
        for number, (topology, count, bandwidth, latency) in enumerate(zip(*columns, strict=True))
    ]


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    rows = []
    for kind, size, of_link, latency in link_rows(source):
        bandwidth = format_bandwidth(links(kind, size) * of_link * GIGABYTE)
        rows.append(Dimension(kind=kind, size=size, bandwidth=bandwidth, latency=nanoseconds(HOPS[kind] * latency)))
    name = source.path.name.partition(".")[0]
    notes = [
        "ASTRA-sim: GB/s are 2^30 bytes per second of one link; the bandwidth of a dimension is that of all links of "
        "an NPU in one direction, and a step through a switch takes two link latencies."
    ]
    if any(row.kind is Kind.SWITCH for row in rows):
        notes.append("Switches of the congestion-aware back end store and forward, which takes up to twice as long.")
    return Part(network=Network(name=name, dimensions=tuple(rows)), notes=tuple(notes))


def _list(source: Source, document: dict[str, Any], name: str) -> list[Any]:
    values = document[name]
    if not isinstance(values, list):
        raise source.error("must be a list with one entry per dimension", name, values)
    expected = len(document[NETWORK_FIELDS[0]])
    if len(values) != expected or not 1 <= expected <= MAX_DIMENSIONS:
        rule = f"must have as many entries as {NETWORK_FIELDS[0]}, 1 to {MAX_DIMENSIONS}"
        raise source.error(rule, name, f"{len(values)} entries")
    return values


READER = Reader(
    "network of ASTRA-sim 2 (analytical)",
    ("yml", "yaml"),
    lambda source: sum(f"{name}:" in source.head for name in NETWORK_FIELDS) >= 2,
    _read,
)
