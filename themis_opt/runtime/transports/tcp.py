"""Links over TCP: one connection for each pair of neighbours and lane, and one thread that sends and receives."""

import hmac
import math
import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from themis_opt.runtime.links import Address, ChannelKey, Incoming, Outgoing, RankFailure

CONGESTION_CONTROL = b"reno"  # congestion control that does not pace; BBR, the default of some systems, paces by itself
GREETING_SECONDS = 10.0  # in which all neighbours must be connected
LENGTH = struct.Struct("<I")
LONGEST_GREETING = 2**14  # bytes that are read of a caller before it has shown the token
ACCEPT_SECONDS = 0.05  # between two looks at whether all callers are known
LARGEST_READ = 2**20  # bytes of one read

T = TypeVar("T", Outgoing, Incoming)


class TcpLink:
    """A link over connections.

    `connections`: by rank.
    `patience`: seconds without a byte after which a wait fails.
    """

    def __init__(self, connections: Mapping[int, socket.socket], patience: float) -> None:
        self._connections, self._patience = connections, patience
        for connection in connections.values():
            connection.setblocking(False)

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive; see :class:`~themis_opt.runtime.links.Link`."""
        senders = [_Flow(self._connections[peer], peer, _sent, messages) for peer, messages in _by_peer(outgoing)]
        receivers = [_Flow(self._connections[peer], peer, _received, messages) for peer, messages in _by_peer(incoming)]
        moved_at = monotonic()
        while senders or receivers:
            now = monotonic()
            ready = [sender for sender in senders if sender.due <= now]
            due = min((sender.due for sender in senders if sender.due > now), default=now + self._patience)
            wait = max(min(due, moved_at + self._patience) - now, 0.0)
            readable, writable, _ = select.select(receivers, ready, (), wait)
            for receiver in readable:
                receiver.progress()
            for sender in writable:
                sender.progress()
            if readable or writable or len(ready) < len(senders):
                moved_at = monotonic()
            elif monotonic() - moved_at >= self._patience:
                idle, what = (receivers[0].peer, "sent") if receivers else (senders[0].peer, "took")
                raise RankFailure(idle, f"{what} nothing for {self._patience:g} s")
            senders, receivers = ([flow for flow in flows if flow.due < math.inf] for flows in (senders, receivers))


def _by_peer(messages: Sequence[T]) -> Iterable[tuple[int, list[T]]]:
    queues: dict[int, list[T]] = {}
    for message in messages:
        queues.setdefault(message.peer, []).append(message)
    return queues.items()


_Move = Callable[[socket.socket, int, list[T]], Iterator[float]]
"""Moves a part of messages at each step, and says from when on the next one may move."""


class _Flow:
    """Messages to or from one neighbour: a part of them moves whenever its connection is ready."""

    def __init__(self, connection: socket.socket, peer: int, move: _Move[T], messages: list[T]) -> None:
        self.fileno, self.peer, self._parts = connection.fileno, peer, move(connection, peer, messages)
        self.progress()

    def progress(self) -> None:
        self.due = next(self._parts, math.inf)  # infinite where nothing is left


def _sent(connection: socket.socket, peer: int, messages: list[Outgoing]) -> Iterator[float]:
    """Send messages; a frame is made when it leaves."""
    for message in messages:
        yield message.due
        rest = message.pack()
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except BlockingIOError:
                pass
            except OSError as error:
                raise RankFailure(peer, f"closed its connection ({error.strerror})") from None
            if rest:
                yield 0.0


def _received(connection: socket.socket, peer: int, messages: list[Incoming]) -> Iterator[float]:
    """Receive messages; the header is checked before the rest is waited for."""
    for message in messages:
        frame, count = np.empty(message.size, np.uint8).data, 0
        while count < len(frame):
            yield 0.0
            until = message.head if count < message.head else len(frame)
            try:
                part = connection.recv_into(frame[count:until])
            except BlockingIOError:
                continue
            except OSError as error:
                raise RankFailure(peer, f"closed its connection ({error.strerror})") from None
            if not part:
                raise RankFailure(peer, "closed its connection")
            count += part
            if until == message.head == count:
                message.check(frame)
        message.unpack(frame)


class Caller(BaseModel):
    """Who calls; all that is read of a message of strangers."""

    model_config = ConfigDict(frozen=True, strict=True)

    token: str
    rank: Annotated[int, Field(ge=0, lt=2**31)]


class _Greeting(Caller):
    """The first words on a connection."""

    dimension: int
    lane: int


C = TypeVar("C", bound=Caller)


class TcpEndpoint:
    """Where a rank listens, and how it reaches its neighbours.

    `token`: connections that do not know it are closed.
    `host`: the address to listen on.
    """

    def __init__(self, rank: int, token: str, host: str) -> None:
        self._rank, self._token = rank, token
        self._listener = socket.create_server((host, 0), backlog=256)
        self.address: Address = self._listener.getsockname()[:2]
        self._accepted: dict[tuple[int, int, int], socket.socket] = {}

    def connect(
        self, channels: Mapping[ChannelKey, Sequence[int]], addresses: Sequence[Address], patience: float
    ) -> dict[ChannelKey, TcpLink]:
        """Connect to all neighbours: to those of lower rank, while those of higher rank connect to this one.

        Raises RankFailure if a neighbour is not there in time.

        `channels`: ranks along the dimension of each channel, this one included.
        `addresses`: of all ranks.
        """
        wanted = {(peer, *key) for key, peers in channels.items() for peer in peers if peer != self._rank}
        acceptor = Thread(
            target=self._accept, args=({caller for caller in wanted if caller[0] > self._rank},), daemon=True
        )
        acceptor.start()
        connections = {key: self._call(addresses[key[0]], *key) for key in sorted(wanted) if key[0] < self._rank}
        acceptor.join(GREETING_SECONDS)
        connections |= self._accepted
        missing = sorted(wanted - set(connections))
        if missing:
            raise RankFailure(missing[0][0], f"did not connect within {GREETING_SECONDS:g} s")
        self._listener.close()
        return {
            key: TcpLink({peer: connections[peer, *key] for peer in peers if peer != self._rank}, patience)
            for key, peers in channels.items()
        }

    def _call(self, address: Address, peer: int, dimension: int, lane: int) -> socket.socket:
        try:
            connection = socket.create_connection(address, timeout=GREETING_SECONDS)
        except OSError as error:
            raise RankFailure(peer, f"cannot be reached at {address[0]}: {error.strerror or error}") from None
        _prepare(connection)
        words = _Greeting(token=self._token, rank=self._rank, dimension=dimension, lane=lane).model_dump_json().encode()
        connection.sendall(LENGTH.pack(len(words)) + words)
        return connection

    def _accept(self, wanted: set[tuple[int, int, int]]) -> None:
        deadline = monotonic() + GREETING_SECONDS
        while wanted - set(self._accepted) and monotonic() < deadline:
            self._listener.settimeout(ACCEPT_SECONDS)
            with suppress(OSError):
                connection, _ = self._listener.accept()
                Thread(target=self._welcome, args=(connection, wanted, deadline), daemon=True).start()

    def _welcome(self, connection: socket.socket, wanted: set[tuple[int, int, int]], deadline: float) -> None:
        """Keep the connection of a neighbour; in a separate thread, so that silent strangers hold nobody up."""
        caller, _ = greeting(connection, self._token, _Greeting, deadline)
        place = caller and (caller.rank, caller.dimension, caller.lane)
        if place is None or place not in wanted or place in self._accepted:
            connection.close()
            return
        _prepare(connection)
        self._accepted[place] = connection


def greeting(
    connection: socket.socket, token: str, kind: type[C], deadline: float
) -> tuple[C, bytes] | tuple[None, bytes]:
    """Who calls, and the bytes that say so; None for strangers, who do not know the token in time."""
    try:
        (size,) = LENGTH.unpack(receive_exactly(connection, LENGTH.size, deadline))
        words = receive_exactly(connection, size, deadline) if size <= LONGEST_GREETING else b""
        caller = kind.model_validate_json(words)
    except (OSError, EOFError, ValidationError):
        return None, b""
    return (caller, words) if hmac.compare_digest(caller.token.encode(), token.encode()) else (None, b"")


def receive_exactly(connection: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """So many bytes; raises EOFError where the connection ends before, and TimeoutError after the deadline."""
    data = bytearray()
    while len(data) < count:
        if deadline is not None:  # of all bytes together: a limit on each would let a slow sender go on for ever
            connection.settimeout(max(deadline - monotonic(), 0.001))
        part = connection.recv(min(count - len(data), LARGEST_READ))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _prepare(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError, AttributeError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
