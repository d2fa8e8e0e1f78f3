"""A network on this machine for programs that know nothing of it: one namespace per NPU, one shaped link per dimension.

    python reports/execution/emulate.py 4x2 --rates 100Mb/s,50Mb/s [--delay 0,2ms] -- COMMAND

runs the command once per NPU, and prints what each NPU sent on each dimension as JSON.
Links are slowed where packets leave, by token buckets; where a link has a latency, a process holds its packets back.
Every NPU has one address; neighbours share exactly one dimension, so a route for each of them makes any TCP program use
the right link, and the counters of the links show which algorithm it really runs.
"""

import argparse
import json
import math
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, parse_bandwidth, parse_time
from themis_opt.runtime.control import TOKEN_VARIABLE
from themis_opt.runtime.layout import group_of

MAX_EMULATED_NPUS = 64

LONGEST_COMMAND = 3600.0  # seconds for which a command may run at most


@dataclass(frozen=True)
class Emulated:
    """Exit code and traffic of a command on an emulated network."""

    code: int  # of the first NPU that failed, or 0
    reason: str  # why the code is not 0
    sent: tuple[tuple[int, ...], ...]  # bytes that each NPU sent on each dimension, headers included


def emulate(
    sizes: Sequence[int],
    rates: Sequence[float],
    command: Sequence[str],
    seconds: float = LONGEST_COMMAND,
    delays: Sequence[float] | None = None,
) -> Emulated:
    """Run a command once per NPU, each in a separate network namespace.

    Raises InputError if the command has no name or cannot be started, or the system does not allow namespaces, or lacks
    ``ip`` and ``tc``; with delays, if it lacks TAP devices.

    `sizes`: NPUs along each dimension.
    `rates`: bytes per second that an NPU sends on each dimension at most.
    `command`: ``{address}`` stands for the address of the NPU; the environment says ``RANK``, ``WORLD_SIZE``,
      ``MASTER_ADDR``, ``MASTER_PORT`` and the token of runs.
    `seconds`: after which it is ended.
    `delays`: seconds that a packet is under way on each dimension, besides the time to send it; none by default.
    """
    if not command or not command[0]:
        raise InputError("must be the name of a program", field="COMMAND", value=" ".join(command))
    plan = {
        "npus": _npus(sizes),
        "rates": list(rates),
        "delays": list(delays or [0.0] * len(rates)),
        "command": list(command),
        "environment": {TOKEN_VARIABLE: os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)},
        "seconds": seconds,
    }
    answer, code = _answered(plan)
    if "program" in answer:
        raise InputError(f"cannot be started: {answer['reason']}", field="COMMAND", value=answer["program"])
    if "refused" in answer:
        raise InputError(f"network namespaces cannot be made here: {answer['refused']}", field="emulate")
    if "code" not in answer:
        raise InputError(f"ended with code {code}", field="emulate")
    return Emulated(answer["code"], answer["reason"], tuple(map(tuple, answer["sent"])))


def _answered(plan: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The answer of the emulator, and its exit code.

    The plan goes through a socket, since everybody may read the arguments of a process and the plan holds the token.
    """
    near, far = socket.socketpair()
    line = [sys.executable, str(Path(__file__).with_name("emulator.py")), str(far.fileno()), str(os.getpid())]
    process = subprocess.Popen(line, pass_fds=[far.fileno()])
    far.close()
    try:
        with near, near.makefile("rw", encoding="utf-8") as file:
            file.write(json.dumps(plan))
            file.flush()
            near.shutdown(socket.SHUT_WR)
            text = file.read()
        return (json.loads(text) if text else {}), process.wait()
    finally:
        process.kill()
        process.wait()


def _npus(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Addresses of all NPUs, and for each dimension the group and the neighbours there."""
    count = math.prod(sizes)
    if not 2 <= count <= MAX_EMULATED_NPUS:
        raise InputError(
            f"must have 2 to {MAX_EMULATED_NPUS} NPUs, has {count}", field="SIZES", value="x".join(map(str, sizes))
        )
    addresses = [f"10.77.{number // 250}.{number % 250 + 1}" for number in range(count)]
    return [
        {
            "address": addresses[rank],
            "links": [
                {
                    "group": min(group_of(rank, sizes, (k,))),
                    "peers": [addresses[peer] for peer in group_of(rank, sizes, (k,)) if peer != rank],
                }
                for k in range(len(sizes))
            ],
        }
        for rank in range(count)
    ]


def main() -> int:
    """Emulate the network of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", help="NPUs along each dimension, such as 4x2")
    parser.add_argument("--rates", required=True, help="bandwidth of each dimension, such as 100Mb/s,50Mb/s")
    parser.add_argument("--delay", help="latency of each dimension, such as 0,5ms; needs /dev/net/tun")
    parser.add_argument("command", nargs="+", help="what to run on every NPU; {address} is its address")
    arguments = parser.parse_args()
    try:
        sizes = [int(size) for size in arguments.sizes.split("x")]
        rates = [parse_bandwidth(rate) for rate in arguments.rates.split(",")]
        delays = [parse_time(time) / PICOSECONDS_PER_SECOND for time in (arguments.delay or "0").split(",")]
        done = emulate(sizes, rates, arguments.command, delays=delays if arguments.delay else None)
    except (InputError, ValueError) as error:
        parser.error(str(error))
    print(json.dumps({"code": done.code, "reason": done.reason, "sent_bytes": done.sent}))
    return done.code


if __name__ == "__main__":
    sys.exit(main())
