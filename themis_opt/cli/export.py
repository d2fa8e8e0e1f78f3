"""``themis-opt export``: a schedule for tools that run or show it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import graph_schedules, options, pipelines

if TYPE_CHECKING:
    from themis_opt.formats.exports import Exporter
    from themis_opt.schedules.schedule import Schedule


def export(
    path: options.ScheduleFile,
    to: Annotated[str | None, Option(help="Format, with knobs behind colons, such as msccl:dialect=rccl.")] = None,
    model: Annotated[
        bool, Option("--model", help="The same as --to model: for a separate solver (CP-SAT, LP, MPS).")
    ] = False,
    output: Annotated[Path | None, options.output("Folder for the files; FORMAT.export by default.")] = None,
    check: Annotated[
        bool, Option("--check", help="Read the files again, and run them by the rules of their format.")
    ] = False,
    sizes: Annotated[
        str | None,
        Option(
            help="Message sizes, such as 64KiB..1GiB:4: one plan for each range of them, the best there. For runtimes "
            "that choose among plans by size (msccl, mscclpp)."
        ),
    ] = None,
    chunks: Annotated[str | None, Option(help="With --sizes: chunk counts to choose from, such as 1,4,16.")] = None,
    policies: options.Policies = None,
) -> None:
    """Write a schedule in the format of another tool.

    The command "themis-opt list exports" names the formats.
    """
    if (to is None) == (not model):
        raise InputError("name one format, with --to or --model", field="--to", value=to)
    to = to or "model"
    if pipelines.is_pipeline(str(path)):
        pipelines.export(path, to, output or Path(f"{to}.export"))
        return
    if graph_schedules.is_graph_schedule(path):
        graph_schedules.refuse_options(sizes=sizes, chunks=chunks, policies=policies)
        graph_schedules.export(path, to, output or Path(f"{to.partition(':')[0]}.export"), check=check)
        return
    schedule = options.load_schedule(path)

    from themis_opt.cli.printing import tell_files, tell_note
    from themis_opt.cli.progress import export_progress
    from themis_opt.formats.exports import export as write
    from themis_opt.formats.exports import make_exporter

    folder = output or Path(f"{to.partition(':')[0]}.export")
    if sizes is not None:
        chosen = _by_size(schedule, to, sizes, chunks, policies)
    elif chunks is None and policies is None:
        chosen = [(schedule, make_exporter(to))]
    else:
        raise InputError("are for --sizes, which chooses among plans", field="--chunks and --policies")
    with export_progress():
        files = [path for exported, exporter in chosen for path in write(exported, exporter, folder)]
    tell_files(files)
    for note in dict.fromkeys(note for exported, exporter in chosen for note in exporter.notes(exported)):
        tell_note(note)
    if check:
        with export_progress():
            lines = [line for exported, exporter in chosen for line in exporter.check(exported, folder)]
        for line in lines:
            typer.echo(f"checked: {line}")


def _by_size(
    schedule: "Schedule", to: str, sizes: str, chunks: str | None, policies: str | None
) -> "list[tuple[Schedule, Exporter]]":
    """A schedule with its exporter for every range of sizes, which are printed."""
    from themis_opt.base.units import format_percent, format_short_time, format_size
    from themis_opt.cli.printing import print_table
    from themis_opt.formats.exports import for_sizes, make_sized_exporter
    from themis_opt.study.plans_by_size import plans_by_size
    from themis_opt.study.sweep import read_values

    exporter = make_sized_exporter(to)
    counts = read_values("chunks", chunks) if chunks else ()
    named = options.split(policies) or ()
    plans = plans_by_size(schedule, read_values("size", sizes), exporter, chunks=counts, policies=named)
    rows = [
        (
            format_size(plan.min_bytes),
            format_size(plan.max_bytes),
            plan.policy,
            str(plan.num_chunks),
            format_short_time(plan.schedule.makespan),
            format_percent(plan.excess),
        )
        for plan in plans
    ]
    print_table("plans by message size", ("from", "to", "policy", "chunks", "makespan", "above best"), rows)
    return [(plan.schedule, for_sizes(exporter, plan.min_bytes, plan.max_bytes)) for plan in plans]
