"""``themis-opt plan``: when a training step should launch what."""

import json
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from themis_opt.cli import completion, options
from themis_opt.cli.answers.answer import has_pictures, write_files

if TYPE_CHECKING:
    from themis_opt.study.step_plan import StepPlan


def plan(
    sources: Annotated[
        list[str],
        Argument(
            help="An iteration, or traces of the PyTorch profiler or Chakra; of several ranks the slowest counts.",
            metavar="SOURCE...",
            autocompletion=completion.instances,
        ),
    ],
    memory: Annotated[
        str | None,
        Option(help="What parameters, gradients and gathers may take of an NPU, such as '60GB'; no limit by default."),
    ] = None,
    time_limit: Annotated[float, Option(help="Seconds for all but reading files.", min=0.1, max=1e9)] = 10.0,
    workers: Annotated[int, Option(help="Threads of the solver.", min=1, max=1024)] = 2,
    folder: Annotated[
        Path | None,
        Option("-o", "--output", help=f"Folder for plan.json and a picture. {options.REPLACED}", file_okay=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a training step should gather and reduce when, in which buckets, and what it gains."""
    from themis_opt.base.sources import watched_reading
    from themis_opt.cli.printing import print_json, say, tell_files
    from themis_opt.cli.process import leave, remaining, undisturbed
    from themis_opt.cli.progress import comparison_progress, live
    from themis_opt.families.calls import plan as make
    from themis_opt.families.calls import training_step

    with live(quiet=1.0) as show, watched_reading(lambda path, done, total: show(f"reading {path}", done, total)):
        began = monotonic()
        instance = training_step(sources, memory)
        reading = monotonic() - began
    seconds = remaining(time_limit + reading)
    with comparison_progress("iteration", seconds) as progress:
        planned = make(instance, time_limit=seconds, progress=progress, workers=workers)
    with undisturbed():
        files = [] if folder is None else _write(folder, planned)
    if as_json:
        print_json(planned.document())
    else:
        say(f"{planned.sentence()}.")
    tell_files(files)
    leave(0.0, None, interrupted=planned.interrupted)


def _write(folder: Path, planned: "StepPlan") -> list[Path]:
    from themis_opt.formats.timeline import is_pictured

    files = write_files(folder, {"plan.json": json.dumps(planned.document(), indent=1) + "\n"})
    if has_pictures() and is_pictured(planned.best):
        from themis_opt.reports.pictures import draw_gantt

        files.append(folder / "plan.svg")
        draw_gantt(files[-1], planned.best)
    return files
