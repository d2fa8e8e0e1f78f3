"""``themis-opt solve`` and ``themis-opt compare``: policies side by side, and the best schedule on disk."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import graphs, measured_times, options, pipelines
from themis_opt.cli.pipelines import is_pipeline
from themis_opt.cli.process import leave, remaining, undisturbed

if TYPE_CHECKING:
    from themis_opt.base.allowance import Allowance
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance
    from themis_opt.study.comparison import Comparison
    from themis_opt.study.robust import RobustChoice


PICTURE_SECONDS, PICTURES_SECONDS, WRITE_SECONDS = 1e-3, 2.0, 5e-5
"""What pictures take for each stage, and at most, and what other files take for each stage."""

MAX_WRITING = 0.5  # share of the time limit by which the search ends earlier for the files at most
FREE_SIZES = options.SearchOptions(sizes="free")


@options.grouped
def solve(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    network: graphs.NetworkChanges,
    policies: options.Policies = None,
    search: options.SearchOptions = FREE_SIZES,
    robust: Annotated[
        bool, Option("--robust", help="Choose the schedule that loses least on disturbed networks, among more of them.")
    ] = False,
    beside: Annotated[
        Literal["healthy"] | None, Option("--compare", help="healthy: say what is kept of the speed before --lost.")
    ] = None,
    output: Annotated[Path | None, options.output("Folder for the schedule and its pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find a near-optimal schedule, prove its gap, and write it with pictures.

    Compares the usual policies with the reference of local search and CP-SAT, and writes the best schedule, its order
    table or the compute tasks beside it, a trace for Perfetto, a Gantt picture and CSV files.
    """
    from themis_opt.base.documents import file_name

    folder = output or Path(file_name(f"{Path(source).name.removesuffix('.json')}.solution"))
    if is_pipeline(source):
        _refuse_robust(robust)
        pipelines.refuse({**changes.given(), "lost": network.lost, "slow": network.slow, "compare": beside})
        pipelines.compare(source, policies, search, folder, as_json=as_json)
        return
    graph = graphs.load(source, changes, network, policies)
    if graph is not None:
        _refuse_robust(robust)
        healthy = beside is not None
        graphs.compare(graph, network, policies, folder=folder, search=search, beside_healthy=healthy, as_json=as_json)
        return
    instance = options.load_instance(source, changes)

    from themis_opt.policies.registry import REFERENCE, usual_policies

    chosen = options.choose_policies(instance, policies, lambda _: (*usual_policies(instance), REFERENCE))
    from themis_opt.study.robust import pool

    names = dict.fromkeys([*chosen, *pool(instance)] if robust else chosen)
    with options.solver_logged(search.solver_log):
        compare_and_write(instance, tuple(names), search, folder=folder, as_json=as_json, robust=robust)


def _refuse_robust(robust: bool) -> None:
    if robust:
        raise InputError("is for networks of dimensions", field="--robust")


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


