"""``themis-opt calibrate``: the costs of a network, measured where it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.cli import options, ranks

if TYPE_CHECKING:
    from themis_opt.runtime.calibration import NetworkCalibration


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
