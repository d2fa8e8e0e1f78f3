"""``themis-opt show`` and ``themis-opt schema``: an instance in words, and what its file may hold."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask

FileKind = Literal[
    "instance", "experiment", "schedule", "order", "times", "design", "pipeline", "graph",
    "graph-schedule",
]  # fmt: skip

OTHER_SCHEMAS: Mapping[str, str] = {
    "experiment": "themis_opt.batches.experiment:experiment_schema",
    "order": "themis_opt.formats.flat_exports:order_schema",
    "times": "themis_opt.workloads.timing:times_schema",
    "design": "themis_opt.designing.problem:DesignProblem",
}


@options.grouped
def show(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    network: options.NetworkChanges,
    whole: Annotated[bool, Option("--all", help="Of an iteration, every task and tensor.")] = False,
    output: Annotated[Path | None, options.output("A picture of the network, with its capacities.")] = None,
    as_json: options.Json = False,
) -> None:
    """Describe a problem: its dimensions, links or stages, its collectives or its training iteration, and its rules."""
    problem = options.load_problem(source, changes, network)
    ask("show", problem, problem, whole=whole, output=output, **network.given()).tell(as_json=as_json)


def schema(
    kind: Annotated[FileKind, Argument(help="The same as --of.")] = "instance",
    of: Annotated[
        FileKind | None,
        Option(help="Files of instances, experiments, schedules, order tables, times of layers, or design problems."),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of files."""
    from themis_opt.families import door
    from themis_opt.problem.documents import model_schema

    module, _, name = {**OTHER_SCHEMAS, **door.SCHEMAS}[of or kind].partition(":")
    made = getattr(import_module(module), name)
    typer.echo(model_schema(made) if isinstance(made, type) else made(), nl=False)
