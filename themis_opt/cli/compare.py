"""``themis-opt solve`` and ``themis-opt compare``: policies side by side, and the best schedule on disk."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from themis_opt.cli import options
from themis_opt.cli.process import INTERRUPTED, UNMET, remaining, undisturbed

if TYPE_CHECKING:
    from themis_opt.base.units import Form
    from themis_opt.problem.instance import Instance
    from themis_opt.search.limits import Allowance
    from themis_opt.study.comparison import Comparison, Limits
    from themis_opt.study.robust import RobustChoice


WRITE_SECONDS = 8e-6
"""What the files of a schedule take for each stage; the search ends so much earlier."""


@options.with_costs
def solve(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    policies: options.Policies = None,
    time_limit: options.TimeLimit = 60.0,
    workers: options.Workers = 2,
    seed: options.Seed = 0,
    gap: options.Gap = None,
    sizes: options.Sizes = "free",
    deterministic: options.Deterministic = False,
    memory: options.Memory = 4.0,
    no_cache: options.NoCache = False,
    solver_log: options.SolverLog = None,
    robust: Annotated[
        bool,
        typer.Option(
            "--robust", help="Choose the schedule that loses least on disturbed networks, among more of them."
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the schedule and its pictures.")
    ] = None,
    as_json: options.Json = False,
    **costs: str | None,
) -> None:
    """Find a near-optimal schedule, prove its gap, and write it with pictures.

    Compares the usual policies with the reference of local search and CP-SAT, and writes the best schedule, its order
    table or the compute tasks beside it, a trace for Perfetto, a Gantt picture and CSV files.
    """
    instance = options.load_instance(source, size, chunks, latency, ag_order, costs)

    from themis_opt.base.documents import file_name
    from themis_opt.policies.registry import REFERENCE, usual_policies

    chosen = options.choose_policies(instance, policies, lambda _: (*usual_policies(instance), REFERENCE))
    names = dict.fromkeys([*chosen, *_pool(instance)] if robust else chosen)
    folder = output or Path(file_name(f"{Path(source).name.removesuffix('.json')}.solution"))
    limits = _limits(time_limit, workers, seed, gap, sizes, deterministic, memory)
    with options.solver_logged(solver_log):
        _compare(
            instance, names, limits, cached=not no_cache, asked_gap=gap, folder=folder, as_json=as_json, robust=robust
        )


def _pool(instance: "Instance") -> tuple[str, ...]:
    from themis_opt.study.robust import pool

    return pool(instance)


def _with_robust_choice(
    compared: "Comparison", seed: int, allowance: "Allowance | None"
) -> "tuple[Comparison, RobustChoice | None]":
    """The comparison with the result that loses least preferred; as it is, with none, after Ctrl-C or without time."""
    from themis_opt.cli.printing import tell_note
    from themis_opt.study.robust import choose_robust

    if compared.interrupted:
        return compared, None
    try:
        choice = choose_robust(compared, seed=seed, allowance=allowance)
    except KeyboardInterrupt:
        return replace(compared, interrupted=True), None
    if choice is None:
        tell_note("no disturbed network was simulated within --time-limit: the schedule is the fastest undisturbed")
        return compared, None
    return choice.comparison, choice


@options.with_costs
def compare(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    policies: options.Policies = None,
    time_limit: options.TimeLimit = 60.0,
    workers: options.Workers = 2,
    seed: options.Seed = 0,
    gap: options.Gap = None,
    sizes: options.Sizes = "equal",
    deterministic: options.Deterministic = False,
    memory: options.Memory = 4.0,
    no_cache: options.NoCache = False,
    solver_log: options.SolverLog = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the best schedule and the table.")
    ] = None,
    as_json: options.Json = False,
    **costs: str | None,
) -> None:
    """Run all policies on one instance, each against the best proven bound."""
    instance = options.load_instance(source, size, chunks, latency, ag_order, costs)

    from themis_opt.policies.registry import every_policy

    names = options.choose_policies(instance, policies, every_policy)
    limits = _limits(time_limit, workers, seed, gap, sizes, deterministic, memory)
    with options.solver_logged(solver_log):
        _compare(instance, names, limits, cached=not no_cache, asked_gap=gap, folder=output, as_json=as_json)


def _limits(
    time_limit: float, workers: int, seed: int, gap: float | None, sizes: str, deterministic: bool, memory: float
) -> "Limits":
    from formulations.budget import PROVEN_GAP
    from themis_opt.study.comparison import checked_sizes

    return {
        "time_limit": time_limit,
        "workers": workers,
        "seed": seed,
        "gap": PROVEN_GAP if gap is None else gap,
        "sizes": checked_sizes(sizes),
        "deterministic": deterministic,
        "memory": memory,
    }


def _compare(
    instance: "Instance",
    policies: Iterable[str],
    limits: "Limits",
    *,
    cached: bool,
    asked_gap: float | None,
    folder: Path | None,
    as_json: bool,
    robust: bool = False,
) -> None:
    """Compare policies, write the best schedule into the folder, if there is one, and print the table."""
    from themis_opt.base.documents import make_folder
    from themis_opt.cli.printing import note_free_cuts, print_json, say_all, tell_files, tell_note
    from themis_opt.cli.progress import comparison_progress
    from themis_opt.problem.cost import count_stages
    from themis_opt.reports.solution import write_page
    from themis_opt.search.limits import Allowance
    from themis_opt.search.plan_cache import PlanCache
    from themis_opt.study import comparison
    from themis_opt.study.bundle import write_comparison
    from themis_opt.study.robust import SAMPLING_SHARE
    from themis_opt.study.verdict import on_choice, on_comparison

    if folder is not None:
        make_folder(folder)
    settings = {name: value for name, value in limits.items() if name != "gap"}
    if not limits["deterministic"]:
        writing = 0.0 if folder is None else WRITE_SECONDS * count_stages(instance)
        limits["time_limit"] = max(remaining(limits["time_limit"]) - writing, 0.0)
    cache = PlanCache() if cached and not limits["deterministic"] else None
    choice: RobustChoice | None = None
    sampling = None if limits["deterministic"] else Allowance(limits["time_limit"])
    if robust and not limits["deterministic"]:
        limits["time_limit"] *= 1 - SAMPLING_SHARE
    with comparison_progress(instance, limits["time_limit"]) as progress:
        compared = comparison.compare(instance, tuple(policies), progress=progress, cache=cache, **limits)
        if robust:
            compared, choice = _with_robust_choice(compared, limits["seed"], sampling)
    with undisturbed():
        verdict = (*(on_choice(choice) if choice else ()), *on_comparison(compared))
        if folder is not None:
            page = write_page(folder, compared, verdict)
            tell_files([*write_comparison(folder, compared, settings), page])
        if as_json:
            print_json([result.row() for result in compared.results])
        else:
            say_all(verdict)
            _print(compared, limits["sizes"])
            _print_choice(choice)
            note_free_cuts([compared.best.schedule])
            for name in compared.left_out:
                tell_note(f"{name} was left out: it would take longer than --time-limit")
    _leave(compared, asked_gap)


def _print_choice(choice: "RobustChoice | None") -> None:
    """Print what candidates lose on disturbed networks, if that was asked."""
    from themis_opt.cli.printing import print_rows

    if choice is None:
        return
    shown: dict[str, tuple[str, Form]] = {
        "policy": ("policy, as it is run", "text"),
        "nominal_makespan_ns": ("undisturbed", "time"),
        "p95_makespan_ns": ("p95", "time"),
        "nominal_loss": ("loss", "share"),
        "p95_loss": ("p95 loss", "share"),
    }
    count = len(choice.chosen.makespans)
    print_rows(f"{count} disturbed networks, the same for all; the best first", choice.rows(), shown)


def _print(compared: "Comparison", sizes: str) -> None:
    """Print the table of all results."""
    from themis_opt.cli.printing import print_results

    title = f"{compared.instance.name or 'instance'}, chunk sizes {sizes}: {_bounds_in_words(compared)}"
    results = compared.results
    print_results(title, [result.row() for result in results], [result.schedule for result in results])


def _bounds_in_words(compared: "Comparison") -> str:
    """The best bound within the model, and the one that no algorithm beats."""
    from themis_opt.base.units import format_duration
    from themis_opt.cli.printing import strongest
    from themis_opt.solving.bounds import bounds_of

    def words(name: str, bound: float, scope: str) -> str:
        return f"{format_duration(bound)} ({name}) {scope}"

    wider = {name: kind for name, kind in bounds_of(compared.instance).items() if kind.any_algorithm}
    inside = {name: bound for name, bound in compared.bounds.items() if name not in wider}
    texts = [words(*strongest(inside), "within the model")]
    texts += [words(name, compared.bounds[name], wider[name].scope) for name in wider if name in compared.bounds]
    return f"best bound {', '.join(texts)}"


def _leave(compared: "Comparison", gap: float | None) -> None:
    """End with the exit code of the comparison, unless it is that of success."""
    from themis_opt.base.units import format_percent
    from themis_opt.cli.printing import tell

    if compared.interrupted:
        tell("interrupted: the best schedules so far are kept")
        raise typer.Exit(INTERRUPTED)
    if gap is not None and compared.best.gap > gap:
        tell(f"the gap of {format_percent(gap)} was not reached: {format_percent(compared.best.gap)}")
        raise typer.Exit(UNMET)
