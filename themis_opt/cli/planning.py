"""``themis-opt plan``: when a training step should launch what."""

import json
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import completion, options

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance
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

    limit = None if memory is None else _bytes(memory)
    with live(quiet=1.0) as show, watched_reading(lambda path, done, total: show(f"reading {path}", done, total)):
        began = monotonic()
        instance = _read(sources)
        reading = monotonic() - began

    from themis_opt.study.step_plan import plan_step, with_prefetch  # it loads a solver

    instance = with_prefetch(instance)
    instance = instance if limit is None else instance.replace(memory=limit)
    seconds = remaining(time_limit + reading)
    with comparison_progress("iteration", seconds) as progress:
        planned = plan_step(instance, time_limit=seconds, progress=progress, workers=workers)
    with undisturbed():
        files = [] if folder is None else _write(folder, planned)
    if as_json:
        print_json(planned.document())
    else:
        say(f"{planned.sentence()}.")
    tell_files(files)
    leave(0.0, None, interrupted=planned.interrupted)


def _read(sources: list[str]) -> "Instance":
    """The step; of traces of several ranks that of the one that computes longest."""
    from themis_opt.formats.readers.registry import import_files, is_trace

    if len(sources) == 1:
        return options.load_instance(sources[0])
    if all(map(is_trace, sources)):
        return max(map(options.load_instance, sources), key=lambda instance: instance.compute)
    return import_files(sources).instance  # type: ignore[return-value]


def _bytes(memory: str) -> int:
    from themis_opt.base.units import parse_size

    try:
        size = parse_size(memory)
    except ValueError as error:
        raise InputError(str(error), field="--memory", value=memory) from None
    if size < 1:
        raise InputError("must be more than nothing", field="--memory", value=memory)
    return size


def _write(folder: Path, planned: "StepPlan") -> list[Path]:
    """Write the plan, and its picture where it can be read."""
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.formats.gantt import gantt, save_figure
    from themis_opt.formats.timeline import is_pictured

    make_folder(folder)
    paths = [folder / "plan.json"]
    write_atomically(paths[0], json.dumps(planned.document(), indent=1) + "\n")
    if is_pictured(planned.best):
        paths.append(folder / "plan.svg")
        save_figure(gantt(planned.best), paths[1])
    return paths
