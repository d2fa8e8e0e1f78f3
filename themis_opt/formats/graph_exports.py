"""Schedules on graphs for runtimes and simulators: MSCCL, MSCCL++, and ASTRA-sim with its packet network ns-3."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.formats.astra_sim.exporter import (
    COLLECTIVE,
    COMM_TYPES,
    SYSTEM,
    WORKLOAD,
    AstraSim,
    message_node,
    system_text,
)
from themis_opt.formats.astra_sim.interpreter import replay
from themis_opt.formats.chakra import Attributes, Node, NodeType, read_trace, write_trace
from themis_opt.formats.exports import Exported, Replay, in_sentences, make_exporter
from themis_opt.formats.graph_transfers import Leg, graph_program, legs_of, to_export
from themis_opt.formats.msccl.algorithm import DIALECTS
from themis_opt.formats.msccl.exporter import Msccl
from themis_opt.formats.msccl.interpreter import check_results, random_memories
from themis_opt.formats.msccl.plus import MAX_UNITS, MscclPlus
from themis_opt.formats.msccl.transfers import INPUT, OUTPUT, SCRATCH, plan_name
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule, LinkLoad, link_loads
from themis_opt.problem.phases import CollectiveKind

TOPOLOGY_FILE, LOGICAL_FILE = "topology.txt", "logical_topology.json"
GRAPH_FORMATS = ("msccl", "mscclpp", "astra-sim")


def export_graph(schedule: GraphSchedule, specification: str, folder: Path, *, check: bool) -> Exported:
    """Write a schedule in a format.

    Raises InputError if the format is not for graphs, or cannot express the schedule.
    """
    exporter, instance = make_exporter(specification), schedule.plan.instance
    if len(instance.collectives) > 1:
        rule = "must be one for an export: solve and export each alone, and start them at once"
        raise InputError(rule, field="collectives", value=len(instance.collectives))
    coarser = to_export(schedule)
    name, ranks = plan_name(instance.name, instance.kind.value), instance.network.num_npus
    texts: dict[str, str | bytes]
    match exporter:
        case Msccl():
            program = graph_program(coarser, DIALECTS[exporter.dialect].max_offset)
            texts = dict(exporter.texts(*exporter.of_program(program, name)))
            facts = exporter.check_files(texts, folder)
        case MscclPlus():
            plan = exporter.of_program(graph_program(coarser, MAX_UNITS * ranks), name, (0, 1))
            texts = {f"{plan.name}.json": plan.model_dump_json(exclude_none=True) + "\n"}
            facts = exporter.check_file(f"{plan.name}.json", folder)
        case AstraSim():
            texts, facts = dict(_astra_sim_files(coarser)), _check_traces(coarser, folder)
        case _:
            rule = f"must be one of {', '.join(GRAPH_FORMATS)} for a schedule on a graph"
            rule += "; 'solve --lost LINK --compare healthy' says what NCCL can be told"
            raise InputError(rule, field="--to", value=specification)
    make_folder(folder)
    for file, content in texts.items():
        write_atomically(folder / file, content)
    time = Replay(f"a reader of {coarser.chunks} chunks a piece", coarser.makespan, schedule.makespan)
    words = f"pieces are cut in {coarser.chunks} chunks instead of {schedule.chunks}: runtimes cut messages themselves"
    notes = [words] if coarser.chunks < schedule.chunks else []
    return Exported([folder / file for file in texts], in_sentences([*facts, time]) if check else (), notes)


class MovedData(NamedTuple):
    """What was moved on data: messages between GPUs, units of a block, and the busiest direction of a link."""

    messages: int
    block_units: int
    busiest: LinkLoad


def move_data(schedule: GraphSchedule) -> MovedData:
    """Move random data by the messages that are exported, and check what every GPU ends with.

    Raises InvalidSchedule: the rule ``data`` if a result is wrong, or ``capacity`` if a link sends more than it can.
    """
    coarser = to_export(schedule)
    program = graph_program(coarser, DIALECTS["msccl"].max_offset)
    buffers, count = program.layout.buffers, program.layout.num_gpus
    sizes = [{INPUT: buffers.input, OUTPUT: buffers.output, SCRATCH: buffers.scratch}] * count
    memories = random_memories(sizes, in_place=False)
    inputs = np.stack([memory[INPUT] for memory in memories])
    for source, target, _, taken, added, kept, units, *_ in program.transfers:
        data = memories[source][taken.buffer][taken.offset : taken.offset + units].copy()
        if added is not None:
            data += memories[target][added.buffer][added.offset : added.offset + units]
        memories[target][kept.buffer][kept.offset : kept.offset + units] = data
    for gpu, taken, kept, units, _ in program.copies:
        data = memories[gpu][taken.buffer][taken.offset : taken.offset + units].copy()
        memories[gpu][kept.buffer][kept.offset : kept.offset + units] = data
    check_results(program.layout.kind, inputs, memories)
    busiest = link_loads(schedule)[0]
    if busiest.busy > schedule.makespan:
        raise InvalidSchedule("capacity", f"{busiest.name} sends longer than the schedule takes")
    return MovedData(len(program.transfers), program.layout.total, busiest)


def _astra_sim_files(schedule: GraphSchedule) -> Iterator[tuple[str, str | bytes]]:
    """The traces of all NPUs, a workload that runs them, the system, and the network of ns-3."""
    instance = schedule.plan.instance
    topology = _ns3_topology(instance)
    comm_type, spelled = COMM_TYPES.get(instance.kind, COMM_TYPES[CollectiveKind.ALL_REDUCE])
    attributes: Attributes = {"is_cpu_op": False, "comm_type": int(comm_type), "comm_size": instance.collective.size}
    workload = write_trace([Node(0, instance.kind.value, NodeType.COMM_COLL, attributes=attributes)])
    for npu, nodes in enumerate(_traces(schedule)):
        yield f"{COLLECTIVE}.{npu}.et", write_trace(nodes)
        yield f"{WORKLOAD}.{npu}.et", workload
    yield SYSTEM, system_text(spelled)
    yield TOPOLOGY_FILE, topology
    yield LOGICAL_FILE, json.dumps({"logical-dims": [str(instance.network.num_npus)]}) + "\n"


def _ns3_topology(instance: GraphInstance) -> str:
    """Counts of nodes, switches and links, the numbers of the switches, and a line for each link; NPUs come first.

    Raises InputError if a link is not alike in both directions.
    """
    network = instance.network
    order = sorted(network.nodes, key=lambda node: node.kind == "switch")
    number = {node.name: place for place, node in enumerate(order)}
    lines = []
    for place, link in enumerate(network.links):
        if link.back not in (None, link.bandwidth):
            rule = "must be alike in both directions for ns-3"
            raise InputError(rule, field=f"network.links[{place}].back", value=link.back)
        first, second = (number[end] for end in link.ends)
        milliseconds = link.latency * 1000 / PICOSECONDS_PER_SECOND
        lines.append(f"{first} {second} {link.bandwidth * 8 / 1e9:.12g}Gbps {milliseconds:.12g}ms 0")
    switches = [str(number[node.name]) for node in order if node.kind == "switch"]
    head = [f"{len(order)} {len(switches)} {len(lines)}", " ".join(switches)]
    return "\n".join([*head, *lines]) + "\n"


def _traces(schedule: GraphSchedule) -> list[list[Node]]:
    """For every NPU a node for each message that it sends or receives, which waits for what arrived before."""
    plan, traces = schedule.plan, [list[Node]() for _ in schedule.plan.instance.network.npus]
    arrivals: dict[tuple[int, int], int] = {}
    for tag, leg in enumerate(legs_of(schedule)):
        size = _bytes_of(schedule, leg)
        if not size:
            continue
        needed = plan.transfers[leg.transfer].after if leg.is_first else (leg.transfer,)
        waits = tuple(arrivals[leg.chunk, earlier] for earlier in needed)
        sent, received = traces[leg.source], traces[leg.target]
        sent.append(message_node(len(sent), leg.target, tag, size, waits, receives=False))
        received.append(message_node(len(received), leg.source, tag, size, (), receives=True))
        arrivals[leg.chunk, leg.transfer] = len(traces[leg.target]) - 1
    return traces


def _bytes_of(schedule: GraphSchedule, leg: Leg) -> int:
    plan = schedule.plan
    small, larger = divmod(plan.pieces[plan.transfers[leg.transfer].piece].elements, schedule.chunks)
    return (small + (leg.chunk < larger)) * plan.instance.element_bytes


class _AnyLink:
    """A network for replays that are about waits alone: each pair of NPUs has a link on which a byte takes 1 ns."""

    def send(self, source: int, target: int, size: int) -> tuple[tuple[int, int, int], int]:
        """The link of a message, and its ns."""
        return (0, source, target), size


def _check_traces(schedule: GraphSchedule, folder: Path) -> Iterator[str]:
    npus = range(schedule.plan.instance.network.num_npus)
    traces = [read_trace(folder / f"{COLLECTIVE}.{npu}.et") for npu in npus]
    replay(_AnyLink(), traces)
    sent: dict[int, int] = defaultdict(int)
    for npu, trace in enumerate(traces):
        sent[npu] += sum(int(str(n.attributes["comm_size"])) for n in trace if n.type == NodeType.COMM_SEND)
    words = f"{sum(map(len, traces)):,} nodes of {len(traces)} NPUs, {max(sent.values()):,} bytes from the busiest"
    yield f"{words}: every message is expected, and nobody waits for ever"
