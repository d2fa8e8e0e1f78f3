"""``themis-opt validate``: whether a schedule file obeys the model."""

from dataclasses import asdict
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
    moved = verify(schedule) if data else None
    if as_json:
        report = {"data": asdict(moved)} if moved else {}
        print_json({"valid": True, "rules": list(RULES), "makespan_ns": schedule.makespan / 1000} | report)
        return
    typer.echo(f"valid: {len(RULES)} rules hold ({', '.join(RULES)}), makespan {duration(schedule.makespan)}")
    if moved:
        shapes = ", ".join("x".join(str(size) for size in sizes) for sizes in moved.sizes)
        reduced = "reduced to " if moved.reduced else ""
        typer.echo(f"data: every NPU ends with its result, on {reduced}{shapes} NPUs, {moved.num_paths} paths")
