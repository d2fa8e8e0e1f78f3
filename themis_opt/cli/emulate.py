"""``themis-opt emulate``: a network of namespaces for any program."""

from typing import Annotated

import typer

from themis_opt.base.errors import InputError
from themis_opt.cli import options


def emulate(
    sizes: Annotated[str, typer.Argument(help="NPUs along each dimension, such as 4x2.", metavar="SIZES")],
    command: Annotated[
        list[str],
        typer.Argument(help="What to run on every NPU, after --; {address} is its address.", metavar="COMMAND"),
    ],
    rates: Annotated[str, typer.Option(help="Bandwidth of each dimension, such as 100Mb/s,50Mb/s.")],
    seconds: Annotated[float, typer.Option(help="End it after so long.", min=1, max=3600)] = 600.0,
    as_json: options.Json = False,
) -> None:
    """Run a command once per NPU, each in a network namespace with one shaped link per dimension.

    Needs Linux with ip and tc, and root or unprivileged user namespaces. Namespaces end with the command.
    """
    from themis_opt.base.units import parse_bandwidth
    from themis_opt.cli.printing import print_json, print_table
    from themis_opt.runtime.emulation import emulate as run

    parts, bandwidths = sizes.lower().split("x"), rates.split(",")
    if not all(part.isdecimal() and int(part) > 1 for part in parts):
        raise InputError("must be sizes of at least 2 with x between them, such as 4x2", field="SIZES", value=sizes)
    if len(bandwidths) != len(parts):
        raise InputError(f"must be {len(parts)} bandwidths, one for each dimension", field="--rates", value=rates)
    try:
        speeds = [parse_bandwidth(own.strip()) for own in bandwidths]
    except ValueError as error:
        raise InputError(str(error), field="--rates", value=rates) from None
    done = run([int(part) for part in parts], speeds, command, seconds)
    if as_json:
        print_json({"code": done.code, "sent_bytes": done.sent})
    else:
        columns = ["NPU", *(f"dim{k}" for k in range(1, len(parts) + 1))]
        rows = [[str(rank), *map(str, sent)] for rank, sent in enumerate(done.sent)]
        print_table("bytes sent, with headers", columns, rows)
    if done.code:
        raise typer.Exit(done.code)
