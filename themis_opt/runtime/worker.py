"""The process of a rank: ``python -m themis_opt.runtime.worker``, started by the coordinator.

It connects to the coordinator, obeys it, and ends as soon as the coordinator is gone.  Started for several
ranks it loads everything once and then is copied for each of them.
"""

import argparse
import ctypes
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Event, Thread
from time import monotonic, process_time, sleep

from themis_opt.base.version import __version__
from themis_opt.runtime.control import ALIVE_EVERY, ORDER, TOKEN_VARIABLE, ControlLine, Garbage, RunOrder
from themis_opt.runtime.engine import Engine, RunProgress, describe
from themis_opt.runtime.layout import group_of
from themis_opt.runtime.links import TRANSPORTS, ChannelKey, Endpoint, Frame, Link, RankFailure
from themis_opt.runtime.movement import Corrupt, Mover, PacedLink, Pacer
from themis_opt.runtime.program import PROGRAM, Program

FAULT_VARIABLE = "THEMIS_OPT_FAULT"
"""For tests of faults: ``corrupt:RANK:COUNT`` flips one bit in the message with that number of a rank."""

LOST = 3  # exit code of a rank whose coordinator is gone
NEIGHBOUR_PATIENCE = 60.0
"""Seconds for which a rank waits for a neighbour; the coordinator, which sees all ranks, gives up earlier."""

FIND_SECONDS = 30.0  # in which a rank must find its coordinator
SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread lets others go on: the default of Python, 5 ms, is longer than many stages."""


class Rank:
    """One rank: its connections and its programs.

    `line`: to the coordinator.
    `endpoint`: to the other ranks.
    """

    def __init__(self, number: int, line: ControlLine, endpoint: Endpoint) -> None:
        self._number, self._line, self._endpoint = number, line, endpoint
        self._links: Mapping[ChannelKey, Link] = {}
        self._programs: dict[int, Program] = {}
        self._mover: Mover | None = None
        self._loaded = -1
        self._progress = RunProgress()
        self._ended = Event()

    def serve(self) -> None:
        """Do what the coordinator says until it says that it is over."""
        Thread(target=self._stay_alive, daemon=True).start()
        try:
            while (order := self._line.hear(ORDER)).do != "end":
                self._obey(order)
        finally:
            self._ended.set()
            self._line.close()

    def _obey(self, order: RunOrder) -> None:
        try:
            match order.do:
                case "connect":
                    self._connect(order)
                case "load":
                    self._programs[order.number] = PROGRAM.validate_python(order.program)
                    self._line.say(type="loaded")
                case "run":
                    self._run(order.number, order.seed)
        except RankFailure as failure:  # connections stay open until the end, so that nobody blames this rank
            self._line.say(type="failed", rank=failure.rank, what=failure.what)
        except Exception as error:
            self._line.say(type="failed", rank=self._number, what=f"failed: {type(error).__name__}: {error}")

    def _connect(self, order: RunOrder) -> None:
        compiled = PROGRAM.validate_python(order.program)
        channels = {
            (k, lane): group_of(self._number, compiled.sizes, (k,))
            for k in range(len(compiled.sizes))
            for lane in range(compiled.in_flight)
        }
        self._links = self._endpoint.connect(channels, order.addresses, NEIGHBOUR_PATIENCE)
        self._line.say(type="connected")

    def _mover_of(self, number: int) -> Mover:
        """The mover with buffers for a program; buffers of another program go before."""
        if self._mover is None or number != self._loaded:
            if self._mover is not None:
                self._mover.close()
            self._mover, program = None, self._programs[number]
            pacers = [Pacer() for _ in program.sizes]  # lanes of a dimension share its bandwidth
            channels = {
                (k, lane): PacedLink(link, pacers[k])
                for (k, lane), link in self._links.items()
                if lane < program.in_flight
            }
            self._mover, self._loaded = Mover(program, self._number, channels, _fault(self._number)), number
        return self._mover

    def _run(self, number: int, seed: int) -> None:
        program, mover = self._programs[number], self._mover_of(number)
        mover.prepare(seed)
        self._progress = RunProgress()
        engine = Engine(program, mover, self._progress)
        self._line.say(type="ready")
        order = self._next_order()
        origin = order.at if order.boot == boot_id() else monotonic()
        began = process_time()
        engine.run(origin)
        cpu = process_time() - began
        self._line.say(type="finished")
        self._next_order()  # a check would take processors from ranks that still run
        wrong = mover.wrong_element(seed)
        used: dict[str, object] = {"cpu": cpu, "memory": largest_memory(), "moved": mover.moved}
        for name, times in (("start", engine.start), ("end", engine.end)):
            used[name] = [None if math.isnan(time) else time for time in times.tolist()]  # what did not run
        self._line.say(type="done", origin=origin, wrong=wrong, **used)

    def _next_order(self) -> RunOrder:
        """The next order of the coordinator in the middle of a run; a rank ends here if it says so."""
        order = self._line.hear(ORDER)
        if order.do == "end":
            os._exit(0)
        return order

    def _stay_alive(self) -> None:
        """Say so, with how far the run is, until the coordinator is gone."""
        while not self._ended.wait(ALIVE_EVERY):
            progress, program = self._progress, self._programs.get(self._loaded)
            current = min(progress.current.values(), default=None)
            messages = self._mover.num_messages if self._mover else 0  # a stage of a slow link takes long
            at = describe(program, current) if program and current is not None else ""
            try:
                self._line.say(type="alive", done=progress.done + messages, at=at)
            except OSError:
                if not self._ended.is_set():
                    os._exit(LOST)


def _fault(rank: int) -> Corrupt | None:
    kind, _, rest = os.environ.get(FAULT_VARIABLE, "").partition(":")
    chosen, _, count = rest.partition(":")
    if kind != "corrupt" or int(chosen) != rank:
        return None
    left = int(count)

    def corrupt(frame: Frame) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            frame[-1] ^= 1

    return corrupt


def largest_memory() -> int:
    """Bytes that this process has held at once, without those of its parent, which resource usage counts as well."""
    with suppress(OSError, StopIteration), open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def boot_id() -> str:
    """The same for all processes that share a monotonic clock, which time namespaces shift."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        boot = file.read().strip()
        with suppress(OSError):  # kernels before 5.6 have none
            return f"{boot} {os.readlink('/proc/self/ns/time')}"  # noqa: PTH115 - no link between files
        return f"{boot} "
    return f"{socket.gethostname()} {os.getppid()}"


