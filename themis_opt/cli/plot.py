"""``themis-opt plot``: a schedule as a picture, for a screen or for a paper."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


def plot(
    path: options.ScheduleFile,
    output: Annotated[Path, options.output("The picture: PNG, SVG, PDF or (with LaTeX) PGF by its suffix.")],
    beside: Annotated[str | None, Option(help="Policy whose schedule is drawn below on the same axis of time.")] = None,
    style: Annotated[
        Literal["screen", "paper"], Option(help="paper: 3.3 inches wide, small letters, no legend.")
    ] = "screen",
) -> None:
    """Draw a schedule; in papers, and beside another one, with the best bound as a line."""
    schedule, _ = options.load_solution(path)
    given: dict[str, Any] = {"beside": beside} | ({} if style == "screen" else {"style": style})
    ask("plot", schedule.problem, schedule, output, **given).tell(as_json=False)
