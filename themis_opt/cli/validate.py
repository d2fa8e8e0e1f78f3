"""``themis-opt validate``: whether a schedule file obeys the model."""

from dataclasses import asdict
from typing import Annotated

from typer import Option

from themis_opt.cli import graph_schedules, options, pipelines


def validate(
    path: options.ScheduleFile,
    instance: Annotated[str | None, Option(help="Instance it must belong to, a file or a shipped name.")] = None,
    data: Annotated[bool, Option("--data", help="Also move real data on virtual NPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a schedule against every rule of the model."""
    if pipelines.is_pipeline(str(path)):
        pipelines.validate(path, as_json=as_json)
        return
    if graph_schedules.is_graph_schedule(path):
        graph_schedules.refuse_options(instance=instance)
        graph_schedules.validate(path, with_data=data, as_json=as_json)
        return
    schedule = options.load_schedule(path, options.load_instance(instance) if instance else None)

    from themis_opt.cli.printing import print_json, print_moved_data, say, times_in_words
    from themis_opt.schedules.validation import VALIDATION_RULES
    from themis_opt.schedules.verification import verify
    from themis_opt.study.columns import schedule_row

    moved = verify(schedule) if data else None
    if as_json:
        checked = {"valid": True, "rules": list(VALIDATION_RULES), "iterations": schedule.num_iterations}
        print_json(checked | schedule_row(schedule) | ({"data": asdict(moved)} if moved else {}))
        return
    say(f"valid: {len(VALIDATION_RULES)} rules hold ({', '.join(VALIDATION_RULES)}), {times_in_words(schedule)}")
    if moved:
        print_moved_data(moved)
