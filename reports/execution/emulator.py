"""The process behind ``emulate``: a network of namespaces, one per NPU, and a command in each of them.

It uses nothing but the standard library: only a process with one thread may enter a separate user namespace.
Namespaces have no names, so that they end with the processes in them, and those end with this one, however it ends.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

TUN_DEVICE = "/dev/net/tun"

_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TAP, _NO_HEADER = 0x0002, 0x1000  # IFF_TAP, IFF_NO_PI

LONGEST_FRAME = 2**16

LONGEST_QUEUE = 2**24
"""Bytes under way on a cable at most; what comes beyond is dropped, as by a network with short queues."""


class Cable(NamedTuple):
    """A cable between the device of an NPU and that of a bridge."""

    inner: int  # file of the device of the NPU
    outer: int  # file of that of the bridge
    delay: float  # seconds from the inner to the outer end


def tap(name: str) -> int:
    """A new TAP device in the network namespace of this process; it ends with the last process that holds the file."""
    try:
        file = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP | _NO_HEADER))
    except OSError as error:
        rule = f"{TUN_DEVICE}, which holds packets back, cannot be used: {error.strerror}"
        raise OSError(error.errno, rule) from None
    return file


def relay(cables: Sequence[Cable]) -> None:
    """Carry frames for ever."""
    lines = {cable.inner: _DelayLine(cable) for cable in cables}
    back = {cable.outer: cable.inner for cable in cables}
    while True:
        due = min((line.due for line in lines.values() if line.frames), default=None)
        wait = None if due is None else max(due - monotonic(), 0.0)
        ready, _, _ = select.select([*lines, *back], (), (), wait)
        for file in ready:
            if file in lines:
                lines[file].take()
            else:
                for frame in _frames(file):
                    _write(back[file], frame)
        for line in lines.values():
            line.deliver()


class _DelayLine:
    """One direction of a cable, and the frames on it."""

    def __init__(self, cable: Cable) -> None:
        self._cable, self._bytes = cable, 0
        self.frames: deque[tuple[float, bytes]] = deque()

    @property
    def due(self) -> float:
        return self.frames[0][0]

    def take(self) -> None:
        for frame in _frames(self._cable.inner):
            if self._bytes + len(frame) <= LONGEST_QUEUE:
                self.frames.append((monotonic() + self._cable.delay, frame))
                self._bytes += len(frame)

    def deliver(self) -> None:
        now = monotonic()
        while self.frames and self.due <= now:
            _, frame = self.frames.popleft()
            self._bytes -= len(frame)
            _write(self._cable.outer, frame)


def _frames(file: int) -> list[bytes]:
    frames = []
    try:
        while True:
            frames.append(os.read(file, LONGEST_FRAME))
    except OSError:  # none is left, or the device is down
        return frames


def _write(file: int, frame: bytes) -> None:
    try:
        os.write(file, frame)
    except OSError:
        return  # lost, as on a cable that is unplugged


NEW_MOUNTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x10000000, 0x20000000, 0x40000000  # of unshare(2)
REFUSED = 97  # exit code where the system does not allow namespaces; the reason is on the channel
RELAY_LOST = 98  # exit code where the process that holds frames has ended before the command
MTU = 9000  # frames of 1500 bytes cost three times the processor time
BUCKET_BURST = "16kb"  # of the token bucket: larger ones begin every stage ahead of the rate
QUEUE = "500ms"  # packets that wait longer for the token bucket are dropped
HUB = "10.77.255.254/16"  # address of the hub; NPUs have addresses of the same network


def main() -> int:
    """Emulate the plan that the socket of the first argument holds, for the process of the second; answer there.

    All processes are in a PID namespace: whatever they started ends with the first process of it, which ends with this
    one.
    """
    channel, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    channel.set_inheritable(False)  # a command that had it could answer, or outlive the command that is waited for
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C of a terminal comes here too, and ends all without a word
    _end_with_parent()
    if os.getppid() != parent:
        return REFUSED
    plan = json.loads(channel.makefile(encoding="utf-8").read())
    try:
        _enter()
    except OSError as error:
        _answer(channel, {"refused": _reason(error)})
        return REFUSED
    alive = os.pipe()
    first = os.fork()
    if first == 0:
        _end_with_parent()
        os.close(alive[1])
        if not select.select([alive[0]], (), (), 0)[0]:  # else the parent was gone before it could be told
            os._exit(_emulate(channel, plan))
        os._exit(REFUSED)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _emulate(channel: socket.socket, plan: dict[str, Any]) -> int:
    """Run the command on all NPUs; returns the exit code of the emulator."""
    try:
        npus = [_Npu(number, npu, plan) for number, npu in enumerate(plan["npus"])]
        cables = _wire(npus, plan)
    except (OSError, subprocess.CalledProcessError) as error:
        _answer(channel, {"refused": _reason(error)})
        return REFUSED
    relay_process = _start_relay(cables) if cables else 0
    for npu in npus:
        npu.go()
    for npu in npus:
        if hindrance := npu.hindrance():
            _answer(channel, hindrance)
            return REFUSED
    code, reason = _wait(npus, relay_process, plan["seconds"])
    _answer(channel, {"sent": _counters(npus, len(plan["rates"])), "code": code, "reason": reason})
    return 0


class _Npu:
    """A process in a separate network namespace, which becomes the command."""

    def __init__(self, number: int, place: dict[str, Any], plan: dict[str, Any]) -> None:
        self.number, self.place = number, place
        self._near, far = socket.socketpair()
        self._go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._near.close()
            self._be(far, plan)
        far.close()
        words, files, _, _ = socket.recv_fds(self._near, 4096, 1)
        if words != b"ready":
            raise OSError(errno.EPERM, words.decode() or "a namespace could not be made")
        # Open, it outlives the command, so that its links can still be counted.
        self.namespace = files[0]

    def _be(self, ready: socket.socket, plan: dict[str, Any]) -> None:
        """In the child: enter a namespace, wait until it is wired, set it up, and become the command."""
        try:
            _unshare(NEW_NETWORK)
            with open("/proc/self/ns/net", "rb") as namespace:  # noqa: PTH123 - /proc knows other numbers of processes
                socket.send_fds(ready, [b"ready"], [namespace.fileno()])
        except OSError as error:
            ready.sendall(_reason(error).encode())
            os._exit(REFUSED)
        os.read(self._go[0], 1)
        _mount_processes()
        try:
            _ip(self._addresses())
            for k, rate in enumerate(plan["rates"]):
                shape = ["tbf", "rate", f"{rate * 8:.0f}bit", "burst", BUCKET_BURST, "latency", QUEUE]
                _run(["tc", "qdisc", "add", "dev", f"d{k}", "root", *shape])
        except (OSError, subprocess.CalledProcessError) as error:
            _answer(ready, {"refused": _reason(error)})
            os._exit(REFUSED)
        words = [word.replace("{address}", self.place["address"]) for word in plan["command"]]
        try:
            os.execvpe(words[0], words, os.environ | plan["environment"] | self._environment(plan))
        except OSError as error:
            _answer(ready, {"program": words[0], "reason": error.strerror})
            os._exit(REFUSED)

    def _addresses(self) -> list[str]:
        """One address, and a route over the dimension that leads to each neighbour; others over the hub."""
        address = self.place["address"]
        lines = ["link set lo up", f"addr add {address}/32 dev m0", "link set m0 up"]
        lines.append(f"route add 10.77.0.0/16 dev m0 src {address}")
        for k, link in enumerate(self.place["links"]):
            lines.append(f"link set d{k} mtu {MTU} up")
            lines += [f"route add {peer}/32 dev d{k} src {address} congctl reno" for peer in link["peers"]]
        return lines

    def _environment(self, plan: dict[str, Any]) -> dict[str, str]:
        """The environment that torchrun would make."""
        return {
            "RANK": str(self.number),
            "WORLD_SIZE": str(len(plan["npus"])),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": plan["npus"][0]["address"],
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "m0",  # else gloo listens where the name of the machine leads, which is loopback
        }

    def go(self) -> None:
        os.write(self._go[1], b"g")

    def hindrance(self) -> dict[str, Any]:
        """Why the command could not be started; nothing once it runs, which has closed the other end."""
        with self._near, self._near.makefile(encoding="utf-8") as file:
            hindrance: dict[str, Any] = json.loads(file.read() or "{}")
        return hindrance


def _enter() -> None:
    """A network namespace for the hub, and one of processes; in a user namespace where this user is not root."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _unshare(NEW_NETWORK | NEW_PROCESSES)
        return
    _unshare(NEW_USER | NEW_NETWORK | NEW_PROCESSES)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def _wire(npus: list[_Npu], plan: dict[str, Any]) -> list[Cable]:
    """A bridge for every group of a dimension and one for the rest, and a cable from each NPU to each of its bridges.

    Returns those on which frames are to be held.
    """
    cables: list[Cable] = []
    lines = ["link set lo up", "link add name hub type bridge", f"addr add {HUB} dev hub", "link set hub up"]
    groups = sorted({(k, link["group"]) for npu in npus for k, link in enumerate(npu.place["links"])})
    for k, group in groups:
        lines += [f"link add name b{k}_{group} mtu {MTU} type bridge", f"link set b{k}_{group} up"]
    for npu in npus:
        ends = [(f"v{npu.number}_{k}", f"d{k}", f"b{k}_{link['group']}") for k, link in enumerate(npu.place["links"])]
        for outer, inner, bridge in [(f"m{npu.number}", "m0", "hub"), *ends]:
            size = "" if bridge == "hub" else f"mtu {MTU} "
            delay = 0.0 if bridge == "hub" else plan["delays"][int(inner[1:])]
            if delay:
                cables.append(Cable(tap(f"t{outer}"), tap(outer), delay))
                lines.append(f"link set t{outer} netns {npu.pid} name {inner}")
                lines.append(f"link set {outer} {size}")
            else:
                lines.append(f"link add name {outer} {size}type veth peer name {inner} {size}netns {npu.pid}")
            lines.append(f"link set {outer} master {bridge} up")
    _ip(lines)
    return cables


