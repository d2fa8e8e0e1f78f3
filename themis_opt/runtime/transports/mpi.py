"""Links over MPI (extra ``mpi``): nonblocking messages between ranks that mpiexec has started."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import mpi4py
import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.runtime.links import Address, ChannelKey, Incoming, Outgoing, RankFailure

FOLDER, PREFIXES = Path("/dev/shm"), ("mpich_shm", "ucx_shm")
"""Where the names are, and how those of MPICH and of its UCX begin; other systems keep such memory elsewhere."""


def unlink_shared_memory_after_this_process() -> None:
    """Start a process that waits for the end of this one, and then unlinks names that are new and in nobody's use.

    It must be called before MPI begins, by a process with one thread.  However ranks end, the last one leaves nothing.
    """
    if not FOLDER.is_dir():
        return
    before = _names()
    read, _held_open_until_the_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()  # mpiexec and terminals signal groups, and the coordinator kills all descendants
        if os.fork() == 0:
            _wait_for_end(read)
            for name in _names() - before - _in_use():
                (FOLDER / name).unlink(missing_ok=True)
        os._exit(0)
    os.close(read)
    os.waitpid(child, 0)


def _wait_for_end(read: int) -> None:
    """Hold nothing but one end of a pipe, whose other end closes with the process that is waited for."""
    os.dup2(read, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.read(3, 1)


def _names() -> set[str]:
    return {path.name for path in FOLDER.iterdir() if path.name.startswith(PREFIXES)}


def _in_use() -> set[str]:
    """Names that a process of this user holds."""
    names: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            words = maps.read_text(errors="replace").split()
            names |= {Path(word).name for word in words if word.startswith(str(FOLDER))}
    return names


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
