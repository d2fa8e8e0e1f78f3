"""The exporter ``astra-sim``: the inputs of a simulation that replays a schedule, and their check."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import (
    PICOSECONDS_PER_MICROSECOND,
    PICOSECONDS_PER_NANOSECOND,
    PICOSECONDS_PER_SECOND,
    nanoseconds,
)
from themis_opt.formats.astra_sim.interpreter import LinkNetwork, replay
from themis_opt.formats.chakra import Attributes, CommType, Node, NodeType, read_trace, write_trace
from themis_opt.formats.exports import Fact, Replay
from themis_opt.formats.readers.astra_sim_network import GIGABYTE, HOPS, TOPOLOGY_KINDS, links
from themis_opt.problem.cost import fixed_lag, fixed_occupancy
from themis_opt.problem.network import Algorithm, Dimension, Kind
from themis_opt.problem.phases import CollectiveKind, Data, Phase
from themis_opt.problem.rails import refuse_rails
from themis_opt.schedules.messages import stage_messages
from themis_opt.schedules.schedule import Schedule

ALGORITHMS_BY_STEP = (
    (Kind.RING, Algorithm.RING),
    (Kind.FULLY_CONNECTED, Algorithm.DIRECT),
    (Kind.SWITCH, Algorithm.HALVING_DOUBLING),
    (Kind.SWITCH, Algorithm.RING),
)
"""Whose messages use all links of an NPU, so that the simulator takes as long as the cost model says."""


class StepPeer(NamedTuple):
    """A message of an NPU: with which NPU along the dimension, which share of the bytes of the stage, and its way."""

    coordinate: int
    share: float
    receives: bool


Steps = list[list[list[StepPeer]]]  # messages per coordinate, step by step


def steps_by_message(phase: Phase, dimension: Dimension) -> Steps:
    """The messages of the basic algorithm.

    Raises InputError if the simulator would take another time for them than the cost model.
    """
    size, kind, algorithm = dimension.size, dimension.kind, dimension.basic_algorithm
    direct = phase.rule.data is Data.STAY and algorithm is not Algorithm.DIRECT
    if phase.rule.rooted or ((direct or (kind, algorithm) not in ALGORITHMS_BY_STEP) and size > 2):
        rule = f"{phase.name.lower()} by {algorithm} on a {kind} does not use all links at once; use level=stage"
        raise InputError(rule, field="level", value="step")
    steps: Steps = [[] for _ in range(size)]
    for messages in stage_messages(phase, dimension):
        shares = np.zeros((size, size))
        np.add.at(shares, (messages.source, messages.target), 1 / (size - 1))
        if kind is Kind.RING and size > 2:
            mirrored = -np.arange(size) % size
            shares = (shares + shares[np.ix_(mirrored, mirrored)]) / 2
        for coordinate in range(size):
            sends = [StepPeer(int(k), float(shares[coordinate, k]), False) for k in np.flatnonzero(shares[coordinate])]
            receives = [
                StepPeer(int(k), float(shares[k, coordinate]), True) for k in np.flatnonzero(shares[:, coordinate])
            ]
            steps[coordinate].append(sends + receives)
    return steps


@dataclass(frozen=True, eq=False)
class CustomCollective:
    """All collectives of a schedule as one custom collective."""

    schedule: Schedule  # without compute
    level: Literal["stage", "step"]  # how fine its messages are

    def __post_init__(self) -> None:
        instance = self.schedule.instance
        if self.schedule.has_period:
            rule = "a custom collective has no compute; export the collectives of an iteration alone"
            raise InputError(rule, field="iteration")
        refuse_rails(instance.fabric.dimensions, "ASTRA-sim")
        for k, dimension in enumerate(instance.fabric.dimensions):
            place = f"network.dimensions[{k}]"
            if dimension.kind not in HOPS:
                rule = "must be ring, fully_connected or switch, which ASTRA-sim knows"
                raise InputError(rule, field=f"{place}.kind", value=dimension.kind.value)
            if dimension.reduction is not None:
                rule = "must be none: sums take no time in a custom collective"
                raise InputError(rule, field=f"{place}.reduction", value=dimension.reduction)
            if self.level == "step" and dimension.launch_overhead:
                rule = "must be 0: a step has no place for it; use level=stage"
                raise InputError(rule, field=f"{place}.launch_overhead", value=dimension.launch_overhead)
        if (self.release % PICOSECONDS_PER_MICROSECOND).any():
            raise InputError("must be whole microseconds, which a trace can say", field="collectives.release")

    @cached_property
    def release(self) -> IntArray:
        """Release of every stage in picoseconds, shape (stages,)."""
        return self.schedule.plan.releases(self.schedule.instance)

    @cached_property
    def keys(self) -> list[tuple[Phase, int]]:
        """Phase and dimension of every stage."""
        phases = map(Phase, self.schedule.plan.phases(self.schedule.instance).tolist())
        return list(zip(phases, self.schedule.plan.stage_dimensions.tolist(), strict=True))

    @cached_property
    def wire_bytes(self) -> FloatArray:
        """Bytes that an NPU sends in every stage, with packet headers, shape (stages,)."""
        instance, costs = self.schedule.instance, self.schedule.costs
        phases, dimensions = self.schedule.plan.phases(instance), self.schedule.plan.stage_dimensions
        sending = costs.occupancy - fixed_occupancy(instance, phases, dimensions)
        bandwidth = np.array(instance.fabric.bandwidths)[dimensions]
        wire: FloatArray = np.maximum(np.rint(sending * bandwidth / PICOSECONDS_PER_SECOND), 1.0)
        return wire

    @cached_property
    def links(self) -> list[tuple[float, float]]:
        """Bytes per second and picoseconds of one link of every dimension.

        Raises InputError if stages on a dimension have different latencies, which one link cannot have.
        """
        return [self._link(k, dimension) for k, dimension in enumerate(self.schedule.instance.fabric.dimensions)]

    def _link(self, k: int, dimension: Dimension) -> tuple[float, float]:
        if self.level == "step":
            per_link = dimension.bandwidth / links(dimension.kind, dimension.size)
            return per_link, dimension.latency / HOPS[dimension.kind]
        instance, used = self.schedule.instance, {phase for phase, other in self.keys if other == k}
        fixed = {int(fixed_occupancy(instance, phase, k) + fixed_lag(instance, phase, k)) for phase in used}
        if len(fixed) > 1:
            name = instance.fabric.dimension_names[k]
            rule = f"stages on {name} have latencies of {sorted(fixed)} ps, a link has one; export collectives apart"
            raise InputError(rule, field="collectives")
        return dimension.bandwidth, max(fixed, default=0) / HOPS[dimension.kind]

    @cached_property
    def order(self) -> list[int]:
        """All stages by their starts, those of a chunk along its path."""
        plan = self.schedule.plan
        order: list[int] = np.lexsort((np.arange(plan.num_stages), plan.positions, self.schedule.start)).tolist()
        return order

    @cached_property
    def steps(self) -> dict[tuple[Phase, int], Steps]:
        """The messages of a stage by phase and dimension: at the level of stages one to the next neighbour."""
        dimensions, used = self.schedule.instance.fabric.dimensions, set(self.keys)
        if self.level == "step":
            return {(phase, k): steps_by_message(phase, dimensions[k]) for phase, k in used}
        return {
            (phase, k): [
                [[StepPeer((here + 1) % size, 1.0, False), StepPeer((here - 1) % size, 1.0, True)]]
                for size in [dimensions[k].size]
                for here in range(size)
            ]
            for phase, k in used
        }

    @cached_property
    def releases(self) -> list[int]:
        """Releases later than 0, each of which is a node that takes as long."""
        return sorted(set(self.release[self.release > 0].tolist()))

    @cached_property
    def nodes(self) -> dict[int, tuple[range, range]]:
        """The nodes of every stage, and those of its last step."""
        first, nodes = len(self.releases), {}
        for stage in self.order:
            counts = [len(step) for step in self.steps[self.keys[stage]][0]]
            end = first + sum(counts)
            nodes[stage] = range(first, end), range(end - counts[-1], end)
            first = end
        return nodes

    @property
    def num_nodes(self) -> int:
        """Nodes of one trace."""
        return len(self.releases) + sum(len(nodes) for nodes, _ in self.nodes.values())

    @cached_property
    def predecessors(self) -> dict[int, list[int]]:
        """Predecessors of every stage: the stages before it on the path of its chunk and on its dimension."""
        plan, last = self.schedule.plan, dict[int, int]()
        waits: dict[int, list[int]] = {}
        for stage in self.order:
            _, k = self.keys[stage]
            before = [stage - 1] if plan.positions[stage] else []
            before += [last[k]] if k in last and last[k] not in before else []
            waits[stage], last[k] = before, stage
        return waits

    @cached_property
    def first_tags(self) -> dict[int, int]:
        """The tag of the first step of every stage: no two steps share one."""
        counts = [self.num_steps(stage) for stage in self.order]
        return dict(zip(self.order, accumulate(counts, initial=0), strict=False))

    def num_steps(self, stage: int) -> int:
        """Steps of a stage."""
        return len(self.steps[self.keys[stage]][0])

    def trace(self, npu: int) -> Iterator[Node]:
        """The nodes of an NPU."""
        for number, time in enumerate(self.releases):
            micros, flags = time // PICOSECONDS_PER_MICROSECOND, {"is_cpu_op": False}
            yield Node(number, "release", NodeType.COMP, duration_micros=micros, attributes=flags)
        for stage in self.order:
            yield from self._messages(stage, npu)

    def _messages(self, stage: int, npu: int) -> Iterator[Node]:
        """What an NPU sends and receives in a stage, each step after the one before."""
        (_, k), sizes = self.keys[stage], self.schedule.instance.fabric.sizes
        stride = math.prod(sizes[:k])
        here = npu // stride % sizes[k]
        waits = [node for before in self.predecessors[stage] for node in self.nodes[before][1]]
        if self.release[stage] and not self.schedule.plan.positions[stage]:
            waits.append(self.releases.index(int(self.release[stage])))
        node = self.nodes[stage][0].start
        for number, step in enumerate(self.steps[self.keys[stage]][here]):
            for peer in step:
                size = max(round(peer.share * self.wire_bytes[stage]), 1)
                other, tag = npu + (peer.coordinate - here) * stride, self.first_tags[stage] + number
                yield message_node(node, other, tag, size, waits, receives=peer.receives)
                node += 1
            waits = list(range(node - len(step), node))


def message_node(number: int, peer: int, tag: int, size: int, waits: Iterable[int], *, receives: bool) -> Node:
    """The node of a message that an NPU sends or receives; without ``is_cpu_op`` some readers skip it."""
    kind = NodeType.COMM_RECV if receives else NodeType.COMM_SEND
    head: Attributes = {"is_cpu_op": False, "comm_type": int(kind), "comm_tag": tag, "comm_size": size}
    attributes = {**head, "comm_src" if receives else "comm_dst": peer}
    return Node(number, "receive" if receives else "send", kind, tuple(waits), attributes=attributes)


NETWORK_FILE, SYSTEM, WORKLOAD, COLLECTIVE = "network.yml", "system.json", "workload", "collective"

COMM_TYPES: Mapping[CollectiveKind, tuple[CommType, str]] = {
    CollectiveKind(name): (CommType[name.upper()], name.replace("_", "-"))
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
}
"""Collectives that the simulator can replace by a trace; everything else runs in the place of an all-reduce."""

MANY_NODES = 10**6  # nodes of all traces above which their size is said
BYTES_PER_NODE = 100  # of traces; measured at the level of steps on the networks of the paper with 64 NPUs, 97 to 103


@dataclass(frozen=True)
class AstraSim:
    """ASTRA-sim 2: network, system, workload and the schedule as a custom collective."""

    endings: ClassVar[tuple[str, ...]] = ("yml", "json", "et")

    level: Literal["stage", "step"] = "stage"  # one message per stage and NPU, or the messages of the basic algorithms

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str | bytes]]:
        """Names and contents of the files, the traces one after the other.

        Raises InputError if the simulator has no place for something of the schedule.
        """
        collective = CustomCollective(schedule, self.level)
        network, workload = _network(collective), write_trace([_workload(schedule)])
        for npu in range(schedule.instance.fabric.num_npus):
            trace = write_trace(collective.trace(npu))  # first: it may be refused, which leaves no files
            yield f"{COLLECTIVE}.{npu}.et", trace
            yield f"{WORKLOAD}.{npu}.et", workload
        yield NETWORK_FILE, network
        yield SYSTEM, system_text(_type(schedule)[1])

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield f"start the simulator in the folder: paths in {SYSTEM} are relative to it"
        nodes = CustomCollective(schedule, self.level).num_nodes * schedule.instance.fabric.num_npus
        if nodes > MANY_NODES:
            size = nodes * BYTES_PER_NODE / 1e9
            yield f"{nodes:,} nodes, about {size:.1f} GB: the simulator holds them all in memory; level=stage has fewer"
        if schedule.instance.latency == "lag" and any(d.latency for d in schedule.instance.fabric.dimensions):
            yield "a send ends when it arrives, so latency holds the dimension: of latency 'lag' times are upper bounds"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Replay the traces by the rules of the simulator.

        Raises InputError or InvalidSchedule if a file cannot be read, or the replay takes other times than the
        schedule.
        """
        collective = CustomCollective(schedule, self.level)
        network = LinkNetwork.read(folder / NETWORK_FILE)
        npus = range(schedule.instance.fabric.num_npus)
        traces = [read_trace(folder / f"{COLLECTIVE}.{npu}.et") for npu in npus]
        times = replay(network.send, traces)
        count = sum(map(len, traces))
        yield f"{count:,} nodes of {len(traces)} NPUs: every message is expected, and nobody waits for ever"
        yield from _compared(collective, times)


