"""The rules by which ASTRA-sim 2 times a custom collective on its analytical network, and nothing else.

A node begins when all nodes it depends on have ended.  A compute node takes its duration, 1 ns if it has none.  A send
takes floor(hops x latency + bytes / bandwidth) ns, hops being those of the first dimension along which source and
target differ; a link carries one message at a time, first come, first served.  It ends when the message arrives, and so
does the receive node that matches in tag, source, target and size, in the order they were sent, unless it begins later.
"""

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.sources import Source
from themis_opt.base.units import NANOSECONDS_PER_MICROSECOND
from themis_opt.formats.chakra import Node, NodeType
from themis_opt.formats.readers.astra_sim_network import GIGABYTE, HOPS, link_rows
from themis_opt.problem.network import Kind

Message = tuple[int, int, int, int]  # tag, source, target and bytes


@dataclass(frozen=True)
class LinkNetwork:
    """The network of the simulator: per dimension its kind, NPUs, bytes per ns and ns of one link."""

    dimensions: Sequence[tuple[Kind, int, float, float]]

    @classmethod
    def read(cls, path: Path) -> "LinkNetwork":
        """From a network file. Raises InputError if it is none."""
        rows = link_rows(Source(path))
        return cls([(kind, size, bandwidth * GIGABYTE / 1e9, latency) for kind, size, bandwidth, latency in rows])

    def send(self, source: int, target: int, size: int) -> tuple[tuple[int, int, int], int]:
        """Which link a message takes, and how many ns."""
        near, far = source, target
        for k, (kind, count, bandwidth, latency) in enumerate(self.dimensions):
            here, other = near % count, far % count
            if here != other:
                distance = (other - here) % count
                hops = HOPS[kind] * (min(distance, count - distance) if kind is Kind.RING else 1)
                time = math.floor(hops * latency + size / bandwidth)
                return (k, source, -1 if kind is Kind.SWITCH else target), time
            near, far = near // count, far // count
        raise InvalidSchedule("trace", f"NPU {source} sends to itself")


Send = Callable[[int, int, int], tuple[tuple[int, int, int], int]]
"""Which link a message takes, and how many ns, from source, target and bytes."""


def replay(send: Send, traces: Sequence[Sequence[Node]]) -> list[dict[int, tuple[int, int]]]:
    """When every node of every NPU begins and ends, in ns.

    Raises InvalidSchedule, with the rule ``trace``, if nodes wait for ever: in a circle, for a message nobody sends, or
    for no node at all.
    """
    return _Replay(send, traces).run()


class _Replay:
    """The state of a replay."""

    def __init__(self, send: Send, traces: Sequence[Sequence[Node]]) -> None:
        self.send, self.traces = send, [{node.id: node for node in trace} for trace in traces]
        self.left: list[dict[int, int]] = []
        self.after: list[dict[int, list[int]]] = []
        self.times: list[dict[int, tuple[int, int]]] = [{} for _ in traces]
        self.begun: list[dict[int, int]] = [{} for _ in traces]
        self.free: dict[tuple[int, int, int], int] = defaultdict(int)
        self.arrived = Counter[Message]()
        self.waiting: dict[Message, deque[tuple[int, int]]] = defaultdict(deque)
        self.events: list[tuple[int, int, int, int]] = []
        self.issued = 0
        for trace in self.traces:
            deps = {node.id: {*node.data_deps, *node.ctrl_deps} for node in trace.values()}
            after = defaultdict[int, list[int]](list)
            for number, before in deps.items():
                for dep in before:
                    after[dep].append(number)
            self.left.append({number: len(before) for number, before in deps.items()})
            self.after.append(after)

    def run(self) -> list[dict[int, tuple[int, int]]]:
        for npu, left in enumerate(self.left):
            for node in [node for node, count in left.items() if not count]:
                self._begin(0, npu, node)
        while self.events:
            time, _, npu, node = heapq.heappop(self.events)
            self.times[npu][node] = (self.begun[npu][node], time)
            if self.traces[npu][node].type == NodeType.COMM_SEND:
                message = _message(self.traces[npu][node], npu)
                if self.waiting[message]:
                    self._end(time, *self.waiting[message].popleft())
                else:
                    self.arrived[message] += 1
            for other in self.after[npu].get(node, ()):
                self.left[npu][other] -= 1
                if not self.left[npu][other]:
                    self._begin(time, npu, other)
        missing = sum(len(trace) - len(done) for trace, done in zip(self.traces, self.times, strict=True))
        if missing:
            npu = next(n for n, done in enumerate(self.times) if len(done) < len(self.traces[n]))
            node = min(self.traces[npu].keys() - self.times[npu].keys())
            raise InvalidSchedule("trace", f"{missing} nodes wait for ever, such as node {node} of NPU {npu}")
        return self.times

    def _begin(self, time: int, npu: int, number: int) -> None:
        node = self.traces[npu][number]
        self.begun[npu][number] = time
        if node.type == NodeType.COMM_SEND:
            _, source, target, size = _message(node, npu)
            link, length = self.send(source, target, size)
            start = max(time, self.free[link])
            self.free[link] = start + length
            self._end(start + length, npu, number)
        elif node.type == NodeType.COMM_RECV:
            message = _message(node, npu)
            if self.arrived[message]:
                self.arrived[message] -= 1
                self._end(time, npu, number)
            else:
                self.waiting[message].append((npu, number))
        else:
            self._end(time + (node.duration_micros * NANOSECONDS_PER_MICROSECOND or 1), npu, number)

    def _end(self, time: int, npu: int, node: int) -> None:
        self.issued += 1
        heapq.heappush(self.events, (time, self.issued, npu, node))


def _message(node: Node, npu: int) -> Message:
    sends, numbers = node.type == NodeType.COMM_SEND, list[int]()
    for name in ("comm_tag", "comm_dst" if sends else "comm_src", "comm_size"):
        value = node.attributes.get(name)
        if not isinstance(value, int):
            raise InvalidSchedule("trace", f"node {node.id} has no number {name}")
        numbers.append(value)
    tag, peer, size = numbers
    return (tag, npu, peer, size) if sends else (tag, peer, npu, size)
