"""``themis-opt emulate``: a network of namespaces for any program."""

from typing import Annotated

import typer
from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options


def emulate(
    sizes: Annotated[str, Argument(help="NPUs along each dimension, such as 4x2.", metavar="SIZES")],
    command: Annotated[
        list[str], Argument(help="What to run on every NPU, after --; {address} is its address.", metavar="COMMAND")
    ],
    rates: Annotated[str, Option(help="Bandwidth of each dimension, such as 100Mb/s,50Mb/s.")],
    delay: Annotated[str | None, Option(help="Latency of each dimension, such as 1ms,5ms; needs /dev/net/tun.")] = None,
    seconds: Annotated[float, Option(help="End it after so long.", min=1, max=3600)] = 600.0,
    as_json: options.Json = False,
) -> None:
    """Run a command once per NPU, each in a network namespace with one shaped link per dimension.

    Needs Linux with ip and tc, and root or unprivileged user namespaces. Namespaces end with the command.
    """
    from themis_opt.cli.answers.answer import Listing, Reply
    from themis_opt.cli.printing import tell
    from themis_opt.emulation.network import emulate as run

    parts = sizes.lower().split("x")
    if not all(part.isdecimal() and int(part) > 1 for part in parts):
        raise InputError("must be sizes of at least 2 with x between them, such as 4x2", field="SIZES", value=sizes)
    speeds, delays = _speeds(rates, len(parts)), None if delay is None else _delays(delay, len(parts))
    done = run([int(part) for part in parts], speeds, command, seconds, delays)
    rows = [
        {"NPU": str(rank), **{f"dim{k}": str(number) for k, number in enumerate(sent, 1)}}
        for rank, sent in enumerate(done.sent)
    ]
    document = {"code": done.code, "sent_bytes": done.sent}
    Reply(document, tables=[Listing.of_texts("bytes sent, with headers", rows)]).tell(as_json=as_json)
    if done.code:
        tell(f"stopped: {done.reason}")
        raise typer.Exit(done.code)


def _speeds(rates: str, count: int) -> list[float]:
    from themis_opt.base.units import parse_bandwidth
    from themis_opt.runtime.local_network import read_each

    speeds = read_each(rates, count, "bandwidths", parse_bandwidth, "--rates")
    if min(speeds) <= 0:
        raise InputError("must be more than 0", field="--rates", value=rates)
    return speeds


def _delays(delay: str, count: int) -> list[float]:
    from themis_opt.base.units import PICOSECONDS_PER_SECOND, parse_time
    from themis_opt.emulation.network import LONGEST_DELAY
    from themis_opt.runtime.local_network import read_each

    seconds = [time / PICOSECONDS_PER_SECOND for time in read_each(delay, count, "times", parse_time, "--delay")]
    if not 0 <= min(seconds) <= max(seconds) <= LONGEST_DELAY:
        raise InputError(f"must be at least 0 and at most {LONGEST_DELAY:g} s", field="--delay", value=delay)
    return seconds