@options.grouped
def compare(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    network: graphs.NetworkChanges,
    policies: options.Policies = None,
    measured: Annotated[
        list[Path] | None,
        Option(
            help="Log of nccl-tests, rccl-tests, the NCCL Inspector, PyTorch or 'run', or the trace of a step: "
            "say how far what was measured is from what is proven."
        ),
    ] = None,
    search: options.SearchOptions,
    output: Annotated[Path | None, options.output("Folder for the best schedule and the table.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run all policies on one instance, each against the best proven bound.

    With --measured, put the times of a log beside the best schedule of the usual policies and the bound of any
    algorithm; exit code 1 where they are below it, for then the network is faster than it is described.
    """
    if is_pipeline(source):
        measured_log = str(measured[0]) if measured else None
        pipelines.refuse({**changes.given(), "lost": network.lost, "slow": network.slow, "measured": measured_log})
        pipelines.compare(source, policies, search, output, as_json=as_json)
        return
    graph = graphs.load(source, changes, network, policies)
    if graph is not None:
        if measured:
            raise InputError("is not for graphs", field="--measured", value=str(measured[0]))
        graphs.compare(graph, network, policies, folder=output, search=search, as_json=as_json)
        return
    instance = options.load_instance(source, changes)
    if measured:
        measured_times.compare(instance, measured, options.split(policies), output, as_json=as_json)
        return

    from themis_opt.policies.registry import every_policy

    names = options.choose_policies(instance, policies, every_policy)
    with options.solver_logged(search.solver_log):
        compare_and_write(instance, tuple(names), search, folder=output, as_json=as_json)


def compare_and_write(
    instance: "Instance",
    policies: tuple[str, ...],
    search: options.SearchOptions,
    *,
    folder: Path | None,
    as_json: bool,
    robust: bool = False,
) -> None:
    """Compare policies within the limits, print the verdict and the table, and write the best schedule to a folder."""
    from themis_opt.base.documents import make_folder
    from themis_opt.cli.printing import print_json, say_all, tell_files
    from themis_opt.study.best_known import beside_best_known
    from themis_opt.study.comparison import checked_sizes
    from themis_opt.study.verdict import on_choice, on_comparison

    checked_sizes(search.sizes)
    if folder is not None:
        make_folder(folder)
    seconds = search.time_limit if search.deterministic else _seconds_to_search(instance, search, folder)
    compared, choice = _searched(instance, policies, search, seconds, robust=robust)
    with undisturbed():
        known = beside_best_known(compared.best.schedule, search.sizes)
        verdict = (*(on_choice(choice) if choice else ()), *on_comparison(compared), *([known] if known else []))
        files = [] if folder is None else _write(folder, compared, verdict, search)
        if as_json:
            print_json([result.row() for result in compared.results])
        else:
            say_all(verdict)
            _print(compared, choice, search.sizes)
        tell_files(files)
    leave(compared.best.gap, search.gap, interrupted=compared.interrupted, left_out=compared.refused)


def _seconds_to_search(instance: "Instance", search: options.SearchOptions, folder: Path | None) -> float:
    """What is left of the time limit of the command, but for its files."""
    from themis_opt.problem.cost import count_stages

    stages = 0 if folder is None else count_stages(instance)
    writing = min(PICTURE_SECONDS * stages, PICTURES_SECONDS) + WRITE_SECONDS * stages
    return max(remaining(search.time_limit) - min(writing, MAX_WRITING * search.time_limit), 0.0)


def _searched(
    instance: "Instance", policies: tuple[str, ...], search: options.SearchOptions, seconds: float, *, robust: bool
) -> "tuple[Comparison, RobustChoice | None]":
    from themis_opt.base.allowance import Allowance
    from themis_opt.cli.progress import comparison_progress
    from themis_opt.study import comparison
    from themis_opt.study.plan_cache import PlanCache
    from themis_opt.study.robust import SAMPLING_SHARE

    cache = None if search.no_cache or search.deterministic else PlanCache()
    sampling = None if search.deterministic else Allowance(seconds)
    if robust and not search.deterministic:
        seconds *= 1 - SAMPLING_SHARE
    limits = search.settings() | {"time_limit": seconds}
    with comparison_progress(instance, seconds) as progress:
        compared = comparison.compare(instance, policies, progress=progress, cache=cache, **limits)
        return _with_robust_choice(compared, search.seed, sampling) if robust else (compared, None)


def _write(folder: Path, compared: "Comparison", verdict: Sequence[str], search: options.SearchOptions) -> list[Path]:
    from themis_opt.reports.solution import write_page
    from themis_opt.study.bundle import write_comparison

    page = write_page(folder, compared, verdict)
    settings = {name: value for name, value in search.settings().items() if name != "gap"}
    return [*write_comparison(folder, compared, settings), page]


def _print_choice(choice: "RobustChoice | None") -> None:
    from themis_opt.cli.printing import print_rows

    if choice is None:
        return
    shown: ShownColumns = {
        "policy": ("policy, as it is run", "text"),
        "nominal_makespan_ns": ("undisturbed", "time"),
        "p95_makespan_ns": ("p95", "time"),
        "nominal_loss": ("loss", "share"),
        "p95_loss": ("p95 loss", "share"),
    }
    count = len(choice.chosen.makespans)
    print_rows(f"{count} disturbed networks, the same for all; the best first", choice.rows(), shown)


def _print(compared: "Comparison", choice: "RobustChoice | None", sizes: str) -> None:
    from themis_opt.cli.printing import assumptions, note_free_cuts, print_results, tell_note

    title = f"{assumptions(compared.instance, sizes)}: {_bounds_in_words(compared)}"
    results = compared.results
    print_results(title, [result.row() for result in results], [result.schedule for result in results])
    _print_choice(choice)
    note_free_cuts([compared.best.schedule])
    for name in compared.left_out:
        tell_note(f"{name} was left out: it would take longer than --time-limit")
    for name, error in compared.refused.items():
        tell_note(f"{name} was left out: its plan is illegal: {error}")


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
