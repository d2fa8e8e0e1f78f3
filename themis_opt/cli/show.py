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
    """Describe an instance: its dimensions, its collectives and its rules."""
    import typer

    from themis_opt.cli.printing import print_json, print_table
    from themis_opt.description import collective_rows, dimension_rows, headline

    instance = options.load_instance(source, size, chunks, latency, ag_order)
    if as_json:
        print_json(instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint})
        return
    typer.echo(headline(instance))
    for title, rows in (("network", dimension_rows(instance)), ("collectives", collective_rows(instance))):
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
