"""``themis-opt run``: schedules executed by real processes, beside what the model says."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options, ranks
from themis_opt.cli.answers.answer import ask

RunSource = Annotated[
    str, Argument(help="Schedule file, instance file, or the name of a shipped instance.", metavar="SOURCE")
]
Dtype = Annotated[str, Option(help="Element type, such as float32, float16, bfloat16 or int64.")]
InFlight = Annotated[int, Option(help="Stages that a dimension may have under way at once.", min=1, max=16)]


@options.grouped
def run(
    source: RunSource,
    *,
    local: ranks.Local = None,
    pace: ranks.Pace = None,
    policies: options.Policies = None,
    repeat: Annotated[int, Option(help="Runs of each schedule; one more is not counted.", min=1)] = 5,
    transport: ranks.Transport = "tcp",
    changes: options.Changes,
    network: options.NetworkChanges,
    sizes: options.ChunkSizes = "equal",
    dtype: Dtype = "float32",
    reduction: Annotated[str, Option(help="sum, min, max or avg.")] = "sum",
    in_flight: InFlight = 1,
    iterations: Annotated[int, Option(help="How many in a row, where there is compute.", min=3)] = 6,
    seed: options.Seed = 0,
    start: ranks.Start,
    output: Annotated[Path | None, options.output("Folder for rows, measured traces and pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run schedules with one process per NPU, check every bit of the results, and compare times with the model.

    Ranks wait in the place of a slow network where --pace says how fast it is; compute is run as sleeps.
    """
    from themis_opt.families.door import format_in

    path = Path(source)
    is_schedule = path.suffix == ".json" and "schedule" in format_in(path)
    given: dict[str, Any] = {"sizes": sizes, "dtype": dtype, "reduction": reduction, "in_flight": in_flight}
    given |= {"iterations": iterations, "transport": transport, "output": output, "local": local, "pace": pace}
    if is_schedule:
        for name in ("size", "chunks", "ag_order"):
            if getattr(changes, name) is not None:
                rule = "a schedule states its sizes, chunks and orders"
                raise InputError(rule, field=f"--{name.replace('_', '-')}")
        subject: Any = options.load_solution(path)[0]
        given |= changes.costs.given()
    else:
        subject = options.load_problem(source, changes, network, policies)
    given |= {"repeat": repeat, "seed": seed, **network.given()}
    answer = ask("run", getattr(subject, "problem", subject), subject, path.name, policies, start, **given)
    answer.tell(as_json=as_json)
