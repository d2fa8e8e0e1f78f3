"""The network as the runtime needs it: links that send and receive messages at once, and who offers them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from themis_opt.base.errors import ThemisError
from themis_opt.base.registries import Registry

Frame = memoryview  # a message with its header, as bytes


class RankFailure(ThemisError):
    """A rank that does not do its part.

    `rank`: the one to blame.
    `what`: what it did, such as ``closed its connection``.
    """

    def __init__(self, rank: int, what: str) -> None:
        self.rank, self.what = rank, what
        super().__init__(f"rank {rank} {what}")


class Outgoing(NamedTuple):
    """A message to send."""

    peer: int  # the rank that it is for
    due: float  # seconds of the monotonic clock before which it must not leave
    pack: Callable[[], Frame]  # makes the frame; called when it leaves


class Incoming(NamedTuple):
    """A message to receive."""

    peer: int  # the rank that sends it
    size: int  # bytes of the frame
    head: int  # bytes of the header it begins with
    check: Callable[[Frame], None]  # takes the header; raises RankFailure if it is of another message
    unpack: Callable[[Frame], None]  # takes the whole frame


class Link(Protocol):
    """The connections of a rank along one dimension; one thread uses a link."""

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive messages at once; returns when all have left and arrived.

        Messages between two ranks arrive in the order in which they were sent. Raises RankFailure if a rank is gone,
        sends something else, or does nothing for too long.

        `outgoing`: in the order of their due times.
        """


Address = tuple[str, int]
ChannelKey = tuple[int, int]  # dimension and lane: as many lanes as stages may be in flight there


class Endpoint(Protocol):
    """One rank of a transport before it is connected; others find it at its address."""

    address: Address

    def connect(
        self, channels: Mapping[ChannelKey, Sequence[int]], addresses: Sequence[Address], patience: float
    ) -> Mapping[ChannelKey, Link]:
        """Connect to all neighbours. Raises RankFailure if a neighbour is not there in time.

        `channels`: ranks along the dimension of each channel, this one included.
        `addresses`: of all ranks.
        `patience`: seconds without anything from a rank after which a wait fails.
        """


TRANSPORTS = Registry(
    "themis_opt.transports",
    {
        "tcp": "themis_opt.runtime.transports.tcp:TcpEndpoint",
        "torch": "themis_opt.runtime.transports.torch:TorchEndpoint",
    },
)
"""Endpoints by the name of their transport: made of a rank, the token of the run, and the address to listen on."""
