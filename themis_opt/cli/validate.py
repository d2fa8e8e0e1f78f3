"""``themis-opt validate``: whether a schedule file obeys the model."""

from typing import Annotated

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


def validate(
    path: options.ScheduleFile,
    instance: Annotated[str | None, Option(help="Instance it must belong to, a file or a shipped name.")] = None,
    data: Annotated[bool, Option("--data", help="Also move real data on virtual NPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a schedule against every rule of the model."""
    schedule, _ = options.load_solution(path, instance)
    ask("validate", schedule.problem, schedule, data=data).tell(as_json=as_json)
