"""``themis-opt explain``: why the makespan of a schedule is what it is."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.explanation import Explanation
    from themis_opt.schedule import Schedule


def explain(
    path: options.ScheduleFile,
    steps: Annotated[int, typer.Option(help="Stages of the critical path, or waits, to list.", min=0)] = 12,
    as_json: options.Json = False,
) -> None:
    """Show the critical path, or the waits of an iteration, where each dimension's time goes, and the closest bound."""
    from themis_opt.cli.iterations import holds_iterations, load_iteration_schedule

    if holds_iterations(path):
        from themis_opt.cli.iteration_printing import print_iteration_explanation

        print_iteration_explanation(load_iteration_schedule(path), steps, as_json)
    else:
        _explain(options.load_schedule(path), steps, as_json)


def _explain(schedule: "Schedule", steps: int, as_json: bool) -> None:
    from themis_opt.cli.printing import print_json
    from themis_opt.explanation import explain as analyse
    from themis_opt.lower_bounds import bounds

    explanation, proven = analyse(schedule), bounds(schedule.instance, equal_sizes=schedule.has_equal_sizes)
    if as_json:
        print_json(_document(schedule, explanation, proven))
        return
    _print_dimensions(schedule, explanation)
    _print_path(explanation, steps)
    _print_bounds(schedule, proven)


def _document(schedule: "Schedule", explanation: "Explanation", proven: dict[str, float]) -> dict[str, Any]:
    """Everything as plain values, times in ns."""
    return {
        "makespan_ns": schedule.makespan / 1000,
        "bounds_ns": {name: value / 1000 for name, value in proven.items()},
        "steps": [_in_ns(asdict(step)) for step in explanation.steps],
        "dimensions": [_in_ns(asdict(dimension)) for dimension in explanation.dimensions],
    }


def _in_ns(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with times in ns, and names that say so."""
    times = ("start", "busy", "lag", "idle")
    return {f"{k}_ns" if k in times else k: v / 1000 if k in times else v for k, v in fields.items()}


def _print_dimensions(schedule: "Schedule", explanation: "Explanation") -> None:
    from themis_opt.cli.printing import duration, percent, print_table

    cells = [
        (d.name, *(f"{duration(t)} ({percent(t / schedule.makespan)})" for t in (d.busy, d.lag, d.idle)))
        for d in explanation.dimensions
    ]
    print_table(f"makespan {duration(schedule.makespan)}", ("dimension", "busy", "lag", "idle"), cells)


def _print_path(explanation: "Explanation", limit: int) -> None:
    from themis_opt.cli.printing import duration, print_table

    path = explanation.steps
    shown = path if len(path) <= limit else (*path[: limit // 2], *path[len(path) - (limit - limit // 2) :])
    cells = [(s.label, duration(s.start), duration(s.busy), duration(s.lag), s.waited_for) for s in shown]
    title = f"critical path: {len(path)} stages" + (
        "" if len(shown) == len(path) else f", {len(shown)} of them from both ends"
    )
    print_table(title, ("stage", "start", "busy", "lag", "waited for"), cells)


def _print_bounds(schedule: "Schedule", proven: dict[str, float]) -> None:
    from themis_opt.cli.printing import duration, percent, print_table

    closest = max(proven, key=lambda name: proven[name])
    cells = [
        (name + (" (closest)" if name == closest else ""), duration(value), percent(schedule.makespan / value - 1))
        for name, value in proven.items()
    ]
    print_table("bounds", ("bound", "makespan >=", "gap"), cells)
