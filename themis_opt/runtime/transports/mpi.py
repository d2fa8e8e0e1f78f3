"""Links over MPI (extra ``mpi``): nonblocking messages between ranks that mpiexec has started."""

from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from typing import Any

import mpi4py
import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.runtime.links import Address, ChannelKey, Incoming, Outgoing, RankFailure
from themis_opt.runtime.transports.shared_memory import unlink_shared_memory_after_this_process

mpi4py.rc.thread_level = "multiple"
unlink_shared_memory_after_this_process()
from mpi4py import MPI  # noqa: E402

MPI_POLL_SECONDS = 0.0002
"""Between two looks at requests: MPI makes progress only when it is asked, and ranks share processors."""

IDLE_SECONDS = 0.001  # the same while messages of this rank are not due yet: those of others hardly are before


def own_rank() -> int:
    """Number of this process among those of mpiexec."""
    return int(MPI.COMM_WORLD.rank)


class MpiLink:
    """A link on a separate communicator; ranks are those of the world."""

    def __init__(self, communicator: Any, patience: float) -> None:
        self._communicator, self._patience = communicator, patience

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive; see :class:`~themis_opt.runtime.links.Link`."""
        frames = [np.empty(message.size, np.uint8) for message in incoming]
        requests = [self._communicator.Irecv(f, message.peer) for f, message in zip(frames, incoming, strict=True)]
        waiting, left = dict(enumerate(requests)), list(outgoing)
        sent: list[tuple[memoryview, Any]] = []
        moved_at = monotonic()
        while left or waiting or sent:
            while left and left[0].due <= monotonic():
                message = left.pop(0)
                frame = message.pack()
                sent.append((frame, self._communicator.Isend(np.frombuffer(frame, np.uint8), message.peer)))
            arrived = [number for number, request in waiting.items() if request.Test()]
            for number in arrived:
                incoming[number].check(frames[number].data)
                incoming[number].unpack(frames[number].data)
                del waiting[number]
            sent = [pair for pair in sent if not pair[1].Test()]
            if arrived or left:
                moved_at = monotonic()
            elif monotonic() - moved_at > self._patience:
                peers = [incoming[number].peer for number in waiting] or [outgoing[-1].peer]
                raise RankFailure(peers[0], f"moved nothing for {self._patience:g} s")
            if not arrived and (left or waiting or sent):
                sleep(min(max(left[0].due - monotonic(), MPI_POLL_SECONDS), IDLE_SECONDS) if left else MPI_POLL_SECONDS)


class MpiEndpoint:
    """One rank of the world.

    `rank`, `token`, `host`: as for other transports; mpiexec has connected the ranks already.
    """

    def __init__(self, rank: int, token: str, host: str) -> None:
        self._world = MPI.COMM_WORLD
        self.address: Address = (host, 0)
        if self._world.rank != rank:
            raise InputError("is not the rank of this process in MPI", field="rank", value=rank)

    def connect(
        self, channels: Mapping[ChannelKey, Sequence[int]], addresses: Sequence[Address], patience: float
    ) -> dict[ChannelKey, MpiLink]:
        """A communicator for every channel; see :class:`~themis_opt.runtime.links.Endpoint`."""
        return {key: MpiLink(self._world.Dup(), patience) for key in sorted(channels)}
