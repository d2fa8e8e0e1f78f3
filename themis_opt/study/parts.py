"""The part of a network that a log measured: from the hosts and ranks that it names."""

import math
from collections.abc import Mapping, Sequence

from themis_opt.base.errors import InputError
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.parts import dimensions_by_size, extents
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.wiring import Kind

NetworkPart = Mapping[str, int]  # NPUs along each of its dimensions, by name

CUT = (Kind.SWITCH, Kind.FULLY_CONNECTED)  # kinds of which some NPUs are wired like all of them


def parse_part(text: str, network: Network) -> NetworkPart:
    """NPUs of dimensions, such as ``rail=4``; dimensions without a number are whole, and 1 leaves one out.

    Raises InputError if a dimension is unknown, or has no such part.
    """
    stated = dict(zip(network.dimension_names, network.sizes, strict=True))
    for words in text.split(","):
        name, _, number = (word.strip() for word in words.partition("="))
        if name not in stated or not number.isdecimal() or not 1 <= int(number) <= stated[name]:
            known = ", ".join(f"{known}=1..{size}" for known, size in stated.items())
            raise InputError(f"must name dimensions with NPUs: {known}", field="--part", value=words)
        stated[name] = int(number)
    return {name: size for name, size in stated.items() if size > 1}


def part_of(network: Network, measurement: Measurement) -> NetworkPart:
    """The part that a group fills: by its ranks, else by its hosts, else by the number of its NPUs.

    Raises InputError if the group fits nowhere, or in several places.
    """
    if measurement.ranks:
        along = extents(network, measurement.ranks)
        parts: list[NetworkPart] = [along] if along and _can_be_cut(network, along) else []
    elif measurement.hosts:
        parts = _by_hosts(network, measurement.num_npus // measurement.hosts, measurement.hosts)
    elif measurement.num_npus == network.num_npus:
        parts = [dict(zip(network.dimension_names, network.sizes, strict=True))]
    else:
        names = dimensions_by_size(measurement.num_npus, network)
        parts = [{name: network.sizes[network.dimension_names.index(name)] for name in names}] if names else []
    if len(parts) != 1:
        shape = " x ".join(f"{size} {name}" for name, size in zip(network.dimension_names, network.sizes, strict=True))
        hosts = f" on {measurement.hosts} host{'s' * (measurement.hosts > 1)}" if measurement.hosts else ""
        rule = f"NPUs{hosts} fill no part of the network of {shape}, or several: state it by --part"
        raise InputError(rule, field="--measured", value=measurement.num_npus)
    return parts[0]


def _by_hosts(network: Network, gpus: int, hosts: int) -> list[NetworkPart]:
    """The parts whose inner dimensions hold the GPUs of a host, and whose outer ones hold the hosts.

    Parts of whole dimensions come before others.  An NPU alone is a host only where nothing else fits, and the hosts
    fill the network, or a part of its only dimension.
    """
    sizes = dict(zip(network.dimension_names, network.sizes, strict=True))
    dimensions = len(sizes)
    is_flat = dimensions == 1 or hosts == network.num_npus
    parts = _splits(network, gpus, hosts, range(1, dimensions + 1))
    if not parts and is_flat:
        parts = _splits(network, gpus, hosts, range(1))
    return [part for part in parts if all(size == sizes[name] for name, size in part.items())] or parts


def _splits(network: Network, gpus: int, hosts: int, splits: Sequence[int]) -> list[NetworkPart]:
    """The different parts with hosts of so many dimensions."""
    parts: list[NetworkPart] = []
    places = range(len(network.sizes))
    for split in splits:
        inner, outer = _filled(network, places[:split], gpus), _filled(network, places[split:], hosts)
        if inner is not None and outer is not None and {**inner, **outer} not in parts:
            parts.append({**inner, **outer})
    return parts


def _filled(network: Network, places: Sequence[int], npus: int) -> NetworkPart | None:
    """NPUs along dimensions, the innermost first, all of them whole or a part of the first one alone."""
    part: dict[str, int] = {}
    for k in places:
        if npus == 1:
            break
        size = min(npus, network.sizes[k])
        if npus % size or (size < network.sizes[k] and part):
            return None
        npus //= size
        part[network.dimension_names[k]] = size
    return part if npus == 1 and _can_be_cut(network, part) else None


def _can_be_cut(network: Network, part: NetworkPart) -> bool:
    dimensions = dict(zip(network.dimension_names, network.dimensions, strict=True))
    return all(size == dimensions[name].size or dimensions[name].kind in CUT for name, size in part.items())


def problem_of(instance: Instance, measurement: Measurement, part: NetworkPart) -> Instance:
    """What was measured, as a separate problem on the part of the network.

    Raises InputError if the part has another number of NPUs.
    """
    network, size = instance.network, measurement.size
    if math.prod(part.values()) != measurement.num_npus:
        shape = " x ".join(f"{size} {name}" for name, size in part.items())
        raise InputError(f"{shape} are not the {measurement.num_npus} NPUs of the log", field="--part")
    if len(part) > 1 and any(phase.rule.shifts for phase in measurement.kind.rule.phases):
        rule = "sends between hosts use one NPU of each: measure within a host, or with one NPU on each"
        raise InputError(rule, field="--measured", value=measurement.kind.value)
    named = zip(network.dimension_names, network.dimensions, strict=True)
    dimensions = tuple(_cut(dimension, part.get(name, dimension.size)) for name, dimension in named)
    element = 1 if size % 2 else 2
    collective = Collective(
        kind=measurement.kind,
        size=size,
        chunks=min(instance.exchanges[0].max_chunks, size // element),
        dimensions=None if len(part) == len(dimensions) else tuple(part),
        element_bytes=element,
    )
    rules = {"latency": instance.latency, "ag_order": instance.ag_order}
    cut = network.varied(dimensions=dimensions)
    return Instance(name=instance.name, network=cut, collectives=(collective,), **rules)


def _cut(dimension: Dimension, size: int) -> Dimension:
    """A dimension of fewer NPUs; where all are connected, each has the links to the others."""
    if size == dimension.size:
        return dimension
    if dimension.kind is Kind.FULLY_CONNECTED:
        dimension = dimension.faster((size - 1) / (dimension.size - 1))
    return dimension.replace(size=size)


def part_in_words(network: Network, part: NetworkPart) -> str:
    """The part, empty where it is the whole network: ``8 nvlink x 4 of 32 rail``."""
    sizes = dict(zip(network.dimension_names, network.sizes, strict=True))
    if dict(part) == sizes:
        return ""
    of = {name: "" if size == sizes[name] else f" of {sizes[name]}" for name, size in part.items()}
    return " x ".join(f"{size}{of[name]} {name}" for name, size in part.items())