def serve(rank: int, coordinator: tuple[str, int], host: str, transport: str, token: str) -> int:
    """Be a rank until the coordinator says that it is over; returns the exit code."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection = _called(coordinator)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = ControlLine(connection)
        words = {"token": token, "rank": rank, "version": __version__, "pid": os.getpid()}
        try:
            endpoint = TRANSPORTS.load(transport)(rank, token, host)
        except Exception as error:
            line.say(**words, failed=f"cannot use {transport}: {error}")
            return LOST
        line.say(**words, address=endpoint.address)
        Rank(rank, line, endpoint).serve()
    except (OSError, EOFError, Garbage):
        return LOST
    return 0


def _called(address: tuple[str, int]) -> socket.socket:
    """A connection to the coordinator, which may begin later than its ranks."""
    deadline = monotonic() + FIND_SECONDS
    while True:
        try:
            return socket.create_connection(address, timeout=FIND_SECONDS)
        except ConnectionRefusedError:
            if monotonic() > deadline:
                raise
            sleep(0.1)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process with its parent, where it can, even while it is stopped.

    `parent`: number of that process; this one ends at once if it is gone already, of which the kernel tells nobody.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(LOST)


def _end_with_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(LOST)


def main() -> int:
    """Be one rank or several: a process each, which end with this one, as this one does with its standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", required=True, help="numbers with commas between them")
    parser.add_argument("--coordinator", required=True, help="host and port")
    parser.add_argument("--transport", default="tcp")
    arguments = parser.parse_args()
    host, _, port = arguments.coordinator.rpartition(":")
    TRANSPORTS.load(arguments.transport)  # once, before there are copies
    parent = os.getpid()
    for rank in map(int, arguments.ranks.split(",")):
        if os.fork() == 0:
            end_with_parent(parent)
            token = os.environ[TOKEN_VARIABLE]
            os._exit(serve(rank, (host, int(port)), "127.0.0.1", arguments.transport, token))
    Thread(target=_end_with_input, daemon=True).start()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
