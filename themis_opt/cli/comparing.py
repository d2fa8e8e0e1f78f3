"""What ``solve`` and ``compare`` share: run, print, write, and the exit code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer

from formulations.budget import PROVEN_GAP
from themis_opt.cli import exit_codes
from themis_opt.cli.clock import remaining
from themis_opt.cli.interrupts import undisturbed
from themis_opt.cli.iteration_printing import print_iteration_comparison
from themis_opt.cli.printing import percent, print_comparison, print_json
from themis_opt.cli.progress import live_progress, tell
from themis_opt.comparison import Comparison, Limits, checked_sizes, compare
from themis_opt.documents import make_folder
from themis_opt.formats.bundle import write_comparison
from themis_opt.formats.iteration_bundle import write_iteration_comparison
from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.comparison import IterationComparison, compare_iterations
from themis_opt.plan_cache import PlanCache
from themis_opt.policies.registry import make_policy


def search_limits(
    time_limit: float, workers: int, seed: int, gap: float | None, sizes: str, deterministic: bool, memory: float
) -> Limits:
    """The limits that the options state."""
    return Limits(
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        gap=PROVEN_GAP if gap is None else gap,
        sizes=checked_sizes(sizes),
        deterministic=deterministic,
        memory=memory,
    )


def compare_problem(
    problem: Instance | IterationInstance,
    policies: list[str],
    limits: Limits,
    *,
    asked_gap: float | None,
    cached: bool,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Compare policies on collectives or on a training iteration."""
    if isinstance(problem, Instance):
        cache = PlanCache() if cached else None
        run_comparison(problem, policies, limits, asked_gap=asked_gap, cache=cache, folder=folder, as_json=as_json)
    else:
        run_iteration_comparison(problem, policies, limits, asked_gap=asked_gap, folder=folder, as_json=as_json)


def run_comparison(
    instance: Instance,
    policies: list[str],
    limits: Limits,
    *,
    asked_gap: float | None,
    cache: PlanCache | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Compare policies, print the table and write the best schedule into `folder`, if there is one."""
    for specification in policies:
        make_policy(specification)
    settings = settled(limits, folder)
    with live_progress(limits["time_limit"]) as progress:
        comparison = compare(instance, policies, progress=progress, cache=cache, **limits)
    concluded(
        comparison,
        lambda place: write_comparison(place, comparison, settings),
        lambda: print_comparison(comparison),
        asked_gap=asked_gap,
        folder=folder,
        as_json=as_json,
    )


def run_iteration_comparison(
    instance: IterationInstance,
    policies: list[str],
    limits: Limits,
    *,
    asked_gap: float | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """As :func:`run_comparison`, for a training iteration."""
    settings = settled(limits, folder)
    with live_progress(limits["time_limit"], "iteration") as progress:
        comparison = compare_iterations(instance, policies, progress=progress, **limits)
    concluded(
        comparison,
        lambda place: write_iteration_comparison(place, comparison, settings),
        lambda: print_iteration_comparison(comparison),
        asked_gap=asked_gap,
        folder=folder,
        as_json=as_json,
    )


def settled(limits: Limits, folder: Path | None) -> dict[str, Any]:
    """The settings to write down; makes the folder, and starts the clock of the limits."""
    if folder is not None:
        make_folder(folder)
    settings = {name: value for name, value in limits.items() if name != "gap"}
    if not limits["deterministic"]:
        limits["time_limit"] = remaining(limits["time_limit"])
    return settings


def concluded(
    comparison: Comparison | IterationComparison,
    write: Callable[[Path], list[Path]],
    show: Callable[[], None],
    *,
    asked_gap: float | None,
    folder: Path | None,
    as_json: bool,
) -> NoReturn:
    """Write into the folder, if there is one, print, and leave with the exit code of the comparison."""
    with undisturbed():
        if folder is not None:
            for path in write(folder):
                tell(f"wrote {path}")
        if as_json:
            print_json([result.row() for result in comparison.results])
        else:
            show()
    raise typer.Exit(_exit_code(comparison, asked_gap))


def _exit_code(comparison: Comparison | IterationComparison, gap: float | None) -> int:
    if comparison.interrupted:
        typer.echo("interrupted: the best schedules so far are kept", err=True)
        return exit_codes.INTERRUPTED
    if gap is not None and comparison.best.gap > gap:
        typer.echo(f"the gap of {percent(gap)} was not reached: {percent(comparison.best.gap)}", err=True)
        return exit_codes.UNMET
    return 0
