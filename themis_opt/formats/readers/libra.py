"""Inputs of LIBRA: network and communicators (YAML), workload (text) and prices (YAML).

A network says kinds and sizes of dimensions, and leaves their bandwidths open, which LIBRA looks for.  Communicators
say over how many NPUs of each dimension the collectives of a pass go, -1 for none.  A workload has the layers of an
ASTRA-sim 1 workload without its first two lines.  Compute and collectives run one after the other (``no_overlap.py``).
An all-gather has the bytes that an NPU puts in, all others what they start with.  GB/s are 10^9 bytes per second, and
latencies are none.
Source: https://github.com/astra-sim/libra, ``inputs`` and ``src``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.formats.readers.astra_sim_1_workload import WorkloadLayer, layer_of
from themis_opt.formats.readers.astra_sim_network import TOPOLOGY_KINDS
from themis_opt.formats.readers.draft import Draft, needs_network
from themis_opt.formats.readers.parts import Machine, Part, Reader, only
from themis_opt.problem.fields import MAX_DIMENSIONS, MAX_NPUS
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import Split
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind

LIBRA_FIELDS = ("Topology", "NpusCount", "CostDimension")
LIBRA_PASSES = ("Forward", "InputGrad", "WeightGrad")
PARTS_WITH_PRICES = ("Link", "Switch", "Nic")
OPEN = (
    "LIBRA: the files leave bandwidths open; those here are what --bandwidths says. 'themis-opt design' finds them, "
    "with this instance as a workload. GB/s are 10^9 bytes per second, and nothing has a latency."
)
ONE_BY_ONE = (
    "LIBRA: compute and collectives run one after the other, and times are nanoseconds unless --time-unit says "
    "otherwise."
)


def _lists(source: Source, names: Sequence[str]) -> list[list[Any]]:
    """Lists of equal length by name."""
    document = source.yaml_object()
    source.check_keys(document, names, names)
    columns = [document[name] for name in names]
    for name, values in zip(names, columns, strict=True):
        if not isinstance(values, list) or len(values) != len(columns[0]) or not 1 <= len(values) <= MAX_DIMENSIONS:
            raise source.error(f"must be a list as long as {names[0]}, 1 to {MAX_DIMENSIONS}", name, values)
    return columns


def _network(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    kinds, sizes, names = _lists(source, LIBRA_FIELDS)
    chosen = [source.choice(kind, TOPOLOGY_KINDS, f"Topology[{k}]") for k, kind in enumerate(kinds)]
    counts = [source.whole(size, f"NpusCount[{k}]", least=2, most=MAX_NPUS) for k, size in enumerate(sizes)]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise source.error("must be names that differ", "CostDimension", names)

    def build(bandwidths: Mapping[str, float]) -> Network:
        missing = [name for name in names if name not in bandwidths]
        if missing:
            rule = f"must say the bandwidth of {', '.join(missing)}, as in {missing[0]}=100GB/s"
            raise InputError(rule, field="--bandwidths", source=str(source))
        rows = (
            Dimension(name=name, kind=kind, size=size, bandwidth=f"{bandwidths[name]:.12g} B/s", latency="0 ns")
            for name, kind, size in zip(names, chosen, counts, strict=True)
        )
        return Network(name=source.path.name.partition(".")[0], dimensions=tuple(rows))

    return Part(open_network=build, notes=(OPEN,))


def _communicators(sources: Sequence[Source]) -> Part:
    source = only(sources, "communicator")
    columns = _lists(source, LIBRA_PASSES)
    for name, column in zip(LIBRA_PASSES, columns, strict=True):
        for k, size in enumerate(column):
            if size != -1:
                source.whole(size, f"{name}[{k}]", least=2, most=MAX_NPUS)
    return Part(
        change=lambda machine: replace(machine, groups=dict(zip(LIBRA_PASSES, map(tuple, columns), strict=True)))
    )


def _workload(sources: Sequence[Source]) -> Part:
    source = only(sources, "workload")
    layers = tuple(layer_of(source, "DATA", number, line.split()) for number, line in source.lines)
    return Part(workload=lambda machine: _built(source, layers, needs_network(source, machine)), notes=(ONE_BY_ONE,))


def _built(source: Source, layers: Sequence[WorkloadLayer], machine: Machine) -> Instance:
    sizes, names = machine.network.sizes, machine.network.dimension_names
    if not machine.groups.keys() >= set(LIBRA_PASSES):
        raise source.error("says nothing of communicators: name LIBRA's file of them too")
    if any(len(machine.groups[name]) != len(sizes) for name in LIBRA_PASSES):
        raise source.error(f"communicators must have one entry for each of the {len(sizes)} dimensions")
    splits = [split for k in range(len(sizes)) for split in _split(source, machine, k)]
    spans = {name: _span(machine.groups[name], sizes, names, splits) for name in LIBRA_PASSES}
    passes = [("Forward", layer.name, layer.forward) for layer in layers]
    for layer in reversed(layers):
        passes += [("InputGrad", layer.name, layer.inputs), ("WeightGrad", layer.name, layer.weights)]
    draft = Draft(source)
    tasks = [draft.compute(f"{name}.{which}", each.time * machine.time_unit) for which, name, each in passes]
    for place, (which, name, each) in enumerate(passes):
        if each.kind is not None:
            npus = math.prod(size for size in machine.groups[which] if size > 0)
            size = each.size * npus if each.kind is CollectiveKind.ALL_GATHER else each.size
            after = tasks[(place + 1) % len(tasks)]
            draft.exchange(f"{name}.{which}", each.kind, size, (tasks[place], after), spans[which], parallelism="model")
    return draft.instance(f"{machine.network.name} {source.path.name.partition('.')[0]}", machine, splits)


def _split(source: Source, machine: Machine, k: int) -> list[Split]:
    """The split of a dimension of which communicators take a part; the part of the first of them lies inside."""
    size, name = machine.network.sizes[k], machine.network.dimension_names[k]
    parts = {which: machine.groups[which][k] for which in LIBRA_PASSES if machine.groups[which][k] not in (-1, size)}
    if not parts:
        return []
    inner = next(iter(parts.values()))
    for which, part in parts.items():
        if size % inner or part not in (inner, size // inner):
            raise source.error(f"parts of the {size} NPUs of {name} must multiply to it", which, part)
    return [Split(dimension=name, sizes=(inner, size // inner), names=(f"{name}_in", f"{name}_out"), shared=True)]


def _span(group: Sequence[int], sizes: Sequence[int], names: Sequence[str], splits: Sequence[Split]) -> tuple[str, ...]:
    """Dimensions, or parts of them, of a communicator."""
    by_name = {split.dimension: split for split in splits}
    span: list[str] = []
    for part, size, name in zip(group, sizes, names, strict=True):
        if part == -1:
            continue
        split = by_name.get(name)
        if split is None:
            span.append(name)
        elif part == size:
            span += split.names
        else:
            span.append(split.names[split.sizes.index(part)])
    return tuple(span)


def _prices(sources: Sequence[Source]) -> Part:
    source = only(sources, "cost model")
    document = source.yaml_object()
    rows = []
    for name, prices in document.items():
        if not isinstance(prices, dict):
            raise source.error("must be prices of Link, Switch and Nic", name, prices)
        source.check_keys(prices, PARTS_WITH_PRICES)
        numbers = {part: f"{source.number(prices[part], f'{name}.{part}'):g}" for part in prices}
        rows.append({"dimension": name, **{part.lower(): numbers.get(part, "") for part in PARTS_WITH_PRICES}})
    return Part(tables={"prices in dollars per GB/s, as 'design' takes them": rows})


def _has(*names: str) -> Any:
    return lambda source: all(f"{name}:" in source.head for name in names)


def _is_layers(source: Source) -> bool:
    words = source.head.split("\n", 1)[0].split()
    return len(words) == 12 and words[1] == "-1"


LIBRA_NETWORK = Reader("network of LIBRA", ("yml", "yaml"), _has("Topology", "NpusCount"), _network)
LIBRA_GROUPS = Reader("communicators of LIBRA", ("yml", "yaml"), _has(*LIBRA_PASSES), _communicators)
LIBRA_PRICES = Reader("prices of LIBRA", ("yml", "yaml"), _has("  Link"), _prices)
LIBRA_LAYERS = Reader("workload of LIBRA (text)", ("txt",), _is_layers, _workload)
