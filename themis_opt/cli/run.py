"""``themis-opt run`` and ``calibrate``: real processes beside what the model says, and costs of a network from them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options, ranks
from themis_opt.cli.answers.answer import ask

if TYPE_CHECKING:
    from themis_opt.runtime.calibration import NetworkCalibration

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
    given: dict[str, Any] = {"sizes": sizes, "dtype": dtype, "reduction": reduction, "in_flight": in_flight}
    given |= {"iterations": iterations, "transport": transport, "output": output, "local": local, "pace": pace}
    if "schedule" in format_in(path):
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


@options.grouped
def calibrate(
    source: options.InstanceArgument,
    *,
    local: ranks.Local = None,
    pace: ranks.Pace = None,
    repeat: Annotated[int, Option(help="Runs of each measurement.", min=1)] = 5,
    transport: ranks.Transport = "tcp",
    changes: options.Changes,
    start: ranks.Start,
    output: Annotated[Path, options.output("Write the calibrated instance to this file.")] = Path("calibrated.json"),
    as_json: options.Json = False,
) -> None:
    """Measure bandwidth, launch overhead, latency and sums of each dimension at the sizes of a schedule's stages.

    Writes the instance with what was measured.
    """
    from themis_opt.runtime.local_network import on_network

    instance = options.load_instance(source, changes)
    counted = on_network(instance, local, pace).fabric.num_npus

    from themis_opt.cli.answers.answer import Listing, Reply
    from themis_opt.families.calls import calibrate as measure
    from themis_opt.families.door import save

    with ranks.ranks(counted, transport, start) as coordinator, ranks.run_progress() as progress:
        given: dict[str, Any] = {"coordinator": coordinator, "progress": progress}
        done = measure(instance, local=local, pace=pace, repeat=repeat, **given)
    save(done.instance, output)
    table = Listing.of_texts("measured", _in_words(done))
    Reply(done.rows(), tables=[table], files=[output]).tell(as_json=as_json)


def _in_words(done: "NetworkCalibration") -> list[dict[str, str]]:
    from themis_opt.base.units import format_link, format_percent, format_short_time

    return [
        {
            "dimension": row["dimension"],
            "bandwidth": format_link(row["bandwidth"]),
            "launch": format_short_time(row["launch_overhead_ns"] * 1000),
            "latency": format_short_time(row["latency_ns"] * 1000),
            "sums at": "-" if row["reduction"] is None else format_link(row["reduction"]),
            "median residual": format_percent(row["median_residual"]),
            "largest": format_percent(row["largest_residual"]),
        }
        for row in done.rows()
    ]
