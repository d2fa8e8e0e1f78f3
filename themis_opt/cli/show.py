"""``themis-opt show`` and ``themis-opt schema``: an instance in words, and what its file may hold."""

from typing import Annotated, Literal

import typer

from themis_opt.cli import options


@options.with_costs
def show(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    as_json: options.Json = False,
    **costs: str | None,
) -> None:
    """Describe an instance: its dimensions, its collectives or its training iteration, and its rules."""
    from themis_opt.cli.printing import print_json, print_table, say
    from themis_opt.problem.description import headline, tables

    instance = options.load_instance(source, size, chunks, latency, ag_order, costs)
    if as_json:
        print_json(instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint})
        return
    say(headline(instance))
    for title, rows in tables(instance).items():
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])


def schema(
    kind: Annotated[
        Literal["instance", "design"], typer.Argument(help="instance, or design for the problems of `design`.")
    ] = "instance",
) -> None:
    """Print the JSON Schema of instance files, or of design problems."""
    if kind == "design":
        from themis_opt.designing.problem import problem_schema

        typer.echo(problem_schema(), nl=False)
        return
    from themis_opt.problem.schema import SCHEMA_FILE

    typer.echo(SCHEMA_FILE.read_text(encoding="utf-8"), nl=False)
