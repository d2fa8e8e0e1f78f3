"""``themis-opt explain``: why a schedule takes as long as it does."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.cli import families, graph_schedules, options, pipelines

if TYPE_CHECKING:
    from themis_opt.schedules.explanation import Explanation
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.schedule_file import Summary

TIMES = {"start": "start_ns", "busy": "busy_ns", "lag": "lag_ns", "idle": "idle_ns", "length": "wait_ns"}
"""Names that fields of an explanation have in JSON, where they are nanoseconds."""


@options.grouped
def explain(
    path: options.ScheduleFile,
    *,
    replanning: options.Replanning,
    steps: Annotated[int, Option(help="Stages of the critical path, and waits, to list.", min=0)] = 12,
    as_json: options.Json = False,
) -> None:
    """Show where the time of each resource goes, the critical path, what compute waits for, and the closest bound.

    With other costs or chunk sizes, of what the same plan takes then.
    """
    if pipelines.is_pipeline(str(path)):
        families.explain(path, "pipeline", steps, as_json=as_json)
        return
    if graph_schedules.is_graph_schedule(path):
        graph_schedules.refuse_options(**replanning.costs.given(), chunk_sizes=replanning.sizes)
        graph_schedules.explain(path, steps, as_json=as_json)
        return
    written, summary = options.load_solution(path)
    schedule = replanning.apply(written)

    from themis_opt.cli.printing import print_json, say_all
    from themis_opt.schedules.explanation import explain as analyse
    from themis_opt.solving.bounds import bounds
    from themis_opt.study.verdict import on_schedule

    is_as_written = schedule is written
    equal_sizes = schedule.has_equal_sizes and not (is_as_written and summary.settings.get("sizes") == "free")
    explanation, proven = analyse(schedule), bounds(schedule.instance, equal_sizes=equal_sizes)
    if is_as_written:
        proven = _with_bounds_of(summary, proven)
    if as_json:
        print_json(_document(schedule, explanation, proven))
        return
    say_all(on_schedule(schedule, explanation, proven, equal_sizes=equal_sizes))
    _print_resources(schedule, explanation)
    _print_rails(explanation)
    _print_path(explanation, steps)
    _print_waits(schedule, explanation, steps)
    _print_bounds(schedule, proven)


def _with_bounds_of(summary: "Summary", proven: dict[str, float]) -> dict[str, float]:
    """Bounds in picoseconds, each at least that of the file, which a search may have proven."""
    from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND

    written = {name: value * PICOSECONDS_PER_NANOSECOND for name, value in summary.bounds_ns.items()}
    return {name: max(proven.get(name, 0.0), written.get(name, 0.0)) for name in {**proven, **written}}


def _document(schedule: "Schedule", explanation: "Explanation", proven: dict[str, float]) -> dict[str, Any]:
    from themis_opt.base.units import nanoseconds
    from themis_opt.study.columns import schedule_row

    bounds = {name: nanoseconds(value) for name, value in proven.items()}
    parts = {name: [_in_ns(part) for part in entries] for name, entries in asdict(explanation).items()}
    return schedule_row(schedule) | {"bounds_ns": bounds} | parts


def _in_ns(fields: dict[str, Any]) -> dict[str, Any]:
    from themis_opt.base.units import nanoseconds

    return {TIMES.get(name, name): nanoseconds(value) if name in TIMES else value for name, value in fields.items()}


def _print_resources(schedule: "Schedule", explanation: "Explanation") -> None:
    from themis_opt.base.units import format_percent, format_times
    from themis_opt.cli.printing import print_table, sizes_in_words, times_in_words

    wholes = [resource.busy + resource.lag + resource.idle for resource in explanation.resources]
    columns = {"resource": [resource.name for resource in explanation.resources]}
    for part in ("busy", "lag", "idle"):
        times = [getattr(resource, part) for resource in explanation.resources]
        columns[part] = format_times(times)
        columns[f"{part} share"] = [format_percent(time / whole) for time, whole in zip(times, wholes, strict=True)]
    title = f"{times_in_words(schedule)}, chunk sizes {sizes_in_words(schedule)}"
    print_table(title, list(columns), list(zip(*columns.values(), strict=True)))


def _print_rails(explanation: "Explanation") -> None:
    from themis_opt.base.units import format_megabytes, format_percent
    from themis_opt.cli.printing import print_table

    cells = [
        (rail.dimension, rail.rail, format_megabytes(rail.bytes), format_percent(rail.share))
        for rail in explanation.rails
    ]
    if cells:
        print_table("rails: what each carries", ("dimension", "rail", "bytes per NPU", "share"), cells)


def _print_path(explanation: "Explanation", limit: int) -> None:
    from themis_opt.base.units import format_times
    from themis_opt.cli.printing import print_table

    path = explanation.steps
    shown = path if len(path) <= limit else (*path[: limit // 2], *path[len(path) - (limit - limit // 2) :])
    labels, waited_for = [s.label for s in shown], [s.waited_for for s in shown]
    times = [format_times([getattr(s, name) for s in shown]) for name in ("start", "busy", "lag")]
    cells = list(zip(labels, *times, waited_for, strict=True))
    title = f"critical path: {len(path)} stages" + (
        "" if len(shown) == len(path) else f", {len(shown)} of them from both ends"
    )
    print_table(title, ("stage", "start", "busy", "lag", "waited for"), cells)


def _print_waits(schedule: "Schedule", explanation: "Explanation", limit: int) -> None:
    from themis_opt.base.units import format_percent, format_times
    from themis_opt.cli.printing import print_table

    waits = explanation.waits
    longest = sorted(sorted(waits, key=lambda wait: -wait.length)[:limit], key=lambda wait: wait.start)
    columns = {
        "task": [wait.task for wait in longest],
        "from": format_times([wait.start for wait in longest]),
        "waits": format_times([wait.length for wait in longest]),
        "of step": [format_percent(wait.length / schedule.makespan) for wait in longest],
        "for": [wait.launch or "-" for wait in longest],
        "parallelism": [wait.parallelism or "-" for wait in longest],
    }
    title = f"waits: {len(waits)}" + ("" if len(longest) == len(waits) else f", the longest {len(longest)} of them")
    if waits:
        print_table(title, list(columns), list(zip(*columns.values(), strict=True)))


def _print_bounds(schedule: "Schedule", proven: dict[str, float]) -> None:
    from themis_opt.base.units import format_percent, format_times
    from themis_opt.cli.printing import print_table, strongest
    from themis_opt.study.columns import objective

    closest, _ = strongest(proven)
    names = [name + (" (closest)" if name == closest else "") for name in proven]
    gaps = [format_percent(schedule.makespan / value - 1) if value else "-" for value in proven.values()]
    cells = list(zip(names, format_times(list(proven.values())), gaps, strict=True))
    print_table("bounds", ("bound", f"{objective(schedule.instance).title} >=", "gap"), cells)
