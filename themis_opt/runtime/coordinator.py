"""Starts the ranks of a run, watches them, and ends them all."""

import math
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import numpy as np
from pydantic import ValidationError

from themis_opt.base.arrays import FloatArray
from themis_opt.base.version import __version__
from themis_opt.runtime import control
from themis_opt.runtime.layout import coordinates
from themis_opt.runtime.links import RankFailure
from themis_opt.runtime.program import Program
from themis_opt.runtime.transports.tcp import ACCEPT_SECONDS, GREETING_SECONDS, Caller, greeting
from themis_opt.runtime.worker import boot_id

REPORT_SECONDS = 30.0  # in which all ranks must have reported
STALL_SECONDS = 5.0
"""Without any operation finished anywhere, beyond what the longest one should take, after which a run is over."""

PART_SECONDS = 2.0  # in which ranks hear that it is over
GARBAGE = "sent garbage to the coordinator"
LEAD_SECONDS = 0.05  # from the sign to begin to the begin, so that it has reached all ranks
StartRanks = Callable[[str, str], Sequence[subprocess.Popen[bytes]]]
"""Starts the processes of all ranks, given the address of the coordinator and the token."""


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """Times, memory and traffic of one run."""

    seconds: float  # from the common begin to the end of the last operation of the last rank
    start: FloatArray  # shape (ranks, operations): seconds from the begin; not a number for what did not run
    end: FloatArray  # the same
    cpu: float  # seconds of processor that all ranks used together
    memory: int  # bytes at most, of the largest rank
    moved: FloatArray  # shape (ranks, dimensions): bytes that a rank sent, or received where that is more


@dataclass
class _RankState:
    """The state of a rank as far as the coordinator knows it."""

    line: control.ControlLine
    address: tuple[str, int]
    pid: int
    listener: Thread
    heard: float = field(default_factory=monotonic)
    done: int = 0
    at: str = ""


