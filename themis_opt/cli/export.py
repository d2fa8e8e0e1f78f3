"""``themis-opt export``: a schedule for tools that run or show it."""

from pathlib import Path
from typing import Annotated

import typer

from themis_opt.base.errors import InputError
from themis_opt.cli import options


def export(
    path: options.ScheduleFile,
    to: Annotated[
        str | None, typer.Option(help="Format, with knobs behind colons, such as msccl:dialect=rccl.")
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="The same as --to model: for a solver of your own (CP-SAT, LP, MPS).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the files; FORMAT.export by default.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read the files again, and run them by the rules of their format.")
    ] = False,
) -> None:
    """Write a schedule in the format of another tool; ``themis-opt list exports`` names the formats."""
    if (to is None) == (not model):
        raise InputError("name one format, with --to or --model", field="--to", value=to)
    to = to or "model"
    schedule = options.load_schedule(path)

    from themis_opt.cli.printing import tell, tell_files
    from themis_opt.formats.exports import export as write
    from themis_opt.formats.exports import make_exporter

    exporter = make_exporter(to)
    folder = output or Path(f"{to.partition(':')[0]}.export")
    tell_files(write(schedule, to, folder))
    for note in exporter.notes(schedule):
        tell(f"note: {note}")
    if check:
        for line in exporter.check(schedule, folder):
            typer.echo(f"checked: {line}")
