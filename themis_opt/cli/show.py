"""``themis-opt show`` and ``themis-opt schema``: an instance in words, and what its file may hold."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from themis_opt.cli import families, graphs, options

FileKind = Literal[
    "instance", "experiment", "schedule", "order", "times", "design", "graph-design", "devices", "pipeline", "graph",
    "graph-schedule",
]  # fmt: skip

SCHEMAS: Mapping[str, str] = {
    "instance": "themis_opt.problem.schema:shipped_schema",
    "experiment": "themis_opt.batches.experiment:experiment_schema",
    "schedule": "themis_opt.schedules.schedule_file:schedule_schema",
    "order": "themis_opt.formats.flat_exports:order_schema",
    "times": "themis_opt.workloads.timing:times_schema",
    "design": "themis_opt.designing.problem:problem_schema",
    "graph-design": "themis_opt.designing.graph_problem:graph_problem_schema",
    "devices": "themis_opt.designing.devices:devices_schema",
    "pipeline": "themis_opt.pipelines.files:pipeline_schema",
    "graph": "themis_opt.graphs.network:graph_schema",
    "graph-schedule": "themis_opt.graphs.schedule_file:graph_schedule_schema",
}


@options.grouped
def show(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    network: graphs.NetworkChanges,
    whole: Annotated[bool, Option("--all", help="Of an iteration, every task and tensor.")] = False,
    output: Annotated[Path | None, options.output("A picture of the network, with its capacities.")] = None,
    as_json: options.Json = False,
) -> None:
    """Describe an instance: its dimensions or links, its collectives or its training iteration, and its rules."""
    from themis_opt.cli.printing import print_json, print_table, say
    from themis_opt.problem.description import headline, tables

    graph = graphs.load(source, changes, network)
    if graph is not None:
        changed = graph.on(network.apply(graph.network))
        graphs.show(changed, as_json=as_json)
        graphs.draw(changed.network, output)
        return
    pipeline = families.load_other(source, changes)
    if pipeline is not None:
        families.show(pipeline, as_json=as_json)
        return
    instance = options.load_instance(source, changes)
    if output is not None:
        from themis_opt.graphs.conversion import to_graph

        graphs.draw(to_graph(instance.network), output)
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
