"""``themis-opt validate``: whether a schedule file obeys the model."""

from typing import Annotated

import typer

from themis_opt.cli import options


def validate(
    path: options.ScheduleFile,
    instance: Annotated[str | None, typer.Option(help="Instance it must belong to, a file or a shipped name.")] = None,
    data: Annotated[bool, typer.Option("--data", help="Also move real data on virtual NPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a schedule against every rule of the model."""
    from themis_opt.catalog import load
    from themis_opt.cli.printing import duration, print_json
    from themis_opt.validation import RULES
    from themis_opt.verification import verify

    schedule = options.load_schedule(path, load(instance) if instance else None)
    rules = list(RULES)
    if data:
        verify(schedule)
        rules.append("data")
    if as_json:
        print_json({"valid": True, "rules": rules, "makespan_ns": schedule.makespan / 1000})
    else:
        typer.echo(f"valid: {len(rules)} rules hold ({', '.join(rules)}), makespan {duration(schedule.makespan)}")
