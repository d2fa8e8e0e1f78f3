"""What ``solve`` and ``compare`` share: run, print, write, and the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread

import typer

from formulations.budget import PROVEN_GAP
from themis_opt.cli import exit_codes
from themis_opt.cli.clock import remaining
from themis_opt.cli.printing import percent, print_comparison, print_json
from themis_opt.cli.progress import live_progress, tell
from themis_opt.comparison import Comparison, Limits, checked_sizes, compare
from themis_opt.documents import make_folder
from themis_opt.formats.bundle import write_comparison
from themis_opt.instance import Instance
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
    if folder is not None:
        make_folder(folder)
    settings = {name: value for name, value in limits.items() if name != "gap"}
    if not limits["deterministic"]:
        limits["time_limit"] = remaining(limits["time_limit"])
    with live_progress(limits["time_limit"]) as progress:
        comparison = compare(instance, policies, progress=progress, cache=cache, **limits)
    with undisturbed():
        if folder is not None:
            for path in write_comparison(folder, comparison, settings):
                tell(f"wrote {path}")
        if as_json:
            print_json([result.row() for result in comparison.results])
        else:
            print_comparison(comparison)
    raise typer.Exit(_exit_code(comparison, asked_gap))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait until results are written; outside the main thread it does not arrive anyway."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)
    try:
        yield
    finally:
        signal(SIGINT, before)


def _exit_code(comparison: Comparison, gap: float | None) -> int:
    if comparison.interrupted:
        typer.echo("interrupted: the best schedules so far are kept", err=True)
        return exit_codes.INTERRUPTED
    if gap is not None and comparison.best.gap > gap:
        typer.echo(f"the gap of {percent(gap)} was not reached: {percent(comparison.best.gap)}", err=True)
        return exit_codes.UNMET
    return 0
