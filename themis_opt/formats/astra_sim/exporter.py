"""The exporter ``astra-sim``: the inputs of a simulation that replays a schedule, and their check."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, nanoseconds
from themis_opt.formats.astra_sim.collective import CustomCollective
from themis_opt.formats.astra_sim.interpreter import LinkNetwork, replay
from themis_opt.formats.chakra import Attributes, CommType, Node, NodeType, read_trace, write_trace
from themis_opt.formats.exports import Fact, Replay
from themis_opt.formats.readers.astra_sim_network import GIGABYTE, TOPOLOGY_KINDS
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule

NETWORK_FILE, SYSTEM, WORKLOAD, COLLECTIVE = "network.yml", "system.json", "workload", "collective"

COMM_TYPES: Mapping[CollectiveKind, tuple[CommType, str]] = {
    CollectiveKind.ALL_REDUCE: (CommType.ALL_REDUCE, "all-reduce"),
    CollectiveKind.REDUCE_SCATTER: (CommType.REDUCE_SCATTER, "reduce-scatter"),
    CollectiveKind.ALL_GATHER: (CommType.ALL_GATHER, "all-gather"),
    CollectiveKind.ALL_TO_ALL: (CommType.ALL_TO_ALL, "all-to-all"),
}
"""Collectives that the simulator can replace by a trace; everything else runs in the place of an all-reduce."""

MANY_NODES = 10**6
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
            yield f"{COLLECTIVE}.{npu}.et", collective.trace(npu)  # first: it may be refused, which leaves no files
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
        times = replay(network, traces)
        count = sum(map(len, traces))
        yield f"{count:,} nodes of {len(traces)} NPUs: every message is expected, and nobody waits for ever"
        yield from _compared(collective, times)


def _network(collective: CustomCollective) -> str:
    topologies = {kind: name for name, kind in TOPOLOGY_KINDS.items()}
    dimensions, links = collective.schedule.instance.fabric.dimensions, collective.links
    columns: dict[str, list[object]] = {
        "topology": [topologies[dimension.kind] for dimension in dimensions],
        "npus_count": [dimension.size for dimension in dimensions],
        "bandwidth": [repr(link.bandwidth / GIGABYTE) for link in links],
        "latency": [repr(link.latency / PICOSECONDS_PER_NANOSECOND) for link in links],
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
    return COMM_TYPES.get(kinds.pop() if len(kinds) == 1 else CollectiveKind.ALL_REDUCE, COMM_TYPES[_ANY])


_ANY = CollectiveKind.ALL_REDUCE


def _workload(schedule: Schedule) -> Node:
    """The one node of a workload: all collectives of the schedule together."""
    size = sum(exchange.size for exchange in schedule.launched)
    kind = _type(schedule)[0]
    if kind == CommType.ALL_GATHER:  # counted by what an NPU puts in
        size //= schedule.instance.fabric.num_npus
    flags = (True,) * len(schedule.instance.fabric.sizes)
    attributes: Attributes = {
        "is_cpu_op": False,
        "comm_type": int(kind),
        "comm_size": max(size, 1),
        "involved_dim": flags,
    }
    return Node(0, "collectives", NodeType.COMM_COLL, attributes=attributes)


def _compared(collective: CustomCollective, times: list[dict[int, tuple[int, int]]]) -> Iterator[Fact]:
    """The times of the replay beside those of the schedule, stage by stage where they must be equal."""
    schedule, depths = collective.schedule, _depths(collective)
    end, planned = max(end for npu_times in times for _, end in npu_times.values()), nanoseconds(schedule.makespan)
    if schedule.instance.latency == "occupy" or not schedule.costs.lag.any():
        worst = max(_deviation(collective, times, stage, depth) for stage, depth in depths.items())
        yield f"each stage takes its time, to {worst:.2f} ns, of which the longest chain has {max(depths.values())}"
    elif end < planned - max(depths.values()) * max(_rounding(collective, stage) for stage in depths):
        raise InvalidSchedule("trace", f"replayed in {end} ns, less than the {planned} ns planned: no upper bound")
    else:
        yield "the time of the replay is an upper bound, since latency holds the dimension there"
    yield Replay("ASTRA-sim", end * PICOSECONDS_PER_NANOSECOND, schedule.makespan)


def _deviation(collective: CustomCollective, times: list[dict[int, tuple[int, int]]], stage: int, depth: int) -> float:
    """By how many ns the length of a stage differs at most.

    Raises InvalidSchedule if its length, or its begin behind the `depth` stages it waited for, differs by more than
    rounding explains.
    """
    schedule, nodes, allowed = collective.schedule, collective.nodes[stage], _rounding(collective, stage)
    start = nanoseconds(int(schedule.start[stage]))
    length = nanoseconds(int(schedule.ready[stage])) - start
    worst = 0.0
    for npu, npu_times in enumerate(times):
        begin, end = npu_times[nodes.first][0], max(npu_times[node][1] for node in nodes.last)
        worst = max(worst, abs(end - begin - length))
        if worst > allowed or abs(begin - start) > depth * _most_rounding(collective):
            where = f"{schedule.plan.label(schedule.instance, stage)} of NPU {npu}"
            raise InvalidSchedule(
                "trace", f"{where} runs from {begin} to {end} ns, planned {start} to {start + length}"
            )
    return worst


def _rounding(collective: CustomCollective, stage: int) -> float:
    """By how many ns a stage may differ: every step is rounded down, and so are bytes, up or down."""
    key = collective.phases[stage], collective.dimension_of_stage[stage]
    return len(collective.shapes[key].shares) * (1.0 + 1e9 / collective.links[key[1]].bandwidth)


def _most_rounding(collective: CustomCollective) -> float:
    most = max(len(shape.shares) for shape in collective.shapes.values())
    return most * (1.0 + 1e9 / min(link.bandwidth for link in collective.links))


def _depths(collective: CustomCollective) -> dict[int, int]:
    """For every stage, itself and the most stages that follow on each other before it."""
    depths: dict[int, int] = {}
    for stage, before in collective.predecessors().items():
        depths[stage] = 1 + max((depths[other] for other in before), default=0)
    return depths
