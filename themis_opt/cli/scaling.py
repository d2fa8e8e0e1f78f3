"""``themis-opt scaling``: whether the network is the bottleneck of training a model."""

import math
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import completion, options

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance
    from themis_opt.workloads.layers import TrainingModel

POLICY = "horovod/hourglass"  # what trains by default: the paper measured Horovod


V100 = options.Training(dtype="fp32", flops="15.7 TFLOP/s", efficiency=0.6)  # the NPU that the paper measured


@options.grouped
def scaling(
    model: Annotated[
        str, Argument(help="Model, see workload --list.", metavar="MODEL", autocompletion=completion.models)
    ],
    *,
    network: Annotated[
        str,
        Option(help="Instance file, or shipped instance, whose network to take.", autocompletion=completion.instances),
    ],
    npus: Annotated[str, Option(help="Numbers of NPUs, with commas between.")] = "1,8,16,32,64",
    utilisation: Annotated[str, Option(help="Shares of every bandwidth that are used.")] = "1",
    compress: Annotated[str, Option(help="Bytes over those on the wire.")] = "1",
    policy: Annotated[str, Option(help="Launching and chunk policy.")] = POLICY,
    target: Annotated[float, Option(help="Scaling factor for which the least compression is looked for.")] = 0.95,
    training: options.Training = V100,
    overhead: Annotated[float, Option(help="Work that is not divided, over work that is (Amdahl).")] = 0.0,
    chunks: Annotated[int, Option(help="Chunks of each collective.")] = 4,
    as_json: options.Json = False,
) -> None:
    """Say how far data-parallel training of a model scales, and how much compression it needs."""
    counts = [int(number) for number in _numbers("--npus", npus)]
    shares, ratios = _numbers("--utilisation", utilisation), _numbers("--compress", compress)

    from themis_opt.cli.printing import print_json, print_rows
    from themis_opt.policies.registry import specify
    from themis_opt.study.scaling import least_compression
    from themis_opt.study.scaling import scaling as scale
    from themis_opt.workloads.models import find_model

    trained = find_model(model)
    instance = _trained(trained, network, training, chunks)
    policy, most = specify(policy, instance), max(counts)
    rows = scale(instance, policy, npus=counts, utilisations=shares, compressions=ratios, overhead=overhead)
    needed: list[dict[str, Any]] = [
        {
            "npus": most,
            "utilisation": share,
            "target": target,
            "least_compression": least_compression(instance, policy, npus=most, utilisation=share, target=target),
        }
        for share in (shares if most > 1 else [])
    ]
    if as_json:
        print_json({"model": trained.title, "policy": policy, "scaling": rows, "least_compression": needed})
        return
    print_rows(f"{trained.title} on {instance.network.name or network}, {policy}", rows, SCALING_COLUMNS)
    words = [row | {"least_compression": _in_words(row["least_compression"])} for row in needed]
    if words:
        print_rows(f"least compression for a scaling factor of {target:g}", words, NEEDED)


def _trained(model: "TrainingModel", network: str, training: options.Training, chunks: int) -> "Instance":
    from themis_opt.formats.readers.registry import load
    from themis_opt.workloads.parallelisms import make_workload
    from themis_opt.workloads.setup import Setup, element_bytes

    setup = Setup(
        network=load(network).network,
        timing=training.rate(),
        batch=training.batch,
        element_bytes=element_bytes(training.dtype),
    )
    return make_workload(model, model.layers(training.sequence), setup, chunks=chunks)


SCALING_COLUMNS: "ShownColumns" = {
    "npus": ("NPUs", "count"),
    "utilisation": ("utilisation", "share"),
    "compression": ("compression", "ratio"),
    "iteration_ns": ("iteration", "time"),
    "exposed_ns": ("exposed", "time"),
    "scaling_factor": ("scaling factor", "share"),
    "gap": ("gap", "share"),
    "amdahl": ("Amdahl", "share"),
    "parameter_servers": ("parameter servers", "count"),
}

NEEDED: "ShownColumns" = {
    "npus": ("NPUs", "count"),
    "utilisation": ("utilisation", "share"),
    "least_compression": ("compression", "text"),
}


def _numbers(field: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError("must be numbers with commas between", field=field, value=text) from None
    if not all(map(math.isfinite, numbers)):
        raise InputError("must be finite", field=field, value=text)
    if field == "--npus" and any(number != int(number) or number < 1 for number in numbers):
        raise InputError("must be whole numbers of at least 1", field=field, value=text)
    return numbers


def _in_words(ratio: float | None) -> str:
    return "none reaches it" if ratio is None else f"{ratio:.4g}x"
