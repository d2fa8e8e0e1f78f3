"""Schedules on graphs for runtimes and simulators: MSCCL, MSCCL++, and ASTRA-sim with its packet network ns-3.

For MSCCL and MSCCL++ they become transfers between buffers of GPUs, as :mod:`~.msccl.transfers` has them.  A chunk of a
piece is a *part*, which has a number of whole units of the buffer.  A message through switches goes from GPU to GPU,
and one that other GPUs pass on becomes one for each of them, with scratch in between.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
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
from themis_opt.formats.msccl.algorithm import DIALECTS
from themis_opt.formats.msccl.exporter import Msccl
from themis_opt.formats.msccl.interpreter import check_results, random_memories
from themis_opt.formats.msccl.plus import MAX_UNITS, MscclPlus
from themis_opt.formats.msccl.transfers import (
    INPUT,
    OUTPUT,
    SCRATCH,
    SHARE_TOLERANCE,
    Copy,
    Layout,
    MscclProgram,
    Transfer,
    UnitPlace,
    plan_name,
)
from themis_opt.graphs.plan import divide
from themis_opt.graphs.policies import with_transfers
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.rails import box_name
from themis_opt.graphs.schedule import GraphSchedule, Hops, LinkLoad, link_loads, simulate_graph
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.phases import CollectiveKind, Ends

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
            rule = f"must be one of {', '.join((*GRAPH_FORMATS, 'fjsp', 'trace'))} for a schedule on a graph"
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
    memories = random_memories([program.layout.buffers] * program.layout.num_gpus, in_place=False)
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
    """Counts of nodes, switches and links, the numbers of the switches, and a line for each link; NPUs come first."""
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
        small, larger = divmod(plan.pieces[plan.transfers[leg.transfer].piece].elements, schedule.chunks)
        size = (small + (leg.chunk < larger)) * plan.instance.element_bytes
        if not size:
            continue
        needed = plan.transfers[leg.transfer].after if leg.is_first else (leg.transfer,)
        waits = tuple(arrivals[leg.chunk, earlier] for earlier in needed)
        sent, received = traces[leg.source], traces[leg.target]
        sent.append(message_node(len(sent), leg.target, tag, size, waits, receives=False))
        received.append(message_node(len(received), leg.source, tag, size, (), receives=True))
        arrivals[leg.chunk, leg.transfer] = len(traces[leg.target]) - 1
    return traces


def _check_traces(schedule: GraphSchedule, folder: Path) -> Iterator[str]:
    npus = range(schedule.plan.instance.network.num_npus)
    traces = [read_trace(folder / f"{COLLECTIVE}.{npu}.et") for npu in npus]
    replay(lambda source, target, size: ((0, source, target), size), traces)  # about waits alone: a byte takes 1 ns
    sent = [sum(int(str(n.attributes["comm_size"])) for n in t if n.type == NodeType.COMM_SEND) for t in traces]
    words = f"{sum(map(len, traces)):,} nodes of {len(traces)} NPUs, {max(sent):,} bytes from the busiest"
    yield f"{words}: every message is expected, and nobody waits for ever"


MOST_EXPORTED_CHUNKS = 4  # chunks of a piece: runtimes cut messages in slices themselves


class PiecePart(NamedTuple):
    """A chunk of a piece: ranks of its source and target, and where its units begin in its block, or in the buffer."""

    source: int | None
    target: int | None
    begin: int
    units: int


class Leg(NamedTuple):
    """A message from GPU to GPU, by ranks: a leg of a transfer of a chunk."""

    chunk: int
    transfer: int
    source: int
    target: int
    is_first: bool
    is_last: bool


def to_export(schedule: GraphSchedule) -> GraphSchedule:
    """The schedule in as few chunks as are exported, validated; that of slots with its transfers one by one."""
    plan = with_transfers(schedule.plan)
    if schedule.chunks <= MOST_EXPORTED_CHUNKS and plan is schedule.plan:
        return schedule
    coarser = simulate_graph(plan, min(schedule.chunks, MOST_EXPORTED_CHUNKS))
    validate_graph(coarser)
    return coarser


def legs_of(schedule: GraphSchedule) -> Iterator[Leg]:
    """All messages from GPU to GPU, in an order in which they could be sent one after the other.

    Raises InputError if a switch adds or copies, which sends no messages between GPUs.
    """
    network, hops = schedule.plan.instance.network, Hops(schedule.plan)
    rank = {node: number for number, node in enumerate(network.capacities.terminals)}
    starts = schedule.start[:, hops.first[:-1]]
    order = np.lexsort((np.arange(starts.size), starts.ravel()))
    for chunk, number in (divmod(place, starts.shape[1]) for place in order.tolist()):
        transfer = schedule.plan.transfers[number]
        if transfer.route[0] not in rank or transfer.route[-1] not in rank:
            raise InputError("a switch that sums and copies sends no messages between GPUs", field="network.nodes")
        stops = [rank[node] for node in transfer.route if node in rank]
        for place, ends in enumerate(pairwise(stops)):
            yield Leg(chunk, number, *ends, place == 0, place == len(stops) - 2)


def graph_program(schedule: GraphSchedule, most_units: int) -> MscclProgram:
    """The transfers of a schedule, and the copies at its end.

    Raises InputError if shares need more units than there may be in a buffer, or a switch adds or copies.
    """
    parts, block_units = _parts(schedule, most_units)
    program = _UnitFlow(schedule, parts, block_units).program()
    scratch = program.layout.buffers[SCRATCH]
    if scratch > most_units:  # it is in proportion to the other buffers
        most_units = block_units * schedule.plan.instance.network.num_npus * most_units // scratch
        program = _UnitFlow(schedule, *_parts(schedule, most_units)).program()
    return program


def _parts(schedule: GraphSchedule, most_units: int) -> tuple[dict[tuple[int, int], PiecePart], int]:
    """Every part by its piece and chunk, and units of a block: as few as make the shares right."""
    instance, pieces = schedule.plan.instance, schedule.plan.pieces
    ranks = {node: number for number, node in enumerate(instance.network.capacities.terminals)}
    groups: dict[tuple[int | None, int | None], list[tuple[int, int, int]]] = {}
    for number, piece in enumerate(pieces):
        ends = tuple(None if end is None else ranks[end] for end in (piece.source, piece.target))
        small, larger = divmod(piece.elements, schedule.chunks)
        sizes = [small + (chunk < larger) for chunk in range(schedule.chunks)]
        entries = groups.setdefault(ends, [])  # type: ignore[arg-type]  # ends are two
        entries += [(number, chunk, size) for chunk, size in enumerate(sizes) if size]
    blocks = len(ranks) if not instance.demand.divided else 1
    shares = [[size for *_, size in entries] for entries in groups.values()]
    block_units = units_of_block(shares, blocks, most_units // len(ranks))
    parts: dict[tuple[int, int], PiecePart] = {}
    for (source, target), entries in groups.items():
        begin = 0
        for (number, chunk, _), count in zip(
            entries, divide(blocks * block_units, [size for *_, size in entries]), strict=True
        ):
            parts[number, chunk] = PiecePart(source, target, begin, count)
            begin += count
    return parts, block_units


def units_of_block(shares: Sequence[Sequence[int]], blocks: int, most: int) -> int:
    """Units of a block with which no share of a group is off by more than is tolerated, else by the least possible."""
    distinct, best, least = [np.array(share) for share in {tuple(share) for share in shares}], 0, float("inf")
    for units in range(-(-max(map(len, shares)) // blocks), most + 1):
        error = max(_deviation(share, blocks * units) for share in distinct)
        if error < least:
            best, least = units, error
        if least <= SHARE_TOLERANCE:
            break
    if not best:
        parts, smallest = max(map(len, shares)), min(min(share) / sum(share) for share in shares)
        rule = f"have {parts} parts, the least {smallest:.2g} of a buffer of {most * blocks} units: use fewer trees"
        raise InputError(rule, field="pieces")
    return best


def _deviation(share: IntArray, units: int) -> float:
    """By how much of it a part of a group differs at most; without bound where it has no unit."""
    every = share.sum()
    counts = np.diff(np.rint(units * np.cumsum(share) / every), prepend=0)
    return float(np.abs(counts * every / (units * share) - 1).max()) if counts.min() >= 1 else float("inf")


class PartVersion(NamedTuple):
    """What a GPU has of a part: its own contribution, or what the arrivals of some transfers make of it."""

    rank: int
    key: tuple[int, int]
    arrivals: frozenset[int]


class _UnitFlow:
    """Where every GPU holds every part, as transfers happen.

    Where sums cross, a GPU sends what it had before something else arrived.  As long as it has such versions to send,
    what arrives lies in new places.
    """

    def __init__(self, schedule: GraphSchedule, parts: dict[tuple[int, int], PiecePart], block_units: int) -> None:
        self.schedule, self.parts, self.block_units = schedule, parts, block_units
        self.demand = schedule.plan.instance.demand
        self.names = schedule.plan.instance.network.npus
        self.numbers = {key: number for number, key in enumerate(parts)}
        self.latest: dict[tuple[int, tuple[int, int]], PartVersion] = {}
        self.places: dict[PartVersion, UnitPlace] = {}
        self.former = Counter[tuple[int, tuple[int, int]]]()
        self.passing: dict[tuple[int, int], UnitPlace] = {}
        self.relayed = [0] * len(self.names)

    def program(self) -> MscclProgram:
        """All transfers, and the copies at the end."""
        legs = self._legs()
        for leg in legs:
            self.former[leg.source, self._key(leg)] += self._is_former(leg)
            if leg.is_last:
                self._arrive(leg)
        self.latest.clear()
        transfers = [self._transfer(leg) for leg in legs]
        copies, count = list(self._copies()), len(self.names)
        units = np.array([part.units for part in self.parts.values()])
        ranks = [(rank, rank) for rank in range(count)]  # within boxes, and between them
        kind, relayed = self.schedule.plan.instance.kind, max(self.relayed)
        return MscclProgram(Layout(kind, (count, count), ranks, units, self.block_units, relayed), transfers, copies)

    def _legs(self) -> list[Leg]:
        """All messages of parts that have elements, as they begin; a part whose sums need it goes round by round."""
        legs = [leg for leg in legs_of(self.schedule) if self._key(leg) in self.parts]
        known, places = set[PartVersion](), defaultdict[tuple[int, int], list[int]](list)
        late = set[tuple[int, int]]()
        for place, leg in enumerate(legs):
            places[self._key(leg)].append(place)
            if leg.is_first and (sent := self._sent(leg)).arrivals and sent not in known:
                late.add(self._key(leg))
            if leg.is_last:
                known.add(self._arrive(leg))
        self.latest.clear()
        rounds = list[int]()
        for transfer in self.schedule.plan.transfers:
            rounds.append(1 + max((rounds[number] for number in transfer.after), default=0))
        result = legs.copy()
        for key in late:
            in_rounds = sorted(places[key], key=lambda place: rounds[legs[place].transfer])
            for place, former in zip(places[key], in_rounds, strict=True):
                result[place] = legs[former]
        return result

    def _key(self, leg: Leg) -> tuple[int, int]:
        return self.schedule.plan.transfers[leg.transfer].piece, leg.chunk

    def _latest(self, rank: int, key: tuple[int, int]) -> PartVersion:
        return self.latest.get((rank, key), PartVersion(rank, key, frozenset()))

    def _sent(self, leg: Leg) -> PartVersion:
        return PartVersion(leg.source, self._key(leg), frozenset(self.schedule.plan.transfers[leg.transfer].after))

    def _is_former(self, leg: Leg) -> bool:
        """Whether its source has something else by now."""
        return leg.is_first and self._sent(leg) != self._latest(leg.source, self._key(leg))

    def _arrive(self, leg: Leg) -> PartVersion:
        """What its target has of the part from now on."""
        key, adds = self._key(leg), self.schedule.plan.transfers[leg.transfer].adds
        before = self._latest(leg.target, key).arrivals if adds else frozenset[int]()
        version = self.latest[leg.target, key] = PartVersion(leg.target, key, before | {leg.transfer})
        return version

    def _transfer(self, leg: Leg) -> Transfer:
        key, adds = self._key(leg), self.schedule.plan.transfers[leg.transfer].adds
        part, added, kept = self.parts[key], None, None
        if not leg.is_first:
            taken = self.passing[key]
        else:
            sent = self._sent(leg)
            if sent.arrivals and sent not in self.places:
                rule = "sends sums without what arrived before, which no buffer holds: export a schedule of trees"
                raise InputError(rule, field="schedule", value=self.schedule.plan.name)
            taken = self._place(sent)
            self.former[leg.source, key] -= self._is_former(leg)
        if leg.is_last:
            added = self._place(self._latest(leg.target, key)) if adds else None
            kept = None if self.former[leg.target, key] else self._home(leg.target, part)
        if kept is None:
            base = self.block_units * len(self.names) * self.demand.is_backwards
            kept = self.passing[key] = UnitPlace(SCRATCH, base + self.relayed[leg.target])
            self.relayed[leg.target] += part.units
        if leg.is_last:
            self.places[self._arrive(leg)] = kept
        boxes = [box_name(self.names[rank]) for rank in (leg.source, leg.target)]
        outside = int(boxes[0] != boxes[1])
        return Transfer(leg.source, leg.target, outside, taken, added, kept, part.units, self.numbers[key])

    def _place(self, version: PartVersion) -> UnitPlace:
        """Where a GPU holds a version: at first in its input."""
        part = self.parts[version.key]
        block = part.target if self.demand.targets is Ends.EACH else None
        return self.places.get(version, UnitPlace(INPUT, (block or 0) * self.block_units + part.begin))

    def _home(self, rank: int, part: PiecePart) -> UnitPlace | None:
        """Where a GPU writes a part that it receives; None where the data are not for it."""
        demand = self.demand
        if demand.personal and rank != part.target:
            return None
        if demand.is_backwards and rank != part.target:
            return UnitPlace(SCRATCH, (part.target or 0) * self.block_units * demand.divided + part.begin)
        has_blocks = demand.divided and not demand.sums
        return UnitPlace(OUTPUT, (part.source or 0) * self.block_units * has_blocks + part.begin)

    def _copies(self) -> Iterator[Copy]:
        """Copies of parts that never moved to their places in the output."""
        for key, part in self.parts.items():
            for rank in range(len(self.names)):
                home = self._home(rank, part)
                has_it = part.source in (None, rank) or (rank, key) in self.latest
                wants_it = part.target in (None, rank)
                place = self._place(self._latest(rank, key))
                if home and has_it and wants_it and place != home:
                    yield Copy(rank, place, home, part.units, self.numbers[key])
        if self.demand.personal:
            for rank in range(len(self.names)):
                begin = rank * self.block_units
                yield Copy(rank, UnitPlace(INPUT, begin), UnitPlace(OUTPUT, begin), self.block_units, 0)
