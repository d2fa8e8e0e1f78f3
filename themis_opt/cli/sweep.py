"""``themis-opt sweep``: policies over message sizes, chunk counts and figures of dimensions."""

from pathlib import Path
from typing import Annotated

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


@options.grouped
def sweep(
    source: options.InstanceArgument,
    *,
    over: Annotated[
        list[str] | None,
        Option(
            help="What to vary, once for each: size=64KiB..1GiB:4, chunks=8,16,32, or npus, share (of every bandwidth) "
            "or compression of the network, such as npus=8,64, or bandwidth, latency, "
            "launch_overhead or size (NPUs) of a dimension, such as dim1.bandwidth=100GB/s,200GB/s, "
            "or of one of its rails, such as server.NIC.bandwidth=25GB/s..100GB/s. Of a graph: size, or the bandwidth "
            "of a link, such as nic0.bandwidth=25GB/s,50GB/s."
        ),
    ] = None,
    changes: options.InstanceChanges,
    network: options.NetworkChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for sweep.csv and pictures over what varies first.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run policies over message sizes, chunk counts, or bandwidth, latency, launches and NPUs of a dimension."""
    problem = options.load_problem(source, changes, network, policies)
    given = {"policies": policies, "output": output, **network.given()} | ({} if sizes == "equal" else {"sizes": sizes})
    ask("sweep", problem, problem, over, **given).tell(as_json=as_json)
