"""System files (JSON) of ASTRA-sim 2: algorithms, chunks, delays and memory bandwidth.

Source: https://github.com/astra-sim/astra-sim, ``astra-sim/system/Sys.cc`` (``initialize_sys``) and
``CollectiveImplLookup.cc``.  Native algorithms in one queue per dimension, which is the default, send one way round a
ring, and over one link at a time where they halve and double.  After each step an NPU waits for the endpoint delay,
and once more at the end of a stage.  To sum it reads twice and writes once: at a third of the bandwidth of memory.
``PacketBundle.cc`` charges a sum of ``direct`` for one message, one of halving-doubling for all but the first.
All-to-alls in a ring go one way round, one hop and one message at a time (``AllToAll.cc``), whatever the wires are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, format_bandwidth, format_time
from themis_opt.formats.readers.astra_sim_network import links, nanoseconds
from themis_opt.formats.readers.parts import NEWEST_FIRST, Machine, Part, Reader, only
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Kind
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.problem.wiring import blocks_sent, steps

SYSTEM_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
ALL_TO_ALL = "all-to-all-implementation"
NATIVE = tuple(f"{collective}-implementation" for collective in SYSTEM_COLLECTIVES)
CUSTOM = tuple(f"{name}-custom" for name in NATIVE)
USED = ("endpoint-delay", "active-chunks-per-dimension", "preferred-dataset-splits", "local-mem-bw", "peak-perf")
SCHEDULING_POLICIES: Mapping[str, tuple[str, ...]] = {
    "scheduling-policy": ("LIFO", "FIFO", "EXPLICIT"),
    "collective-optimization": ("baseline", "localBWAware"),
}
IGNORED = (
    *("L", "o", "g", "G", "model-shared-bus", "local-reduction-delay", "roofline-enabled", "trace-enabled"),
    *("replay-only", "track-local-mem", "local-mem-trace-filename", "per-node-custom-implementation", "boost-mode"),
)
"""Fields without influence on collectives in our model, or at all: notes say so where one is not zero."""

SYSTEM_FIELDS = (*USED, *SCHEDULING_POLICIES, *NATIVE, *CUSTOM, *IGNORED)
ASTRA_SIM_ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": Algorithm.RING,
    "direct": Algorithm.DIRECT,
    "halvingDoubling": Algorithm.HALVING_DOUBLING,
}
ACCESSES_PER_SUM = 3  # two reads and a write


CYCLES = "ASTRA-sim: a cycle is a nanosecond; a chunk alone in its dimension also holds it for the latency."

DIRECT_SHARES = (
    "Messages of 'direct' share the links of an NPU on a switch or ring; the congestion-unaware back end lets them "
    "pass beside each other, and is up to 6.5 times as fast."
)
NO_EXCHANGE = "The simulator has no all-to-all by halvingDoubling, and ends with an error where this predicts a time."
AT_ONCE = (
    "Several active chunks per dimension are outside of what is exact: here one sends at a time, and latencies of all "
    "overlap; the simulator starts a chunk when one ends."
)


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "system")
    document = source.json_object()
    source.check_keys(document, SYSTEM_FIELDS)
    for name, known in SCHEDULING_POLICIES.items():
        source.choice(document.get(name, known[0]), dict.fromkeys(known), name)
    numbers = {name: source.number(document[name], name, most=1e12) for name in USED if name in document}
    if "preferred-dataset-splits" in document:
        source.whole(document["preferred-dataset-splits"], "preferred-dataset-splits", least=1, most=MAX_CHUNKS)
    by_collective: dict[str, tuple[Algorithm, ...]] = {}
    for name in (name for name in NATIVE if name in document):
        values = document[name]
        if not isinstance(values, list) or not values:
            raise source.error("must be a list with one algorithm per dimension", name, values)
        plain = (re.sub(r"^direct[0-9]+$", "direct", v) if isinstance(v, str) else v for v in values)  # of any window
        by_collective[name] = tuple(
            source.choice(value, ASTRA_SIM_ALGORITHMS, f"{name}[{k}]") for k, value in enumerate(plain)
        )
    chosen = algorithms(source, by_collective)
    return Part(
        change=lambda machine: executed(
            source, machine, chosen, numbers, newest_first=document.get("scheduling-policy") == "LIFO"
        ),
        finish=lambda instance: as_exchanged(instance, chosen, by_collective.get(ALL_TO_ALL, ())),
        notes=tuple(_notes(document, chosen)),
    )


def algorithms(source: Source, by_collective: Mapping[str, tuple[Algorithm, ...]]) -> tuple[Algorithm, ...]:
    """The algorithm of each dimension, which is the same for all collectives that reduce or gather; none if not given.

    Raises InputError if collectives differ.
    """
    gathering = {name: chosen for name, chosen in by_collective.items() if name != ALL_TO_ALL}
    first, expected = next(iter((gathering or by_collective).items()), ("", ()))
    for name, chosen in gathering.items():
        if chosen != expected:
            raise source.error(f"must be that of {first}: a dimension has one algorithm", name, ", ".join(chosen))
    return expected


def one_queue(dimension: Dimension, algorithm: Algorithm) -> float:
    """Share of the links of an NPU that an algorithm uses at a time in one queue per dimension."""
    return 1.0 if algorithm is Algorithm.DIRECT else 1 / links(dimension.kind, dimension.size)


def _sums_at(memory: float, dimension: Dimension, algorithm: Algorithm | None) -> str | None:
    """The rate at which an NPU sums whatever it receives, from that of memory and what the simulator charges."""
    received, charged = dimension.size - 1, dimension.size - 1.0
    if algorithm is Algorithm.DIRECT:
        charged = 1
    elif algorithm is Algorithm.HALVING_DOUBLING:
        charged = dimension.size / 2 - 1
    return format_bandwidth(memory / ACCESSES_PER_SUM * received / charged) if charged else None


def executed(
    source: Source, machine: Machine, chosen: Sequence[Algorithm], numbers: Mapping[str, float], *, newest_first: bool
) -> Machine:
    """The machine on which native algorithms run, with the delays and rates of the system.

    Raises InputError if there are not as many algorithms as dimensions.

    `chosen`: of each dimension; none if not given.
    `numbers`: values of :data:`USED` that are given.
    `newest_first`: whether a collective goes before those that wait already (LIFO).
    """
    num_dimensions = len(machine.network.dimensions)
    if chosen and len(chosen) != num_dimensions:
        rule = f"must have one algorithm for each of the {num_dimensions} dimensions of the network"
        raise source.error(rule, "implementation", f"{len(chosen)} algorithms")
    delay = round(numbers.get("endpoint-delay", 0) * PICOSECONDS_PER_NANOSECOND)
    memory = numbers.get("local-mem-bw", 0.0) * 1e9

    def changes(k: int, dimension: Dimension) -> Mapping[str, Any]:
        changed: dict[str, Any] = {}
        if chosen:
            bandwidth = format_bandwidth(dimension.bandwidth * one_queue(dimension, chosen[k]))
            changed = {"algorithm": chosen[k].value, "bandwidth": bandwidth}
        if delay:
            changed["latency"] = format_time(dimension.latency + delay)
            changed["launch_overhead"] = nanoseconds(numbers["endpoint-delay"])
        if memory:
            changed["reduction"] = _sums_at(memory, dimension, chosen[k] if chosen else None)
        return changed

    dimensions = tuple(each.replace(**changes(k, each)) for k, each in enumerate(machine.network.dimensions))
    return replace(
        machine,
        network=machine.network.replace(dimensions=dimensions),
        chunks=int(numbers.get("preferred-dataset-splits", machine.chunks)),
        latency="occupy" if numbers.get("active-chunks-per-dimension", 1) == 1 else "lag",
        flops=numbers["peak-perf"] * 1e12 if numbers.get("peak-perf") else None,
        memory_bandwidth=memory or None,
        launching=NEWEST_FIRST if newest_first else machine.launching,
    )


def as_exchanged(
    instance: Instance, chosen: Sequence[Algorithm], exchanging: Sequence[Algorithm]
) -> tuple[Instance, tuple[str, ...]]:
    """The problem with all-to-alls as the simulator runs them, and notes where it has no place for that.

    `chosen`: algorithm of each dimension for collectives that reduce or gather.
    `exchanging`: that for all-to-alls.
    """
    dimensions = instance.network.dimensions
    direct = (each for each in dimensions if each.basic_algorithm is Algorithm.DIRECT)
    notes = [DIRECT_SHARES] if any(each.kind is not Kind.FULLY_CONNECTED for each in direct) else []
    are_exchanges = {exchange.kind is CollectiveKind.ALL_TO_ALL for exchange in instance.exchanges}
    if True in are_exchanges and Algorithm.HALVING_DOUBLING in exchanging:
        notes.append(NO_EXCHANGE)
    if True not in are_exchanges or len(exchanging) != len(dimensions):
        return instance, tuple(notes)
    changed = [_exchanging(*each) for each in zip(dimensions, chosen, exchanging, strict=True)]
    if False not in are_exchanges:
        network = instance.network.replace(dimensions=tuple(changed))
        return instance.replace(network=network), tuple(notes)
    ratios = [_exchange_time(after) / _exchange_time(before) for before, after in zip(dimensions, changed, strict=True)]
    if any(ratio != 1 for ratio in ratios):
        times = ", ".join(f"{ratio:.3g}" for ratio in ratios)
        notes.append(f"All-to-alls stand beside others, so the simulator takes {times} times as long for them.")
    return instance, tuple(notes)


def _exchanging(dimension: Dimension, chosen: Algorithm, algorithm: Algorithm) -> Dimension:
    """A dimension that takes as long for an all-to-all as the simulator with an algorithm."""
    bandwidth = dimension.bandwidth * one_queue(dimension, algorithm) / one_queue(dimension, chosen)
    changed = dimension.replace(algorithm=algorithm.value, bandwidth=format_bandwidth(bandwidth))
    if algorithm is not Algorithm.RING:
        return changed
    phase, hops = Phase.ALL_TO_ALL, dimension.size * (dimension.size - 1) // 2
    return changed.replace(
        bandwidth=format_bandwidth(changed.bandwidth * blocks_sent(changed, phase) / hops),
        latency=format_time(dimension.latency * hops // steps(changed, phase)),
    )


def _exchange_time(dimension: Dimension) -> float:
    """Time for which an all-to-all of many bytes holds a dimension, in any unit."""
    return blocks_sent(dimension, Phase.ALL_TO_ALL) / dimension.bandwidth


def _notes(document: Mapping[str, Any], chosen: Sequence[Algorithm]) -> list[str]:
    notes = [CYCLES]
    if any(algorithm is not Algorithm.DIRECT for algorithm in chosen):
        notes.append(
            "Rings and halving-doubling use one link of an NPU at a time, as native algorithms do in one queue per "
            "dimension."
        )
    if document.get("active-chunks-per-dimension", 1) != 1:
        notes.append(AT_ONCE)
    if any(name in document for name in CUSTOM):
        notes.append("Custom collectives are not read: every dimension has the algorithm usual for its kind.")
    silent = [name for name in IGNORED if document.get(name) not in (None, 0, "", False) and name != "boost-mode"]
    if silent:
        notes.append(f"Without influence here: {', '.join(silent)}.")
    return notes


READER = Reader("system of ASTRA-sim 2", ("json",), lambda source: len(source.keys() & set(SYSTEM_FIELDS)) >= 2, _read)
