"""``themis-opt show``: network and instance in words."""

from themis_opt.cli import options


def show(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    as_json: options.Json = False,
) -> None:
    """Describe an instance: its dimensions, its collectives or its training iteration, and its rules."""
    import typer

    from themis_opt.cli.printing import print_json, print_table
    from themis_opt.description import headline, tables

    instance = options.load_problem(source, size, chunks, latency, ag_order)
    if as_json:
        print_json(instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint})
        return
    typer.echo(headline(instance))
    for title, rows in tables(instance).items():
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
