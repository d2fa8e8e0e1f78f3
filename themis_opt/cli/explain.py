"""``themis-opt explain``: why a schedule takes as long as it does."""

from typing import Annotated

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


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
    schedule, summary = options.load_solution(path)
    answer = ask("explain", schedule.problem, schedule, summary, steps=steps, **replanning.given())
    answer.tell(as_json=as_json)
