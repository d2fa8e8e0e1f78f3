"""``themis-opt schema``: the JSON Schema of instance files."""

import typer


def schema() -> None:
    """Print the JSON Schema of instance files."""
    from themis_opt.formats.instance_schema import SCHEMA_FILE

    typer.echo(SCHEMA_FILE.read_text(encoding="utf-8"), nl=False)