class Coordinator:
    """The ranks of a run, as a context: they end with it, whatever happens.

    `start`: starts their processes.
    `host`: address at which ranks find the coordinator.
    `port`: 0 for any.
    `token`: what ranks must know; random by default.
    """

    def __init__(
        self, num_ranks: int, start: StartRanks, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        self.token = token or secrets.token_hex(16)
        self._num_ranks, self._start = num_ranks, start
        self._listener = socket.create_server((host, port), backlog=1024)
        self._address = "{}:{}".format(*self._listener.getsockname()[:2])
        self._processes: Sequence[subprocess.Popen[bytes]] = ()
        self._peers: dict[int, _RankState] = {}
        self._callers: queue.Queue[tuple[control.ControlLine, int, bytes]] = queue.Queue()
        self._inbox: queue.Queue[tuple[int, control.RunReport | str]] = queue.Queue()
        self._sizes: tuple[int, ...] = ()
        self._doing = "starting"
        self._names: dict[int, str] = {}

    def __enter__(self) -> Self:
        try:
            self._processes = self._start(self._address, self.token)
            self._gather()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for peer in self._peers.values():
                with suppress(OSError):
                    peer.line.say(do="end")
            deadline = monotonic() + PART_SECONDS  # who closes a connection before may take the last words back
            for peer in self._peers.values():
                peer.listener.join(max(deadline - monotonic(), 0.0))
            for process in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PART_SECONDS)
        self._kill()

    def _gather(self) -> None:
        """Wait for all ranks; connections that do not know the token are closed."""
        deadline = monotonic() + REPORT_SECONDS
        self._listener.settimeout(ACCEPT_SECONDS)
        while len(self._peers) < self._num_ranks:
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                Thread(target=self._greet, args=(connection,), daemon=True).start()
            while not self._callers.empty():
                self._admit(*self._callers.get())
            missing = min(set(range(self._num_ranks)) - set(self._peers), default=-1)
            if missing >= 0 and monotonic() > deadline:
                raise RankFailure(missing, f"did not report within {REPORT_SECONDS:g} s")
            if missing >= 0 and any(process.poll() is not None for process in self._processes):
                raise RankFailure(missing, "ended before it reported")
        self._listener.close()

    def _greet(self, connection: socket.socket) -> None:
        """Hear who calls; in a separate thread, so that silent strangers hold nobody up."""
        caller, words = greeting(connection, self.token, Caller, monotonic() + GREETING_SECONDS)
        if caller is None:
            connection.close()
        else:
            self._callers.put((control.ControlLine(connection), caller.rank, words))

    def _admit(self, line: control.ControlLine, rank: int, words: bytes) -> None:
        """Take a caller who knows the token for a rank, unless it is no rank or there already."""
        if rank in self._peers or rank >= self._num_ranks:
            line.close()
            return
        try:
            hello = control.Hello.model_validate_json(words)
        except ValidationError:
            line.close()
            raise RankFailure(rank, GARBAGE) from None
        other = f"runs themis_opt {hello.version}, this is {__version__}"
        if hello.version != __version__ or hello.failed or hello.address is None:
            line.close()
            raise RankFailure(rank, other if hello.version != __version__ else hello.failed or GARBAGE)
        listener = Thread(target=self._listen, args=(rank, line), daemon=True)
        self._peers[rank] = _RankState(line, hello.address, hello.pid, listener)
        listener.start()

    def _listen(self, rank: int, line: control.ControlLine) -> None:
        try:
            while True:
                self._inbox.put((rank, line.hear(control.REPORT)))
        except control.Garbage:
            self._inbox.put((rank, GARBAGE))
        except (OSError, EOFError):
            self._inbox.put((rank, "died"))

    def process_of(self, rank: int) -> int:
        """Number of the process of a rank on its machine."""
        return self._peers[rank].pid

    def connect(self, program: Program) -> None:
        """Connect the ranks for programs on the network of this one. Raises RankFailure if one cannot be reached."""
        self._sizes, self._doing = program.sizes, "connecting"
        addresses = [self._peers[rank].address for rank in range(self._num_ranks)]
        self._tell(do="connect", program=asdict(program), addresses=addresses)
        self._collect("connected", math.inf)

    def load(self, number: int, program: Program, name: str = "") -> None:
        """Give all ranks a program, to be run by its number; `name` is said where they fail."""
        self._names[number] = self._doing = name
        self._tell(do="load", number=number, program=asdict(program))
        self._collect("loaded", math.inf)

    def run(self, number: int, seed: int, longest: float) -> MeasuredRun:
        """Run a program that was loaded.

        Raises RankFailure if a rank dies, hangs, sends garbage, or ends with a wrong result.

        `longest`: seconds that one operation should take at most.
        """
        self._doing = self._names[number]
        self._tell(do="run", number=number, seed=seed)
        self._collect("ready", math.inf)
        self._tell(do="go", at=monotonic() + LEAD_SECONDS, boot=boot_id())
        self._collect("finished", STALL_SECONDS + 3 * longest)
        self._tell(do="check")
        collected = self._collect("done", math.inf)
        answers = [answer for _, answer in sorted(collected.items()) if isinstance(answer, control.Done)]
        for rank, answer in enumerate(answers):
            if answer.wrong:
                raise RankFailure(rank, f"ends with a wrong result during {self._doing}: {answer.wrong}")
            if any(len(getattr(answer, of)) != len(getattr(answers[0], of)) for of in ("start", "end", "moved")):
                raise self._named(rank, GARBAGE)
        return _measured(answers)

    def _tell(self, **words: Any) -> None:
        for rank, peer in self._peers.items():
            try:
                peer.line.say(**words)
            except OSError:
                raise self._named(rank, "died") from None

    def _collect(self, kind: str, stall: float) -> dict[int, control.RunReport]:
        """One message of a kind from every rank.

        `stall`: seconds without any progress after which it is given up.
        """
        answers: dict[int, control.RunReport] = {}
        moved_at = began = monotonic()
        for peer in self._peers.values():
            peer.heard, peer.done = began, 0
        while len(answers) < self._num_ranks:
            with suppress(queue.Empty):
                rank, report = self._inbox.get(timeout=0.2)
                peer = self._peers[rank]
                peer.heard = monotonic()
                if isinstance(report, str):
                    raise self._named(rank, report)
                if isinstance(report, control.Failed):
                    raise self._named(report.rank if report.rank in self._peers else rank, report.what)
                if isinstance(report, control.Alive):
                    moved_at = monotonic() if report.done != peer.done else moved_at
                    peer.done, peer.at = report.done, report.at
                elif report.type == kind:
                    answers[rank], moved_at = report, monotonic()
                continue
            self._check(answers, moved_at, stall)
        return answers

    def _check(self, answered: Mapping[int, control.RunReport], moved_at: float, stall: float) -> None:
        now = monotonic()
        waiting = {rank: peer for rank, peer in self._peers.items() if rank not in answered}
        rank, peer = min(waiting.items(), key=lambda item: item[1].heard)
        if now - peer.heard > control.SILENT_FOR:
            raise self._named(rank, f"is silent for {control.SILENT_FOR:g} s")
        if now - moved_at > stall:
            rank, peer = min(waiting.items(), key=lambda item: item[1].done)
            raise self._named(rank, f"hangs: no rank has finished anything for {stall:.0f} s, this one is the last")

    def _named(self, rank: int, what: str) -> RankFailure:
        """The failure with all that helps to find the rank."""
        peer = self._peers[rank]
        place = f" (coordinates {', '.join(map(str, coordinates(rank, self._sizes)))})" if self._sizes else ""
        at = f", at {peer.at}" if peer.at else ""
        return RankFailure(rank, f"at {peer.address[0]}{place} {what} during {self._doing}{at}")

    def _kill(self) -> None:
        for peer in self._peers.values():
            peer.line.close()
        self._listener.close()
        for process in self._processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin:
                with suppress(OSError):
                    process.stdin.close()


def _measured(answers: Sequence[control.Done]) -> MeasuredRun:
    times = [np.array([getattr(one, of) for one in answers], dtype=np.float64) for of in ("start", "end", "moved")]
    start, end = (each - np.array([[one.origin] for one in answers]) for each in times[:2])
    used = sum(one.cpu for one in answers), max(one.memory for one in answers)
    return MeasuredRun(float(np.nanmax(end)), start, end, *used, times[2])


def local(num_ranks: int, transport: str = "tcp") -> StartRanks:
    """All ranks on this machine, on the loopback address, in a process that ends when its standard input does."""

    def start(coordinator: str, token: str) -> Sequence[subprocess.Popen[bytes]]:
        ranks = ",".join(map(str, range(num_ranks)))
        options = ["--ranks", ranks, "--coordinator", coordinator, "--transport", transport]
        line = [sys.executable, "-m", "themis_opt.runtime.worker", *options]
        environment = os.environ | {control.TOKEN_VARIABLE: token}  # others may read the words of a line
        return [subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True, env=environment)]

    return start
