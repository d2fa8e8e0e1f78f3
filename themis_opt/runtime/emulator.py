"""The process behind ``emulate``: a network of namespaces, one per NPU, and a command in each of them.

It uses nothing but the standard library: only a process with one thread may enter a user namespace of its own.
Namespaces have no names, so that they end with the processes in them, and those end with this one: nothing is left.
"""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from themis_opt.runtime.relay import Cable, relay, tap

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
"""Flags of unshare(2)."""

REFUSED = 97
"""Exit code where the system does not allow namespaces; the reason is on the channel."""

RELAY_LOST = 98
"""Exit code where the process that holds frames has ended before the command."""

MTU = 9000
"""Frames of 1500 bytes cost three times the processor time."""

BUCKET_BURST = "16kb"
"""Of the token bucket: larger ones begin every stage ahead of the rate."""

QUEUE = "500ms"
"""What waits for the token bucket before packets are dropped."""

HUB = "10.77.255.254/16"
"""Address of the hub; NPUs have addresses of the same network."""


def main() -> int:
    """Emulate what the first argument says for the process of the third; answers go to the file of the second."""
    plan, channel, parent = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    _end_with(parent)
    try:
        _enter()
        npus = [_Npu(number, npu, plan) for number, npu in enumerate(plan["npus"])]
        cables = _wire(npus, plan)
    except (OSError, subprocess.CalledProcessError) as error:
        _answer(channel, {"refused": _reason(error)})
        return REFUSED
    if cables:
        _start_relay(cables)
    for npu in npus:
        npu.go()
    code = _wait(npus, time.monotonic() + plan["seconds"])
    _answer(channel, {"sent": _counters(npus, len(plan["rates"])), "code": code})
    return 0


class _Npu:
    """A process in a network namespace of its own, which becomes the command."""

    def __init__(self, number: int, place: dict[str, Any], plan: dict[str, Any]) -> None:
        self.number, self.place = number, place
        ready, self._go, parent = os.pipe(), os.pipe(), os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(parent, ready[1], plan)
        os.close(ready[1])
        problem = os.read(ready[0], 4096).decode()
        os.close(ready[0])
        if problem != "ready":
            raise OSError(errno.EPERM, problem or "a namespace could not be made")
        # Open, it outlives the command, so that its links can still be counted.
        self.namespace = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)

    def _be(self, parent: int, ready: int, plan: dict[str, Any]) -> None:
        """In the child: enter a namespace, wait until it is wired, set it up, and become the command."""
        try:
            _end_with(parent)
            os.setpgid(0, 0)
            _unshare(NEW_NETWORK)
            os.write(ready, b"ready")
        except OSError as error:
            os.write(ready, _reason(error).encode())
            os._exit(REFUSED)
        os.read(self._go[0], 1)
        try:
            _ip(self._addresses())
            for k, rate in enumerate(plan["rates"]):
                shape = ["tbf", "rate", f"{rate * 8:.0f}bit", "burst", BUCKET_BURST, "latency", QUEUE]
                _run(["tc", "qdisc", "add", "dev", f"d{k}", "root", *shape])
            words = [word.replace("{address}", self.place["address"]) for word in plan["command"]]
            os.execvpe(words[0], words, os.environ | plan["environment"] | self._environment(plan))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"error: {_reason(error)}", file=sys.stderr)
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
        """What torchrun would say."""
        return {
            "RANK": str(self.number),
            "WORLD_SIZE": str(len(plan["npus"])),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": plan["npus"][0]["address"],
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "m0",  # else gloo listens where the name of the machine leads, which is loopback
        }

    def go(self) -> None:
        """Let the command begin."""
        os.write(self._go[1], b"g")


def _enter() -> None:
    """A network namespace for the hub; in a user namespace of its own where this user is not root."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _unshare(NEW_NETWORK)
        return
    _unshare(NEW_USER | NEW_NETWORK)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def _wire(npus: list[_Npu], plan: dict[str, Any]) -> list[Cable]:
    """A bridge for every group of a dimension and one for the rest, and a cable from each NPU to each of its own.

    Returns
    -------
    list of Cable
        Those on which frames are to be held.
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


def _start_relay(cables: list[Cable]) -> None:
    """A process that carries the frames of these cables; their devices are then its alone."""
    parent = os.getpid()
    if os.fork() == 0:
        _end_with(parent)
        try:
            relay(cables)
        except Exception as error:
            print(f"error: packets are lost from now on: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    for cable in cables:
        os.close(cable.inner)
        os.close(cable.outer)


def _wait(npus: list[_Npu], deadline: float) -> int:
    """The largest exit code of all commands; those that take too long are ended, and all once one has failed."""
    left, code = {npu.pid for npu in npus}, 0
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in left:
            left.discard(pid)
            code = max(code, abs(os.waitstatus_to_exitcode(status)))
        elif pid:
            code = code or RELAY_LOST
        else:
            time.sleep(0.02)
        if left and (code or time.monotonic() > deadline):
            code = code or 124  # as timeout(1) does
            for other in left:
                os.killpg(other, signal.SIGKILL)
    return code


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


def _end_with(parent: int) -> None:
    """Let this process end with its parent, also where that has ended already."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(REFUSED)


def _ip(lines: list[str]) -> None:
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def _run(words: list[str], text: str = "") -> None:
    subprocess.run(words, input=text, text=True, check=True, capture_output=True)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]}: {' '.join(error.stderr.split())}"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _answer(channel: int, words: dict[str, Any]) -> None:
    os.write(channel, json.dumps(words).encode())
    os.close(channel)


if __name__ == "__main__":
    sys.exit(main())
