"""Ranks of a command, and the options that say how they are started."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from themis_opt.base.errors import InputError, check_choice
from themis_opt.cli.options import OptionGroup

if TYPE_CHECKING:
    from themis_opt.runtime.coordinator import Coordinator
    from themis_opt.runtime.execution import ReportRun

Local = Annotated[
    str | None, Option(help="Run on this machine, on dimensions of these sizes, such as 4x2.", metavar="SIZES")
]
Pace = Annotated[
    str | None,
    Option(
        help="Bandwidth of each dimension that the ranks keep to, such as 100Mb/s,50Mb/s; 'instance' for that of the "
        "instance, with its latencies and launches. Without it the network decides."
    ),
]
Transport = Annotated[str, Option(help="tcp, or with the extra of that name torch.")]


@dataclass(frozen=True)
class Start(OptionGroup):
    """How ranks are started where they do not run on this machine alone."""

    address: Annotated[str, Option(help="Address of this machine at which the ranks find the coordinator.")] = (
        "127.0.0.1"
    )
    join: Annotated[
        str | None,
        Option(
            help="Be one rank of those that torchrun or mpiexec started; HOST:PORT is where rank 0 coordinates.",
            metavar="HOST:PORT",
        ),
    ] = None


@contextmanager
def ranks(num_ranks: int, transport: str, how: Start) -> "Iterator[Coordinator]":
    """The ranks, however they are started; if one fails, a line on the error stream and exit code 1."""
    from themis_opt.cli.process import UNMET
    from themis_opt.runtime.coordinator import Coordinator, local
    from themis_opt.runtime.links import TRANSPORTS, RankFailure
    from themis_opt.runtime.worlds import joined

    check_choice(transport, TRANSPORTS, "--transport")
    if transport == "torch" and find_spec("torch") is None:
        rule = "needs torch: pip install 'themis-opt[torch]'"
        raise InputError(rule, field="--transport", value=transport)
    world = (
        Coordinator(num_ranks, local(num_ranks, transport), how.address)
        if how.join is None
        else joined(how.join, num_ranks, transport, how.address)
    )
    try:
        with world as coordinator:
            yield coordinator
    except RankFailure as failure:
        typer.echo(f"error: {failure}", err=True)
        raise typer.Exit(UNMET) from None


@contextmanager
def run_progress() -> "Iterator[ReportRun]":
    """Show which schedule runs, and how many runs are done."""
    from themis_opt.cli.progress import live

    with live(quiet=2.0) as show:

        def report(name: str, done: int, total: int) -> None:
            show(f"{name}  run {done + 1} of {total}", done, total)

        yield report
