"""``themis-opt validate``: whether a schedule file obeys the model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from themis_opt.cli import options

UNCHANGED = (None, None, None, None)
"""The overrides of an instance, where there are none."""


def validate(
    path: options.ScheduleFile,
    instance: Annotated[str | None, typer.Option(help="Instance it must belong to, a file or a shipped name.")] = None,
    data: Annotated[bool, typer.Option("--data", help="Also move real data on virtual NPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a schedule against every rule of the model."""
    from themis_opt.cli.iterations import holds_iterations, validate_iteration_file

    if holds_iterations(path):
        validate_iteration_file(path, instance, data, as_json)
    else:
        _validate(path, instance, data, as_json)


def _validate(path: Path, instance: str | None, data: bool, as_json: bool) -> None:
    from themis_opt.cli.printing import duration, print_json, print_moved_data
    from themis_opt.validation import RULES
    from themis_opt.verification import verify

    schedule = options.load_schedule(path, options.load_instance(instance, *UNCHANGED) if instance else None)
    moved = verify(schedule) if data else None
    if as_json:
        report = {"data": asdict(moved)} if moved else {}
        print_json({"valid": True, "rules": list(RULES), "makespan_ns": schedule.makespan / 1000} | report)
        return
    typer.echo(f"valid: {len(RULES)} rules hold ({', '.join(RULES)}), makespan {duration(schedule.makespan)}")
    if moved:
        print_moved_data(moved)
