"""Messages between the coordinator and the ranks: JSON objects over one connection per rank."""

import json
import socket
from contextlib import suppress
from threading import Lock
from typing import Any

from themis_opt.runtime.transports.tcp import LENGTH, receive_exactly

Words = dict[str, Any]

ALIVE_EVERY = 0.5  # seconds between two signs of life of a rank
SILENT_FOR = 5.0  # seconds without one after which a rank counts as lost: ten are missing
TOKEN_VARIABLE = "THEMIS_OPT_TOKEN"

LONGEST_MESSAGE = 2**30  # bytes of one message at most


class Garbage(ValueError):
    """Bytes that are no message."""


class ControlLine:
    """One end of a connection; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._sending = connection, Lock()
        connection.settimeout(None)

    def say(self, **words: Any) -> None:
        """Send a message."""
        data = json.dumps(words).encode()
        with self._sending:
            self._connection.sendall(LENGTH.pack(len(data)) + data)

    def hear(self, most: int = LONGEST_MESSAGE, deadline: float | None = None) -> Words:
        """The next message, of `most` bytes.

        Raises EOFError or OSError if the other end is gone, or the deadline on the monotonic clock is over; Garbage if
        it sends anything else.
        """
        (size,) = LENGTH.unpack(receive_exactly(self._connection, LENGTH.size, deadline))
        if size > most:
            raise Garbage
        data = receive_exactly(self._connection, size, deadline)
        try:
            words = json.loads(data)
        except (ValueError, RecursionError):
            raise Garbage from None
        if not isinstance(words, dict):
            raise Garbage
        return words

    def close(self) -> None:
        """Close the connection, also for a thread that listens."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
