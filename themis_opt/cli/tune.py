"""``themis-opt tune``: the chunks and the policy that suit collectives, or a training iteration, best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.cli import exit_codes, options
from themis_opt.errors import InputError

if TYPE_CHECKING:
    from themis_opt.instance import Instance
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.tuning import Tuned, TunedIteration
    from themis_opt.tuning.outcome import Found


def tune(
    source: options.InstanceSource,
    size: options.Size = None,
    sizes_of_collective: Annotated[
        str | None, typer.Option(help="Sizes to tune for together, with commas between them, such as 1MiB,100MiB.")
    ] = None,
    ag_order: options.AgOrder = None,
    latency: options.Latency = None,
    launch_overhead: Annotated[
        str | None, typer.Option(help="Time a stage holds its dimension before it sends, such as 2us.")
    ] = None,
    packet: Annotated[str | None, typer.Option(help="Payload and header of a packet, such as 4096B/30B.")] = None,
    objective: Annotated[
        str, typer.Option(help="makespan or time of an iteration, or pareto for all compromises with chunks.")
    ] = "makespan",
    max_chunks: Annotated[
        int | None, typer.Option(help="Most chunks of a collective, by default 256, in an iteration 64.")
    ] = None,
    min_chunk: Annotated[str | None, typer.Option(help="Least size of an equal chunk, such as 64KiB.")] = None,
    policies: Annotated[str | None, typer.Option(help="Of themis, baseline and hourglass, with commas.")] = None,
    profiles: Annotated[str | None, typer.Option(help="Chunk sizes: of equal, ramp and free, with commas.")] = None,
    trials: Annotated[int, typer.Option(help="Settings to try, those of a resumed study included.", min=1)] = 100,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no new trial begins, counted from the start.", min=0.1)
    ] = None,
    seed: options.Seed = 0,
    storage: Annotated[
        str | None, typer.Option(help="Storage URL of Optuna, or journal:FILE; by default study.db in the folder.")
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Study to resume, or its name if there is none; by default a new one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the results, by default tuned-INSTANCE.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Search for the chunk count, the chunk sizes and the policy with the least makespan.

    Of a training iteration: the launching policy, its buckets, the chunk count and the chunk policy with the least
    iteration time.
    Small chunks look good where nothing makes them dear: state --launch-overhead, --packet and --latency occupy.
    Writes the tuned instance, its schedule, all trials and pictures.
    """
    instance = options.load_problem(source, size, None, None, ag_order)
    folder = output or Path(f"tuned-{Path(source).name.removesuffix('.json')}")
    settings: dict[str, Any] = {
        "launch_overhead": launch_overhead,
        "packet": packet,
        "latency": latency,
        "max_chunks": max_chunks,
        "min_chunk": min_chunk,
        "sizes": _split(sizes_of_collective),
        "policies": _split(policies),
        "profiles": _split(profiles),
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    search = {"objective": objective, "trials": trials, "seed": seed, "storage": storage, "study": study}
    _run(instance, folder, search, settings, time_limit, as_json)


def _split(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _run(
    instance: "Instance | IterationInstance",
    folder: Path,
    search: dict[str, Any],
    settings: dict[str, Any],
    time_limit: float | None,
    as_json: bool,
) -> None:
    from themis_opt.cli.clock import remaining
    from themis_opt.cli.progress import tell
    from themis_opt.cli.tuning_report import live_trials, print_tuned
    from themis_opt.documents import make_folder
    from themis_opt.tuning.costs import is_free_to_cut
    from themis_opt.tuning.space import kind_of_space, make_space
    from themis_opt.tuning.storage import sqlite_url
    from themis_opt.tuning.tuner import StorageLost
    from themis_opt.tuning.tuner import tune as search_for_best

    space = make_space(kind_of_space(instance), instance, **settings)  # refuses bad options before anything is written
    if is_free_to_cut(space.instances[0]):
        tell("note: nothing makes small chunks dear; state --launch-overhead, --packet or --latency occupy")
    make_folder(folder)
    search["storage"] = search["storage"] or sqlite_url(folder / "study.db")
    if time_limit is not None:
        search["time_limit"] = remaining(time_limit)
    try:
        with live_trials(search["trials"], space.describe) as progress:
            tuned = search_for_best(instance, progress=progress, **search, **settings)
    except StorageLost as error:
        _keep(folder, error.found)
        raise
    _write(folder, tuned)
    print_tuned(tuned, as_json)
    if tuned.interrupted:
        tell(f"interrupted: the best setting so far is kept; go on with --study '{tuned.study}'")
        raise typer.Exit(exit_codes.INTERRUPTED)


def _write(folder: Path, tuned: "Tuned | TunedIteration") -> None:
    from themis_opt.cli.interrupts import undisturbed
    from themis_opt.cli.progress import tell
    from themis_opt.tuning.folder import write_tuned

    with undisturbed():
        for path in write_tuned(folder, tuned):
            tell(f"wrote {path}")


def _keep(folder: Path, found: "Found | None") -> None:
    """Write what was found before the storage failed, if the disk still takes it."""
    from contextlib import suppress

    from themis_opt.tuning import Tuned, TunedIteration

    if isinstance(found, Tuned | TunedIteration):
        with suppress(InputError):
            _write(folder, found)
