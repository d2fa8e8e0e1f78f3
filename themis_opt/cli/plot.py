"""``themis-opt plot``: a schedule as a picture, for a screen or for a paper."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from themis_opt.cli import graph_schedules, options, pipelines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from themis_opt.schedules.schedule import Schedule


def plot(
    path: options.ScheduleFile,
    output: Annotated[Path, options.output("The picture: PNG, SVG, PDF or (with LaTeX) PGF by its suffix.")],
    beside: Annotated[str | None, Option(help="Policy whose schedule is drawn below on the same axis of time.")] = None,
    style: Annotated[
        Literal["screen", "paper"], Option(help="paper: 3.3 inches wide, small letters, no legend.")
    ] = "screen",
) -> None:
    """Draw a schedule; in papers, and beside another one, with the best bound as a line."""
    if pipelines.is_pipeline(str(path)):
        pipelines.plot(path, output)
        return
    if graph_schedules.is_graph_schedule(path):
        graph_schedules.refuse_options(beside=beside)
        graph_schedules.plot(path, output)
        return
    schedule = options.load_schedule(path)

    from matplotlib import rc_context

    from themis_opt.base.units import format_short_time
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.gantt import gantt, save_figure
    from themis_opt.formats.plot import PAPER_STYLE

    others = {} if beside is None else {beside: options.scheduled(schedule.instance, beside)}
    if style == "screen" and not others:
        save_figure(gantt(schedule, bound=_bound(schedule)), output)
    else:
        with rc_context(PAPER_STYLE):
            save_figure(_compact(schedule, others), output)
    tell_files([output])
    times = [format_short_time(schedule.makespan), *(f"{n} {format_short_time(s.makespan)}" for n, s in others.items())]
    typer.echo(f"{schedule.instance.name or 'instance'}: {', '.join(times)}")


def _compact(schedule: "Schedule", others: "Mapping[str, Schedule]") -> "Figure":
    from themis_opt.formats.plot import plot as draw

    figure: Figure = draw(schedule, beside=others, bound=_bound(schedule)).figure  # type: ignore[assignment]  # its type
    return figure


def _bound(schedule: "Schedule") -> float | None:
    """What no schedule beats, in picoseconds; the axis of a period has no place for it."""
    from themis_opt.solving.bounds import bounds

    if schedule.has_period:
        return None
    return max(bounds(schedule.instance, equal_sizes=schedule.has_equal_sizes).values())