def _network(collective: CustomCollective) -> str:
    topologies = {kind: name for name, kind in TOPOLOGY_KINDS.items()}
    dimensions, links = collective.schedule.instance.fabric.dimensions, collective.links
    columns: dict[str, list[object]] = {
        "topology": [topologies[dimension.kind] for dimension in dimensions],
        "npus_count": [dimension.size for dimension in dimensions],
        "bandwidth": [repr(bandwidth / GIGABYTE) for bandwidth, _ in links],
        "latency": [repr(latency / PICOSECONDS_PER_NANOSECOND) for _, latency in links],
    }
    return "".join(f"{name}: [ {', '.join(str(value) for value in values)} ]\n" for name, values in columns.items())


def system_text(collective: str) -> str:
    """The system file, by the name of the collective that a trace replaces: one chunk, since the trace states them."""
    system = {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        f"{collective}-implementation-custom": [COLLECTIVE],
        "local-mem-bw": 1600,
    }
    return json.dumps(system, indent=2) + "\n"


def _type(schedule: Schedule) -> tuple[CommType, str]:
    kinds = {exchange.kind for exchange in schedule.launched}
    usual = CollectiveKind.ALL_REDUCE
    return COMM_TYPES.get(kinds.pop() if len(kinds) == 1 else usual, COMM_TYPES[usual])


