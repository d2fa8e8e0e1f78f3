"""``themis-opt tune`` and ``plan``: chunks and policies that suit collectives, and when a step launches what."""

import json
import math
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.cli import completion, options
from themis_opt.cli.answers.answer import Listing, Reply, columns, has_pictures, write_files
from themis_opt.cli.process import undisturbed

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.study.step_plan import StepPlan
    from themis_opt.tuning import Tuned


@options.grouped
def tune(
    source: options.InstanceArgument,
    *,
    size: Annotated[str | None, Option(help="Size of every collective, such as 100MiB.")] = None,
    ag_order: options.AgOrder = None,
    costs: options.Costs,
    max_chunks: Annotated[int | None, Option(help="Most chunks of a collective, by default 256.")] = None,
    policies: Annotated[str | None, Option(help="Of themis, baseline and hourglass, with commas.")] = None,
    profiles: Annotated[
        str | None, Option("--chunk-sizes", help="Chunk sizes: of equal and free, with commas.")
    ] = None,
    trials: Annotated[int, Option(help="Settings to try.", min=1)] = 100,
    time_limit: Annotated[
        float | None,
        Option(help="Seconds for all trials, from the first on, and files; the last trial is cut off.", min=0.1),
    ] = None,
    memory: Annotated[
        float, Option(help="GiB; settings whose schedules need more are not tried.", min=0.001, max=1e6)
    ] = 4.0,
    seed: options.Seed = 0,
    output: Annotated[Path | None, options.output("Folder for the results, by default tuned-INSTANCE.")] = None,
    as_json: options.Json = False,
) -> None:
    """Search for the chunk count, the chunk sizes and the policy with the least makespan.

    Small chunks look good where nothing makes them costly: state --launch-overhead, --packet and --latency occupy.
    Writes the tuned instance, its schedule, all trials and pictures.
    """
    from themis_opt.base.documents import file_name, make_folder

    instance = options.load_instance(source, options.Changes(size, ag_order=ag_order))

    from themis_opt.cli.answers.product import seconds_to_write
    from themis_opt.cli.printing import tell_note
    from themis_opt.cli.progress import trial_progress
    from themis_opt.problem.cost_overrides import is_free_to_cut
    from themis_opt.tuning.folder import write_tuned
    from themis_opt.tuning.space import make_space
    from themis_opt.tuning.tuner import tune as search

    folder = output or Path(file_name(f"tuned-{Path(source).name.removesuffix('.json')}"))
    given: dict[str, Any] = {
        "max_chunks": max_chunks,
        "policies": options.split(policies),
        "profiles": options.split(profiles),
    }
    settings = costs.given() | {name: value for name, value in given.items() if value is not None}
    space = make_space(instance, **settings, memory=memory)  # refuses bad options before files
    if is_free_to_cut(space.instance):
        tell_note("nothing makes small chunks costly; state --launch-overhead, --packet or --latency occupy")
    make_folder(folder)
    limit = math.inf if time_limit is None else time_limit - seconds_to_write(space.instance, time_limit)
    with trial_progress(space.describe) as progress:
        journal = folder / "measured.jsonl"
        tuned = search(space, trials=trials, seed=seed, time_limit=limit, journal=journal, progress=progress)
    with undisturbed():
        files = write_tuned(folder, tuned)
    tables = [] if as_json else [_settings(tuned)]
    kept = "the best setting so far is kept; the same command goes on"
    answer = Reply(_summary(tuned), tuned.verdict, tables, files=files, interrupted=tuned.interrupted, kept=kept)
    answer.tell(as_json=as_json)


def _settings(tuned: "Tuned") -> Listing:
    """What users do today, and the best setting."""
    from themis_opt.study.columns import busy_in_words

    space = tuned.space
    busy = [busy_in_words(schedule) for schedule in (tuned.default_schedule, tuned.schedule)]
    settings = {"default": space.describe(space.reference), "best": space.describe(tuned.choice)}
    rows = [
        row | {"described": settings[row["setting"]], "busy": busy_shares}
        for row, busy_shares in zip(tuned.rows(), busy, strict=True)
    ]
    titles: ShownColumns = {"setting": ("", "text"), "gain": ("gain", "share"), "described": ("setting", "text")}
    shown = columns("setting", "size", "makespan_ns", "busy", "chunks", "gain", "gap", "described", **titles)
    return Listing(f"{space.name}: {tuned.num_run} settings tried", rows, shown)


def _summary(tuned: "Tuned") -> dict[str, Any]:
    from themis_opt.tuning.folder import best_setting

    return best_setting(tuned) | {
        "trials": len(tuned.trials),
        "trials_run": tuned.num_run,
        "trials_asked": tuned.asked,
        "gaps": [tuned.gap],
        "importances": tuned.importances,
        "interrupted": tuned.interrupted,
    }


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
    from themis_opt.cli.process import remaining
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
    sentence = f"{planned.sentence()}."
    Reply(planned.document(), [sentence], files=files, interrupted=planned.interrupted).tell(as_json=as_json)


def _write(folder: Path, planned: "StepPlan") -> list[Path]:
    from themis_opt.formats.timeline import is_pictured

    files = write_files(folder, {"plan.json": json.dumps(planned.document(), indent=1) + "\n"})
    if has_pictures() and is_pictured(planned.best):
        from themis_opt.reports.pictures import draw_gantt

        files.append(folder / "plan.svg")
        draw_gantt(files[-1], planned.best)
    return files
