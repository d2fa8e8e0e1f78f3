"""``themis-opt sweep``: policies over message sizes, chunk counts and figures of dimensions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance


V100 = options.Training(dtype="fp32", flops="15.7 TFLOP/s", efficiency=0.6)
"""The NPU of which Zhang et al. (NetAI 2020) measured how training scales."""


@options.grouped
def sweep(
    source: options.InstanceArgument,
    *,
    trained_on: Annotated[
        str | None,
        Option("--network", help="Sweep the training of a model, which stands in the place of the instance, on it."),
    ] = None,
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
    target: Annotated[
        float | None, Option(help="Of iterations, the scaling factor for which the least compression is looked for.")
    ] = None,
    measured: Annotated[
        str | None,
        Option(
            help="Of iterations, the time or scaling factor that was measured, such as '190 ms' or '60 %', for which "
            "the use of the network is looked for; several by NPUs, such as 8=1.2s,64=1.5s, fit it to the first one."
        ),
    ] = None,
    overhead: Annotated[
        float, Option(help="Of iterations, work that is not divided, over work that is (Amdahl).")
    ] = 0.0,
    training: options.Training = V100,
    changes: options.Changes,
    network: options.NetworkChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for sweep.csv and pictures over what varies first.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run policies over message sizes, chunk counts, or bandwidth, latency, launches and NPUs of a dimension.

    Of training iterations, say how far they scale, and with --target how much compression they need.
    """
    if trained_on is None:
        problem = options.load_problem(source, changes, network, policies)
    else:
        problem = _trained(source, options.load_instance(trained_on), training, changes.chunks or 4)
    given: dict[str, Any] = {
        "policies": policies,
        "sizes": sizes,
        "output": output,
        "target": target,
        "measured": measured,
    }
    given |= {"overhead": overhead, **network.given()}
    ask("sweep", problem, problem, over, **given).tell(as_json=as_json)


def _trained(model: str, instance: "Instance", training: options.Training, chunks: int) -> "Instance":
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.parallelisms import make_workload
    from themis_opt.workloads.setup import Setup, element_bytes

    trained, size = find_model(model), element_bytes(training.dtype)
    setup = Setup(network=instance.network, timing=training.rate(), batch=training.batch, element_bytes=size)
    return make_workload(trained, trained.layers(training.sequence), setup, chunks=chunks)
