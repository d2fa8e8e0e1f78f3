"""``themis-opt simulate``: exact times of policies, without solver or bounds."""

from pathlib import Path
from typing import Annotated, Any

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


@options.grouped
def simulate(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for one schedule and its pictures per policy.")] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate policies and print makespan and utilisation, or what a training iteration takes."""
    problem = options.load_problem(source, changes, policies=policies)
    given: dict[str, Any] = {"output": output} | ({} if sizes == "equal" else {"sizes": sizes})
    ask("simulate", problem, problem, policies, **given).tell(as_json=as_json)
