"""What commands answer about collectives and iterations on dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.units import format_megabytes, format_short_time, nanoseconds
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, has_pictures, write_page
from themis_opt.cli.answers.measured import compare_measured as compare_measured
from themis_opt.cli.answers.operations import bound_table, parts, path_table, resource_table
from themis_opt.cli.answers.runs import run as run
from themis_opt.cli.answers.sweeps import sweep as sweep
from themis_opt.cli.process import remaining

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.formats.readers.registry import Import
    from themis_opt.problem.instance import Instance
    from themis_opt.reports.rendering.document import Section
    from themis_opt.schedules.envelope import Summary
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.study.comparison import Comparison

PICTURE_SECONDS, PICTURES_SECONDS, WRITE_SECONDS = 1e-3, 2.0, 5e-5
"""Seconds that pictures take for each stage and at most, and that other files take for each stage."""

MOST_ROWS = 12  # rows of a table that are shown without being asked for
MAX_WRITING = 0.5  # share of the time limit by which the search ends earlier for the files at most


def show(instance: "Instance", *, whole: bool = False, output: Path | None = None) -> Reply:
    """The dimensions, and the collectives or the iteration; perhaps with a picture of the network."""
    from themis_opt.problem.description import headline, tables

    files = []
    if output is not None:
        from themis_opt.graphs.conversion import to_graph
        from themis_opt.reports.network import draw_network

        draw_network(to_graph(instance.network), output)
        files.append(output)
    document = instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint}
    parts = [Listing.of_texts(title, rows) for title, rows in tables(instance, whole=whole).items()]
    return Reply(document, [headline(instance)], parts, files=files)


def introduce(instance: "Instance", imported: "Import", *, whole: bool = False) -> Reply:
    """An imported instance: its verdict, its files, and their small tables."""
    from themis_opt.problem.description import headline
    from themis_opt.study.verdict import on_instance  # it loads a solver

    sentences = (*imported.sentences, *on_instance(instance), headline(instance.replace(description="")))
    shown = {title: rows for title, rows in imported.tables.items() if whole or len(rows) <= MOST_ROWS}
    tables = [Listing.of_texts(title, rows) for title, rows in {"files": imported.files, **shown}.items()]
    large = {title: rows for title, rows in imported.tables.items() if title not in shown}
    hidden = [f"{title}: {len(rows)} rows, which --all shows" for title, rows in large.items()]
    document = imported.summary() | {"fingerprint": instance.fingerprint}
    return Reply(document, sentences, tables, (*hidden, *imported.notes))


def bound(instance: "Instance", *, chunk_sizes: options.SizeChoice | None = None) -> Reply:
    """Name, value and meaning of every bound; beside compute also the exposed time that it leaves."""
    from themis_opt.schedules.plan import has_launches
    from themis_opt.solving.bounds import bounds, bounds_of
    from themis_opt.study.columns import objective
    from themis_opt.study.step_plan import with_gathers

    rows = list[dict[str, Any]]()
    for name, value in bounds(instance).items():
        kind = bounds_of(instance)[name]
        if chunk_sizes == "free" and kind.equal_sizes_only:
            continue
        exposed = max(value - instance.compute - instance.bubble, 0.0) if has_launches(instance) else None
        meaning = {"equal_sizes_only": kind.equal_sizes_only, "scope": kind.scope, "meaning": kind.meaning}
        least = {} if exposed is None else {"exposed_ns": nanoseconds(exposed)}
        rows.append({"bound": name, "bound_ns": nanoseconds(value), **least, **meaning})
    titles: ShownColumns = {
        "bound_ns": (f"{objective(instance).title} >=", "time"),
        "exposed_ns": ("exposed >=", "time"),
        "sizes": ("chunk sizes", "text"),
        "scope": ("holds", "text"),
    }
    shown = columns("bound", *titles, "meaning", **titles)
    reservation = with_gathers(instance)
    sentences = [f"All bounds within the model hold{reservation}."] if reservation else []
    in_words = [row | {"sizes": "equal" if row["equal_sizes_only"] else "any"} for row in rows]
    return Reply(rows, sentences, [Listing(f"{instance.name or 'instance'}: lower bounds", in_words, shown)])


def validate(schedule: "Schedule", *, data: bool = False) -> Reply:
    """The rules that a schedule obeys, and perhaps what it does to data."""
    from themis_opt.cli.printing import moved_data_in_words, times_in_words
    from themis_opt.schedules.validation import VALIDATION_RULES
    from themis_opt.schedules.verification import verify
    from themis_opt.study.columns import schedule_row

    moved = verify(schedule) if data else None
    checked = {"valid": True, "rules": list(VALIDATION_RULES), "iterations": schedule.num_iterations}
    document = checked | schedule_row(schedule) | ({"data": asdict(moved)} if moved else {})
    rules = f"{len(VALIDATION_RULES)} rules hold ({', '.join(VALIDATION_RULES)})"
    return Reply(
        document, [f"valid: {rules}, {times_in_words(schedule)}", *(moved_data_in_words(moved) if moved else ())]
    )


def explain(
    written: "Schedule",
    summary: "Summary",
    *,
    steps: int,
    chunk_sizes: options.SizeChoice | None = None,
    **costs: str | None,
) -> Reply:
    """Where time goes, the critical path, what compute waits for, and the bounds."""
    from themis_opt.cli.printing import times_in_words
    from themis_opt.schedules.envelope import with_bounds_of
    from themis_opt.schedules.explanation import explain as analyse
    from themis_opt.solving.bounds import bounds
    from themis_opt.study.columns import objective, schedule_row
    from themis_opt.study.verdict import on_schedule

    schedule = options.Replanning(options.Costs().filled({"latency": None, **costs}), chunk_sizes).apply(written)
    is_as_written = schedule is written
    equal_sizes = schedule.has_equal_sizes and not (is_as_written and summary.settings.get("sizes") == "free")
    explanation, proven = analyse(schedule), bounds(schedule.instance, equal_sizes=equal_sizes)
    if is_as_written:
        proven = with_bounds_of(summary, proven)
    in_ns = {name: nanoseconds(value) for name, value in proven.items()}
    described = parts(explanation)
    document = schedule_row(schedule) | {"bounds_ns": in_ns} | described
    title = f"{times_in_words(schedule)}, chunk sizes {'equal' if schedule.has_equal_sizes else 'free'}"
    rails = [rail | {"bytes": format_megabytes(rail["bytes"])} for rail in described["rails"]]
    carried = columns("dimension", "rail", "bytes", "share", bytes=("bytes per NPU", "text"))
    tables = [
        resource_table(title, explanation),
        *([Listing("rails: what each carries", rails, carried)] if rails else []),
        path_table(explanation, steps, "stage"),
        *_wait_tables(described["waits"], schedule.makespan, steps),
        bound_table(schedule.makespan, proven, objective(schedule.instance).title),
    ]
    return Reply(document, on_schedule(schedule, explanation, proven, equal_sizes=equal_sizes), tables)


def _wait_tables(waits: Sequence[dict[str, Any]], makespan: int, limit: int) -> list[Listing]:
    """The longest waits of compute, in order of time."""
    longest = sorted(sorted(waits, key=lambda wait: -wait["wait_ns"])[:limit], key=lambda wait: wait["start_ns"])
    rows = [
        wait
        | {"of_step": wait["wait_ns"] / nanoseconds(makespan), "launch": wait["launch"] or "-"}
        | {"parallelism": wait["parallelism"] or "-"}
        for wait in longest
    ]
    titles: ShownColumns = {"start_ns": ("from", "time"), "of_step": ("of step", "share"), "launch": ("for", "text")}
    shown = columns("task", "start_ns", "wait_ns", "of_step", "launch", "parallelism", **titles)
    some = "" if len(longest) == len(waits) else f", the longest {len(longest)} of them"
    return [Listing(f"waits: {len(waits)}{some}", rows, shown)] if waits else []


def plot(schedule: "Schedule", path: Path, *, beside: str | None = None, style: str = "screen") -> Reply:
    """A Gantt picture, or in papers and beside another policy a compact one."""
    from themis_opt.policies.registry import make_policy, specify
    from themis_opt.schedules.simulator import simulate

    instance, others = schedule.instance, dict[str, "Schedule"]()
    if beside is not None:
        others[beside] = simulate(instance, make_policy(specify(beside, instance))(instance))
    if style == "paper" or others or path.suffix.lower() in (".pdf", ".pgf"):
        from themis_opt.formats.plot import save_plot

        save_plot(path, schedule, beside=others, bound=_bound(schedule))
    else:
        from themis_opt.reports.pictures import draw_gantt

        draw_gantt(path, schedule, bound=_bound(schedule))
    times = [format_short_time(schedule.makespan), *(f"{n} {format_short_time(s.makespan)}" for n, s in others.items())]
    return Reply(None, [f"{instance.name or 'instance'}: {', '.join(times)}"], files=[path])


def _bound(schedule: "Schedule") -> float | None:
    """The best bound in picoseconds; the axis of a period has no place for it."""
    from themis_opt.solving.bounds import bounds

    if schedule.has_period:
        return None
    return max(bounds(schedule.instance, equal_sizes=schedule.has_equal_sizes).values())


def simulate(
    instance: "Instance", policies: str | None, *, sizes: options.SizeChoice = "equal", output: Path | None = None
) -> Reply:
    """Exact times of policies, without bounds; perhaps with a folder of files for each."""
    from themis_opt.base.documents import file_name
    from themis_opt.cli.printing import assumptions, free_cuts_in_words
    from themis_opt.formats.bundle import write_schedule
    from themis_opt.policies.registry import usual_policies
    from themis_opt.schedules.simulator import simulate as run
    from themis_opt.schedules.validation import validate as check
    from themis_opt.study.columns import schedule_row

    chosen = options.choose_policies(instance, policies, usual_policies, sizes)
    schedules = {name: run(instance, policy(instance)) for name, policy in chosen.items()}
    files: list[Path] = []
    for name, schedule in schedules.items():
        check(schedule)
        if output is not None:
            files += write_schedule(output / file_name(name), schedule)
            if has_pictures():
                from themis_opt.reports.pictures import write_gantt

                files += write_gantt(output / file_name(name), schedule, name)
    rows = [{"policy": name, **schedule_row(schedule)} for name, schedule in schedules.items()]
    every = list(schedules.values())
    table = _result_table(assumptions(instance, sizes), rows, every)
    return Reply(rows, tables=[table], notes=free_cuts_in_words(every), files=files)


def _result_table(title: str, rows: Sequence[Mapping[str, Any]], schedules: "Sequence[Schedule]") -> Listing:
    """Rows of schedules by policy; their columns are those of :mod:`themis_opt.study.columns`."""
    from themis_opt.study.columns import result_table

    headings, lines = result_table(rows, schedules)
    return Listing.of_texts(title, [dict(zip(headings, line, strict=True)) for line in lines])


def compare(
    instance: "Instance", policies: str | None, search: options.SearchOptions, folder: Path | None, usual: bool
) -> "Comparison":
    """All policies, or the usual ones with the reference, within the limits of the command."""
    from themis_opt.policies.registry import REFERENCE, every_policy, usual_policies

    def default(instance: "Instance") -> Sequence[str]:
        return (*usual_policies(instance), REFERENCE) if usual else every_policy(instance)

    names = options.choose_policies(instance, policies, default)  # before solvers are loaded

    from themis_opt.base.documents import make_folder
    from themis_opt.cli.progress import comparison_progress
    from themis_opt.study import comparison
    from themis_opt.study.columns import objective

    if folder is not None:
        make_folder(folder)  # before the search, which would be lost
    kept = 0.0 if folder is None else seconds_to_write(instance, search.time_limit)
    seconds = search.time_limit if search.deterministic else max(remaining(search.time_limit) - kept, 0.0)
    limits = search.settings() | {"time_limit": seconds}
    with comparison_progress(objective(instance).title, seconds) as progress:
        return comparison.compare(instance, tuple(names), progress=progress, **limits)


def seconds_to_write(instance: "Instance", time_limit: float) -> float:
    """What to keep of a time limit for the files of a schedule."""
    from themis_opt.problem.cost import count_stages

    stages = count_stages(instance)
    writing = min(PICTURE_SECONDS * stages, PICTURES_SECONDS) + WRITE_SECONDS * stages
    return min(writing, MAX_WRITING * time_limit)


def tell(compared: "Comparison", search: options.SearchOptions) -> Reply:
    """The verdict and the table of a comparison."""
    from themis_opt.cli.printing import assumptions, free_cuts_in_words
    from themis_opt.study.best_known import beside_best_known

    known = beside_best_known(compared.best.schedule, search.sizes)
    rows, schedules = [result.row() for result in compared.results], [one.schedule for one in compared.results]
    title = f"{assumptions(compared.problem, search.sizes)}: {_bounds_in_words(compared)}"
    tables = [_result_table(title, rows, schedules)]
    notes = [*free_cuts_in_words([compared.best.schedule]), *compared.notes]
    return Reply(rows, (*compared.verdict, *([known] if known else ())), tables, notes)


def write(folder: Path, compared: "Comparison", answer: Reply, search: options.SearchOptions) -> list[Path]:
    """The table of a comparison, and the best schedule with its pictures and its page."""
    from themis_opt.study.comparison import write_comparison

    settings, best = {name: value for name, value in search.settings().items() if name != "gap"}, compared.best

    def draw() -> "tuple[Section, list[Path]]":
        from themis_opt.reports.pictures import write_gantt
        from themis_opt.reports.solution import schedule_section

        title = f"{compared.problem.name or 'instance'}, {best.policy}"
        return schedule_section(compared), write_gantt(folder, best.schedule, title, best.bound)

    shown = replace(answer, tables=[*answer.tables, bound_table(best.makespan, compared.bounds)])
    return [*write_comparison(folder, compared, settings), *write_page(folder, compared, shown, draw)]


def _bounds_in_words(compared: "Comparison") -> str:
    """The best bound within the model, and the one that no algorithm beats."""
    from themis_opt.solving.bounds import bounds_of

    def words(name: str, scope: str) -> str:
        return f"{format_short_time(compared.bounds[name])} ({name}) {scope}"

    wider = {name: kind for name, kind in bounds_of(compared.problem).items() if kind.any_algorithm}
    inside = {name: bound for name, bound in compared.bounds.items() if name not in wider}
    texts = [words(max(inside, key=lambda name: inside[name]), "within the model")]
    texts += [words(name, wider[name].scope) for name in wider if name in compared.bounds]
    return f"best bound {', '.join(texts)}"
