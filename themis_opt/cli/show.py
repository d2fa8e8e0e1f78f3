"""``themis-opt show`` and ``themis-opt schema``: an instance in words, and what its file may hold."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from themis_opt.cli import graphs, options

FileKind = Literal["instance", "experiment", "schedule", "order", "times", "design", "pipeline"]

SCHEMAS: Mapping[str, str] = {
    "instance": "themis_opt.problem.schema:shipped_schema",
    "experiment": "themis_opt.batches.experiment:experiment_schema",
    "schedule": "themis_opt.schedules.schedule_file:schedule_schema",
    "order": "themis_opt.formats.flat_exports:order_schema",
    "times": "themis_opt.workloads.timing:times_schema",
    "design": "themis_opt.designing.problem:problem_schema",
    "pipeline": "themis_opt.pipelines.files:pipeline_schema",
}


@options.grouped
def show(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    whole: Annotated[bool, Option("--all", help="Of an iteration, every task and tensor.")] = False,
    as_json: options.Json = False,
) -> None:
    """Describe an instance: its dimensions, its collectives or its training iteration, and its rules."""
    from themis_opt.cli.printing import print_json, print_table, say
    from themis_opt.problem.description import headline, tables

    graph = graphs.load(source, changes, graphs.NetworkChanges())
    if graph is not None:
        graphs.show(graph, as_json=as_json)
        return
    instance = options.load_instance(source, changes)
    if as_json:
        print_json(instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint})
        return
    say(headline(instance))
    for title, rows in tables(instance, whole=whole).items():
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])


def schema(
    kind: Annotated[FileKind, Argument(help="The same as --of.")] = "instance",
    of: Annotated[
        FileKind | None,
        Option(help="Files of instances, experiments, schedules, order tables, times of layers, or design problems."),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of files."""
    module, _, name = SCHEMAS[of or kind].partition(":")
    typer.echo(getattr(import_module(module), name)(), nl=False)
