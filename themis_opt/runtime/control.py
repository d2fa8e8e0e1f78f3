"""Messages between the coordinator and the ranks: JSON objects over one connection per rank."""

import json
import socket
from contextlib import suppress
from threading import Lock
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError

from themis_opt.runtime.links import Address
from themis_opt.runtime.transports.tcp import LENGTH, Caller, receive_exactly

Spoken = TypeVar("Spoken")
RunNumber = Annotated[int, Field(ge=0, lt=2**31)]

ALIVE_EVERY = 0.5  # seconds between two signs of life of a rank
SILENT_FOR = 5.0  # seconds without one after which a rank counts as lost: ten are missing
TOKEN_VARIABLE = "THEMIS_OPT_TOKEN"

LONGEST_MESSAGE = 2**30  # bytes of one message at most


class Garbage(ValueError):
    """Bytes that are no message."""


class RunMessage(BaseModel):
    """A message of which every field is checked when it arrives."""

    model_config = ConfigDict(frozen=True, strict=True)


class Hello(Caller):
    """The first message of a rank, with the address at which others reach it, or why it failed."""

    version: str
    pid: RunNumber = 0
    address: Address | None = None
    failed: str = ""


class Alive(RunMessage):
    """A sign of life of a rank: the operations that it has done, and the one at which it is."""

    type: Literal["alive"]
    done: NonNegativeInt
    at: str


class Failed(RunMessage):
    """The rank that is to blame for a failure, and what it did."""

    type: Literal["failed"]
    rank: RunNumber
    what: str


class Reached(RunMessage):
    """A point of a run that a rank has reached."""

    type: Literal["connected", "loaded", "ready", "finished"]


class Done(RunMessage):
    """What a rank measured in a run, on its clock, and its first wrong element in words."""

    type: Literal["done"]
    origin: FiniteFloat
    wrong: str | None
    cpu: FiniteFloat
    memory: Annotated[int, Field(ge=0, lt=2**63)]
    moved: list[FiniteFloat]
    start: Annotated[list[FiniteFloat | None], Field(min_length=1)]
    end: Annotated[list[FiniteFloat | None], Field(min_length=1)]


class RunOrder(RunMessage):
    """What the coordinator asks of a rank; a field that the kind of order does not have keeps its default."""

    do: Literal["connect", "load", "run", "go", "check", "end"]
    number: int = 0
    seed: int = 0
    program: dict[str, Any] = {}
    addresses: list[Address] = []
    at: float = 0.0
    boot: str = ""


RunReport = Annotated[Alive | Failed | Reached | Done, Field(discriminator="type")]
ORDER, REPORT = TypeAdapter(RunOrder), TypeAdapter[Alive | Failed | Reached | Done](RunReport)


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

    def hear(self, kind: TypeAdapter[Spoken]) -> Spoken:
        """The next message.

        Raises EOFError or OSError if the other end is gone, and Garbage if it is too long or of another kind.
        """
        (size,) = LENGTH.unpack(receive_exactly(self._connection, LENGTH.size))
        if size > LONGEST_MESSAGE:
            raise Garbage
        try:
            return kind.validate_json(receive_exactly(self._connection, size))
        except ValidationError:
            raise Garbage from None

    def close(self) -> None:
        """Close the connection, also for a thread that listens."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
