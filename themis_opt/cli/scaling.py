"""``themis-opt scaling``: whether the network is the bottleneck of training a model."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.base.errors import InputError
from themis_opt.cli import completion, options

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance
    from themis_opt.problem.network import Network
    from themis_opt.study.columns import Form

POLICY = "horovod/hourglass"
"""What trains by default: the paper measured Horovod."""


V100 = options.Training(dtype="fp32", flops="15.7 TFLOP/s", efficiency=0.6)
"""The NPU that the paper measured."""


@options.grouped
def scaling(
    model: Annotated[
        str,
        typer.Argument(help="Model, see workload --list.", metavar="MODEL", autocompletion=completion.models),
    ],
    *,
    network: Annotated[
        str,
        typer.Option(
            help="Instance file, or shipped instance, whose network to take.", autocompletion=completion.instances
        ),
    ],
    npus: Annotated[str, typer.Option(help="Numbers of NPUs, with commas between.")] = "1,8,16,32,64",
    utilisation: Annotated[str, typer.Option(help="Shares of every bandwidth that are used.")] = "1",
    compress: Annotated[str, typer.Option(help="Bytes over those on the wire.")] = "1",
    policy: Annotated[str, typer.Option(help="Launching and chunk policy.")] = POLICY,
    target: Annotated[float, typer.Option(help="Scaling factor for which the least compression is looked for.")] = 0.95,
    training: options.Training = V100,
    overhead: Annotated[float, typer.Option(help="Work that is not divided, over work that is (Amdahl).")] = 0.0,
    chunks: Annotated[int, typer.Option(help="Chunks of each collective.")] = 4,
    as_json: options.Json = False,
) -> None:
    """Say how far data-parallel training of a model scales, and how much compression it needs."""
    counts = [int(number) for number in _numbers("--npus", npus)]
    shares, ratios = _numbers("--utilisation", utilisation), _numbers("--compress", compress)
    if overhead < 0:
        raise InputError("must be 0 or more", field="--overhead", value=overhead)

    from themis_opt.cli.printing import print_json, print_rows
    from themis_opt.policies.registry import make_policy, specify
    from themis_opt.problem.catalog import load
    from themis_opt.study.scaling import efficiency as of_amdahl
    from themis_opt.study.scaling import least_compression, parameter_servers
    from themis_opt.study.scaling import scaling as measure
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.parallelisms import make_workload
    from themis_opt.workloads.setup import Setup, element_bytes

    found, timing, width = find_model(model), training.rate(), element_bytes(training.dtype)
    layers = found.layers(training.sequence)

    def make(own: "Network") -> "Instance":
        setup = Setup(network=own, timing=timing, batch=training.batch, element_bytes=width)
        return make_workload(found, layers, setup, chunks=chunks)

    def planned(instance: "Instance") -> Any:
        return make_policy(specify(policy, instance))

    whole = load(network).network
    every: dict[str, Any] = {"npus": counts, "utilisations": shares, "compressions": ratios}
    measured = measure(make, whole, planned, **every)
    most, fastest = max(counts), max(own.bandwidth for own in whole.dimensions[-1:])
    size = width * sum(layer.elements() for layer in layers)
    rows = [
        own.row()
        | {
            "amdahl": of_amdahl(overhead, own.npus),
            "parameter_servers": parameter_servers(size, own.npus, fastest * own.utilisation, own.compute),
        }
        for own in measured
    ]
    needed = [
        {
            "npus": most,
            "utilisation": share,
            "target": target,
            "least_compression": least_compression(make, whole, planned, npus=most, utilisation=share, target=target),
        }
        for share in (shares if most > 1 else [])
    ]
    if as_json:
        print_json({"model": found.title, "policy": policy, "scaling": rows, "least_compression": needed})
        return
    print_rows(f"{found.title} on {whole.name or network}, {policy}", rows, SHOWN)
    words = [own | {"least_compression": _in_words(own["least_compression"])} for own in needed]
    if words:
        print_rows(f"least compression for a scaling factor of {target:g}", words, NEEDED)


SHOWN: "dict[str, tuple[str, Form]]" = {
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
"""Title and form of what the table shows."""

NEEDED: "dict[str, tuple[str, Form]]" = {
    "npus": ("NPUs", "count"),
    "utilisation": ("utilisation", "share"),
    "least_compression": ("compression", "text"),
}


def _numbers(field: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError("must be numbers with commas between", field=field, value=text) from None
    if field == "--npus" and any(number != int(number) or number < 1 for number in numbers):
        raise InputError("must be whole numbers of at least 1", field=field, value=text)
    return numbers


def _in_words(ratio: float | None) -> str:
    return "none reaches it" if ratio is None else f"{ratio:.4g}x"