def _workload(schedule: Schedule) -> Node:
    """The one node of a workload: all collectives of the schedule together."""
    size = sum(exchange.size for exchange in schedule.launched)
    kind = _type(schedule)[0]
    if kind == CommType.ALL_GATHER:  # counted by what an NPU puts in
        size //= schedule.instance.fabric.num_npus
    attributes: Attributes = {"is_cpu_op": False, "comm_type": int(kind), "comm_size": max(size, 1)}
    flags = {"involved_dim": (True,) * len(schedule.instance.fabric.sizes)}
    return Node(0, "collectives", NodeType.COMM_COLL, attributes={**attributes, **flags})


def _compared(collective: CustomCollective, times: list[dict[int, tuple[int, int]]]) -> Iterator[Fact]:
    """The times of the replay beside those of the schedule, stage by stage where they must be equal."""
    schedule, depths = collective.schedule, dict[int, int]()  # the stage itself and the most stages in turn before it
    for stage, before in collective.predecessors.items():
        depths[stage] = 1 + max((depths[other] for other in before), default=0)
    most = max(_rounding(collective, stage) for stage in depths)
    end, planned = max(end for npu_times in times for _, end in npu_times.values()), nanoseconds(schedule.makespan)
    if schedule.instance.latency == "occupy" or not schedule.costs.lag.any():
        worst = max(_deviation(collective, times, stage, depth * most) for stage, depth in depths.items())
        yield f"each stage takes its time, to {worst:.2f} ns, of which the longest chain has {max(depths.values())}"
    elif end < planned - max(depths.values()) * most:
        raise InvalidSchedule("trace", f"replayed in {end} ns, less than the {planned} ns planned: no upper bound")
    else:
        yield "the time of the replay is an upper bound, since latency holds the dimension there"
    yield Replay("ASTRA-sim", end * PICOSECONDS_PER_NANOSECOND, schedule.makespan)


def _deviation(collective: CustomCollective, times: list[dict[int, tuple[int, int]]], stage: int, late: float) -> float:
    """By how many ns the length of a stage differs at most; its begin may differ by `late`."""
    schedule, (nodes, ends), allowed = collective.schedule, collective.nodes[stage], _rounding(collective, stage)
    start = nanoseconds(int(schedule.start[stage]))
    length = nanoseconds(int(schedule.ready[stage])) - start
    worst = 0.0
    for npu, npu_times in enumerate(times):
        begin, end = npu_times[nodes.start][0], max(npu_times[node][1] for node in ends)
        worst = max(worst, abs(end - begin - length))
        if worst > allowed or abs(begin - start) > late:
            where = f"{schedule.plan.label(schedule.instance, stage)} of NPU {npu}"
            rule = f"{where} runs from {begin} to {end} ns, planned {start} to {start + length}"
            raise InvalidSchedule("trace", rule)
    return worst


def _rounding(collective: CustomCollective, stage: int) -> float:
    """By how many ns a stage may differ: every step is rounded down, and so are bytes, up or down."""
    bandwidth, _ = collective.links[collective.keys[stage][1]]
    return collective.num_steps(stage) * (1.0 + 1e9 / bandwidth)
