"""``themis-opt bound``: what no schedule can beat."""

from pathlib import Path
from typing import Annotated

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


@options.grouped
def bound(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    network: options.NetworkChanges,
    sizes: Annotated[
        str | None, Option("--chunk-sizes", help="equal or free: only the bounds that hold for them.")
    ] = None,
    output: Annotated[Path | None, options.output("With --lost each: a picture of what hurts most.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print every proven lower bound on the makespan, or on the time of a training iteration."""
    problem = options.load_problem(source, changes, network)
    answer = ask("bound", problem, problem, chunk_sizes=sizes, output=output, **network.given())
    answer.tell(as_json=as_json)