def _start_relay(cables: list[Cable]) -> int:
    """A process that carries the frames of these cables, whose devices are then its alone; returns its number."""
    process = os.fork()
    if process == 0:
        try:
            relay(cables)
        except Exception as error:
            print(f"error: packets are lost from now on: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    for cable in cables:
        os.close(cable.inner)
        os.close(cable.outer)
    return process


def _wait(npus: list[_Npu], relay_process: int, seconds: float) -> tuple[int, str]:
    """An exit code and its reason, as soon as a command has failed, all have ended, or they take too long."""
    left, deadline = {npu.pid: npu.number for npu in npus}, time.monotonic() + seconds
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in left:
            rank, code = left.pop(pid), os.waitstatus_to_exitcode(status)
            if code:
                return abs(code), f"NPU {rank} ended " + (f"with code {code}" if code > 0 else f"by signal {-code}")
        elif pid and pid == relay_process:
            return RELAY_LOST, "the process ended that holds packets back"
        elif not pid:  # others are orphans of the commands
            time.sleep(0.02)
            if time.monotonic() > deadline:
                return 124, f"the command took longer than {seconds:g} s"  # the code of timeout(1)
    return 0, ""


def _counters(npus: list[_Npu], count: int) -> list[list[int]]:
    """Bytes that each NPU sent on each dimension, as the hub received them, headers included."""
    with open("/proc/net/dev", encoding="ascii") as file:  # noqa: PTH123
        rows = dict(line.split(":") for line in file if ":" in line)
    received = {name.strip(): int(values.split()[0]) for name, values in rows.items()}
    return [[received[f"v{npu.number}_{k}"] for k in range(count)] for npu in npus]


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount_processes() -> None:
    """A /proc with the numbers that processes have here, for commands that look themselves up, where it is allowed."""
    with suppress(OSError, subprocess.CalledProcessError):
        _unshare(NEW_MOUNTS)
        _run(["mount", "--make-rprivate", "/"])
        _run(["mount", "-t", "proc", "proc", "/proc"])


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _ip(lines: list[str]) -> None:
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def _run(words: list[str], text: str = "") -> None:
    subprocess.run(words, input=text, text=True, check=True, capture_output=True)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]}: {' '.join(error.stderr.split())}"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _answer(channel: socket.socket, words: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # who has asked was interrupted
        channel.sendall(json.dumps(words).encode())
    channel.close()


if __name__ == "__main__":
    sys.exit(main())
