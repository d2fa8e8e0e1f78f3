"""Schedules on graphs run by real processes: one for each node, and a TCP connection for each direction of a link.

Links are paced: a message keeps its link as long as the model says, in the order of the schedule, and is there when its
latency is over.  Whatever else takes time (waking up, sums, TCP itself) is what the measurement adds to the model.
"""

import os
import signal
import socket
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Condition, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.schedule import GraphSchedule, Hops, simulate_graph
from themis_opt.runtime.execution import ReportRun, RunTimes
from themis_opt.runtime.links import RankFailure
from themis_opt.runtime.movement import Pacer
from themis_opt.runtime.worker import end_with_parent

MOST_PROCESSES, MOST_SECONDS, MOST_BYTES = 64, 120.0, 2**28
"""Processes that are started at most, seconds that a run may take by the model, and bytes of the buffer of an NPU."""

LEAD_SECONDS_OF_RUN = 0.2  # from the sign to begin to the begin
NODE_PATIENCE = 10.0  # seconds beyond twice the prediction after which a run is ended
FRAME = struct.Struct("<IIdI")  # hop, chunk, when it is there on the monotonic clock, and CRC-32 of the data
MESSAGE_SECONDS = 0.04
"""Mean time of a message for which chunks are made: waking up for one takes a part of a millisecond."""

