"""``themis-opt export``: a schedule for tools that run or show it."""

from pathlib import Path
from typing import Annotated

from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


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
    schedule, _ = options.load_solution(path)
    folder = output or Path(f"{to.partition(':')[0]}.export")
    answer = ask(
        "export", schedule.problem, schedule, to, folder, check=check, sizes=sizes, chunks=chunks, policies=policies
    )
    answer.tell(as_json=False)