ELEMENT_TYPES: Mapping[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Whole numbers, whose sums wrap around and so do not depend on their order."""

Elements = NDArray[Any]


def in_messages_to_run(schedule: GraphSchedule) -> GraphSchedule:
    """The schedule in so few chunks that processes keep up with their messages."""
    busy = int((schedule.end - schedule.start).sum()) / PICOSECONDS_PER_SECOND
    chunks = max(int(busy / schedule.start.shape[1] / MESSAGE_SECONDS), 1)
    return schedule if schedule.chunks <= chunks else simulate_graph(schedule.plan, chunks)


class HopTask(NamedTuple):
    """A message over one link: what it is about, its arrivals at the sender to wait for, and what to do with it.

    `seconds`, `latency`: how long it keeps the link, and until it is there.
    `last`: whether the receiver keeps it, adding it if `adds`; others pass it on.
    """

    hop: int
    chunk: int
    piece: int
    begin: int
    end: int
    waits: tuple[int, ...]
    seconds: float
    latency: float
    first: bool
    last: bool
    adds: bool


@dataclass(frozen=True)
class GraphProgram:
    """What every link sends, in order, by tail and head."""

    schedule: GraphSchedule
    tasks: Mapping[tuple[int, int], Sequence[HopTask]]

    @classmethod
    def of(cls, schedule: GraphSchedule) -> "GraphProgram":
        """The program of a schedule. Raises InputError if it is too large to be run on one machine."""
        _check_size(schedule)
        hops, plan = Hops(schedule.plan), schedule.plan
        before: dict[int, list[int]] = defaultdict(list)
        for earlier, later in zip(*(side.tolist() for side in hops.edges), strict=True):
            before[later].append(earlier)
        order = np.lexsort((np.arange(schedule.start.size), schedule.start.ravel()))
        tasks: dict[tuple[int, int], list[HopTask]] = defaultdict(list)
        for number in order.tolist():
            chunk, hop = divmod(number, len(hops.rows))
            transfer, tail, head = hops.rows[hop]
            piece = plan.transfers[transfer].piece
            begin, end = _part(plan.pieces[piece].elements, schedule.chunks, chunk)
            if begin == end:
                continue
            tasks[tail, head].append(
                HopTask(
                    hop, chunk, piece, begin, end, tuple(before[hop]),
                    seconds=int(schedule.end[chunk, hop] - schedule.start[chunk, hop]) / PICOSECONDS_PER_SECOND,
                    latency=int(hops.lag[hop]) / PICOSECONDS_PER_SECOND,
                    first=hop == hops.first[transfer], last=hop + 1 == hops.first[transfer + 1],
                    adds=plan.transfers[transfer].adds,
                )
            )  # fmt: skip
        return cls(schedule, tasks)

    @property
    def dtype(self) -> Any:
        """The type of elements."""
        return ELEMENT_TYPES[self.schedule.plan.instance.element_bytes]


def _part(elements: int, chunks: int, chunk: int) -> tuple[int, int]:
    """First element of a chunk of a piece, and that after the last: the first chunks are larger by one."""
    small, larger = divmod(elements, chunks)
    begin = chunk * small + min(chunk, larger)
    return begin, begin + small + (chunk < larger)


def _check_size(schedule: GraphSchedule) -> None:
    instance, seconds = schedule.plan.instance, schedule.makespan / PICOSECONDS_PER_SECOND
    if len(instance.network.nodes) > MOST_PROCESSES:
        rule = f"must be at most {MOST_PROCESSES} to be run here"
        raise InputError(rule, field="network.nodes", value=len(instance.network.nodes))
    if seconds > MOST_SECONDS:
        raise InputError(f"must be at most {MOST_SECONDS:g} s to be run", field="makespan", value=f"{seconds:.3g} s")
    if instance.size > MOST_BYTES:
        raise InputError(f"must be at most {MOST_BYTES} bytes to be run", field="size", value=instance.size)
    if instance.element_bytes not in ELEMENT_TYPES:
        rule = f"must be one of {', '.join(map(str, ELEMENT_TYPES))} to be run"
        raise InputError(rule, field="element_bytes", value=instance.element_bytes)


class _Node:
    """The process of a node."""

    def __init__(self, number: int, program: GraphProgram, seed: int) -> None:
        self.number, self.program, self.seed = number, program, seed
        self.npus = program.schedule.plan.instance.network.capacities.terminals
        self.received: dict[tuple[int, int], tuple[HopTask, Elements]] = {}
        self.changed = Condition()
        self.failure = ""
        self.first = [self.initial(piece, number) for piece, _ in enumerate(program.schedule.plan.pieces)]

    def initial(self, piece: int, npu: int) -> Elements:
        """What a node has of a piece at first: random numbers where it contributes, else zeros."""
        entry = self.program.schedule.plan.pieces[piece]
        if npu not in self.npus or entry.source not in (None, npu):
            return np.zeros(entry.elements, self.program.dtype)
        generator = np.random.default_rng((self.seed, piece, npu))
        return generator.integers(np.iinfo(self.program.dtype).max, size=entry.elements, dtype=self.program.dtype)

    def wrong(self) -> str:
        """The first piece that this node should have and does not, in words."""
        for number, piece in enumerate(self.program.schedule.plan.pieces):
            if self.number not in self.npus or piece.target not in (None, self.number):
                continue
            sources = self.npus if piece.source is None else (piece.source,)
            right = sum((self.initial(number, npu) for npu in sources), np.zeros(piece.elements, self.program.dtype))
            if not np.array_equal(right, self.result(number)):
                return f"piece {number} is wrong"
        return ""

    def result(self, piece: int) -> Elements:
        """What this node has of a piece in the end."""
        data = self.first[piece].copy()
        for _, (task, part) in sorted(self.received.items(), key=lambda item: item[0]):
            if task.last and task.piece == piece:
                data[task.begin : task.end] = part + (data[task.begin : task.end] if task.adds else 0)
        return data

    def content(self, task: HopTask) -> Elements:
        """What a message has in it: what its sender had at first, or the last copy, and the sums that it waits for."""
        if not task.first:
            return self.received[task.waits[0], task.chunk][1]
        data = self.first[task.piece][task.begin : task.end]
        for hop in sorted(task.waits):
            arrival, part = self.received[hop, task.chunk]
            data = data + part if arrival.adds else part
        return data

    def run(self, outgoing: Mapping[int, socket.socket], incoming: Mapping[int, socket.socket], origin: float) -> float:
        """Do all that this node does; returns when its last message was there."""
        tasks = self.program.tasks
        threads = [
            *(Thread(target=self._guarded, args=(self._send, link, tasks[self.number, head], origin), daemon=True)
              for head, link in outgoing.items()),
            *(Thread(target=self._guarded, args=(self._receive, link, tasks[tail, self.number], origin), daemon=True)
              for tail, link in incoming.items()),
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure:
            raise OSError(self.failure)
        return self.last

    last = 0.0

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as error:  # whatever it is, the others must not wait for ever
            with self.changed:
                self.failure = self.failure or f"{type(error).__name__}: {error}"
                self.changed.notify_all()

    def _send(self, link: socket.socket, tasks: Sequence[HopTask], origin: float) -> None:
        pacer = Pacer()
        sleep(max(origin - monotonic(), 0.0))
        for task in tasks:
            with self.changed:
                needed = {(wait, task.chunk) for wait in task.waits}
                self.changed.wait_for(lambda needed=needed: self.failure or needed <= self.received.keys())  # type: ignore[misc]
                if self.failure:
                    return
            end = pacer.hold(task.seconds)
            content = self.content(task).tobytes()
            link.sendall(FRAME.pack(task.hop, task.chunk, end + task.latency, zlib.crc32(content)) + content)
            sleep(max(end - monotonic(), 0.0))

    def _receive(self, link: socket.socket, tasks: Sequence[HopTask], origin: float) -> None:
        size = np.dtype(self.program.dtype).itemsize
        with link.makefile("rb") as file:
            for task in tasks:
                hop, chunk, due, checksum = FRAME.unpack(file.read(FRAME.size))
                content = file.read((task.end - task.begin) * size)
                if (hop, chunk) != (task.hop, task.chunk) or zlib.crc32(content) != checksum:
                    raise OSError(f"hop {hop} of chunk {chunk} arrived where {task.hop} of {task.chunk} was due")
                sleep(max(due - monotonic(), 0.0))
                self._keep(task, np.frombuffer(content, self.program.dtype))

    def _keep(self, task: HopTask, data: Elements) -> None:
        with self.changed:
            self.received[task.hop, task.chunk] = task, data
            self.last = max(self.last, monotonic())
            self.changed.notify_all()


def _be(number: int, program: GraphProgram, seed: int, links: "_Links", line: Connection, parent: int) -> None:
    """In a separate process: be a node."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        node = _Node(number, program, seed)
        outgoing = {head: pair[0] for (tail, head), pair in links.items() if tail == number}
        incoming = {tail: pair[1] for (tail, head), pair in links.items() if head == number}
        line.send("ready")
        origin = line.recv()
        last = node.run(outgoing, incoming, origin)
        line.send((last, node.wrong()))
    except BaseException as error:
        with suppress(OSError):
            line.send((0.0, f"failed: {type(error).__name__}: {error}"))
    os._exit(0)


_Links = dict[tuple[int, int], tuple[socket.socket, socket.socket]]


def _connected(arcs: Sequence[tuple[int, int]]) -> _Links:
    """Both ends of a TCP connection on the loopback address for every direction of a link that is used."""
    links = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        for arc in arcs:
            near = socket.create_connection(server.getsockname())
            far, address = server.accept()
            while address != near.getsockname():  # somebody else called
                far.close()
                far, address = server.accept()
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            links[arc] = near, far
    return links


def run_once(program: GraphProgram, seed: int) -> float:
    """Run a program; returns its seconds.

    Raises RankFailure if a node fails, takes too long, or ends with wrong data.
    """
    context, network = get_context("fork"), program.schedule.plan.instance.network
    links = _connected(list(program.tasks))
    processes, lines = [], []
    patience = 2 * program.schedule.makespan / PICOSECONDS_PER_SECOND + NODE_PATIENCE
    try:
        for number in range(len(network.nodes)):
            near, far = context.Pipe()
            process = context.Process(target=_be, args=(number, program, seed, links, far, os.getpid()), daemon=True)
            process.start()
            far.close()
            processes.append(process)
            lines.append(near)
        for number, line in enumerate(lines):
            _heard(line, number, NODE_PATIENCE)
        origin = monotonic() + LEAD_SECONDS_OF_RUN
        for line in lines:
            line.send(origin)
        answers = [_heard(line, number, patience) for number, line in enumerate(lines)]
        for number, (_, wrong) in enumerate(answers):
            if wrong:
                raise RankFailure(number, f"({network.nodes[number].name}) {wrong}")
        return max(float(last) for last, _ in answers) - origin
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pair in links.values():
            for end in pair:
                end.close()


def _heard(line: Connection, number: int, patience: float) -> Any:
    """What a node says. Raises RankFailure if it says nothing."""
    try:
        if line.poll(patience):
            return line.recv()
    except EOFError:
        raise RankFailure(number, "died") from None
    raise RankFailure(number, f"is silent for {patience:.0f} s")


@dataclass(frozen=True, eq=False)
class GraphExecution(RunTimes):
    """A schedule beside what its runs took."""

    name: str
    schedule: GraphSchedule
    times: tuple[float, ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of every run."""
        return self.times

    @property
    def predicted_seconds(self) -> float:
        """The makespan."""
        return self.schedule.makespan / PICOSECONDS_PER_SECOND

    def row(self, first: RunTimes) -> dict[str, Any]:
        """The same with the number of chunks."""
        return super().row(first) | {"chunks": self.schedule.chunks}


def execute_graph(
    schedules: Mapping[str, GraphSchedule],
    *,
    repeat: int = 5,
    seed: int = 0,
    progress: ReportRun | None = None,
) -> tuple[GraphExecution, ...]:
    """Run schedules in turn, several times, after one run of each that is not counted.

    Raises InputError if a schedule is too large. Raises RankFailure if a node fails, or ends with wrong data.
    """
    schedules = {name: in_messages_to_run(schedule) for name, schedule in schedules.items()}
    programs = {name: GraphProgram.of(schedule) for name, schedule in schedules.items()}
    seconds: dict[str, list[float]] = {name: [] for name in schedules}
    for turn in range(repeat + 1):
        for place, (name, program) in enumerate(programs.items()):
            if progress is not None:
                progress(name, max(turn - 1, 0) * len(programs) + place, repeat * len(programs))
            measured = run_once(program, seed + turn)
            if turn:
                seconds[name].append(measured)
    return tuple(GraphExecution(name, schedules[name], tuple(times)) for name, times in seconds.items())
