"""``themis-opt workload``: training iterations of well-known models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.base.errors import InputError
from themis_opt.cli import completion, options

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance
    from themis_opt.workloads.layers import Layer, TrainingModel
    from themis_opt.workloads.timing import Timing

PARALLELISM_NAMES = (
    *("data", "tensor", "hybrid", "splitbrain", "expert", "sequence", "zero1", "fsdp", "hsdp", "daso"),
    *("pipeline", "out-of-core"),
    *("filter", "channel", "spatial", "data+filter", "data+channel", "data+spatial"),
)
"""Those of :data:`themis_opt.workloads.parallelisms.PARALLELISMS`, without loading what makes them."""

ModelName = Annotated[
    str | None, typer.Argument(help="Model, see --list.", metavar="MODEL", autocompletion=completion.models)
]
ListModels = Annotated[bool, typer.Option("--list", help="List the models with parameters and sources.")]
Network = Annotated[
    str | None,
    typer.Option(
        help="Instance file, or shipped instance, whose network to take.", autocompletion=completion.instances
    ),
]
Parallelism = Annotated[
    str,
    typer.Option(
        help=f"{', '.join(PARALLELISM_NAMES)}.", autocompletion=completion.starting_with(lambda: PARALLELISM_NAMES)
    ),
]
Batch = Annotated[int, typer.Option(help="Samples of one step, for each NPU or group that holds a copy of the model.")]
Sequence = Annotated[int | None, typer.Option(help="Tokens of one sample, where the model reads sequences.")]
DType = Annotated[str, typer.Option("--dtype", help="fp16, bf16 or fp32.")]
Flops = Annotated[str, typer.Option(help="Floating-point operations per second of an NPU.")]
Efficiency = Annotated[float, typer.Option(help="Fraction of --flops that is reached.")]
Times = Annotated[
    Path | None, typer.Option("--layer-times", help="JSON file with the times of each layer, instead of --flops.")
]
Template = Annotated[
    bool, typer.Option("--layer-times-template", help="Print such a file for the model, with the times of --flops.")
]
Group = Annotated[int | None, typer.Option(help="NPUs that share a model, or its fully connected layers.")]
Accumulate = Annotated[int, typer.Option(help="Steps of which only the last exchanges gradients.")]
Zero = Annotated[int, typer.Option(help="1: optimizer states are sharded. 2: gradients too. 0: copies.")]
Granularity = Annotated[str, typer.Option(help="Tensors of gradients: fused, layer or parameter.")]
WeightsOnly = Annotated[bool, typer.Option("--weights-only", help="Leave out biases and normalisation.")]
Recompute = Annotated[bool, typer.Option("--recompute", help="Compute activations again in the backward pass.")]
Update = Annotated[str, typer.Option(help="Time of the optimizer, such as '1 ms'.")]
Separate = Annotated[
    bool, typer.Option("--separate", help="Both parts of a split dimension have its bandwidth, instead of sharing it.")
]
Speeds = Annotated[str, typer.Option(help="Speeds of groups of NPUs, such as 1,1,0.5; the slowest counts.")]
Share = Annotated[str, typer.Option(help="equal or proportional: how NPUs of unequal speed share the batch.")]
Compress = Annotated[str, typer.Option(help="Values per value sent, by parallelism, such as data=100,model=20.")]
IndexBytes = Annotated[int, typer.Option(help="Bytes of the place of a value that is sent, where --compress.")]
Refresh = Annotated[str, typer.Option(help="Time to set thresholds, and every how many iterations: '50 ms/1000'.")]
Adaptive = Annotated[float, typer.Option(help="Compression of the slowest dimension; of others as they are slow.")]
Tolerance = Annotated[float, typer.Option(help="Fraction of the bytes between data-parallel NPUs that may be lost.")]
LocalBlocks = Annotated[int, typer.Option(help="Blocks with their own loss: gradients leave in the forward sweep.")]
Stages = Annotated[int | None, typer.Option(help="Stages of a pipeline, along the outermost dimension.")]
Microbatches = Annotated[int, typer.Option(help="Parts of the batch that go through a pipeline one by one.")]
Schedule = Annotated[str, typer.Option(help="gpipe or 1f1b: order of the passes of a stage of a pipeline.")]
Skip = Annotated[int, typer.Option(help="Batches from one exchange between all groups to the next (daso).")]
Wait = Annotated[int, typer.Option(help="Batches that an exchange between all groups may take (daso).")]
Memory = Annotated[str | None, typer.Option(help="Memory of an NPU, such as '16 GB' (out-of-core).")]
HostLink = Annotated[str | None, typer.Option(help="Bandwidth between an NPU and its host (out-of-core).")]
Chunks = Annotated[int, typer.Option(help="Chunks of each collective.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the instance to this file.")]


def workload(
    model: ModelName = None,
    list_models: ListModels = False,
    network: Network = None,
    parallelism: Parallelism = "data",
    batch: Batch = 32,
    sequence: Sequence = None,
    dtype: DType = "fp16",
    flops: Flops = "120 TFLOP/s",
    efficiency: Efficiency = 1.0,
    times: Times = None,
    template: Template = False,
    tensor_group: Group = None,
    accumulate: Accumulate = 1,
    zero: Zero = 0,
    granularity: Granularity = "layer",
    weights_only: WeightsOnly = False,
    recompute: Recompute = False,
    update: Update = "0 s",
    separate: Separate = False,
    speeds: Speeds = "",
    share: Share = "equal",
    compress: Compress = "",
    index_bytes: IndexBytes = 4,
    refresh: Refresh = "0 s",
    adaptive: Adaptive = 1.0,
    tolerance: Tolerance = 0.0,
    local_blocks: LocalBlocks = 1,
    stages: Stages = None,
    microbatches: Microbatches = 1,
    schedule: Schedule = "1f1b",
    skip: Skip = 1,
    wait: Wait = 0,
    memory: Memory = None,
    host_link: HostLink = None,
    chunks: Chunks = 64,
    output: Output = None,
    as_json: options.Json = False,
) -> None:
    """Make a training iteration of a model on a network, and write it as an instance file."""
    if list_models:
        _print_models(as_json)
        return
    if model is None:
        raise InputError("is required, unless --list is given", field="MODEL")
    if template:
        _print_template(model, sequence, weights_only, batch, flops, efficiency)
        return
    if network is None:
        raise InputError("is required, unless --list or --layer-times-template is given", field="--network")
    from pydantic import ValidationError

    from themis_opt.problem.catalog import load
    from themis_opt.problem.cost import check_clock
    from themis_opt.problem.fields import located
    from themis_opt.workloads.choices import read_setup
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.parallelisms import make_workload

    found = find_model(model)
    layers = _layers(found, sequence, weights_only)
    choices: dict[str, Any] = {
        "batch": batch,
        "dtype": dtype,
        "group": tensor_group,
        "accumulate": accumulate,
        "zero": zero,
        "granularity": granularity,
        "recompute": recompute,
        "update": update,
        "separate": separate,
        "speeds": speeds,
        "share": share,
        "compress": compress,
        "index_bytes": index_bytes,
        "refresh": refresh,
        "adaptive": adaptive,
        "tolerance": tolerance,
        "local_blocks": local_blocks,
        "stages": stages,
        "microbatches": microbatches,
        "schedule": schedule,
        "skip": skip,
        "wait": wait,
        "memory": memory,
        "host_link": host_link,
    }
    timing = _timing(flops, efficiency, times, layers)
    try:
        made = read_setup(load(network).network, timing, **choices)
        instance = make_workload(found, layers, made, parallelism=parallelism, chunks=chunks)
        check_clock(instance)
    except ValidationError as error:
        raise located(error).within("command line") from None
    _finish(instance, layers, output, as_json)


def _layers(model: "TrainingModel", sequence: int | None, only_weights: bool) -> tuple["Layer", ...]:
    from themis_opt.workloads.setup import weights_only

    layers = model.layers(sequence)
    return weights_only(layers) if only_weights else layers


def _timing(flops: str, efficiency: float, times: Path | None, layers: tuple["Layer", ...]) -> "Timing":
    from themis_opt.workloads.timing import Rate, parse_rate, read_times

    return Rate(parse_rate(flops), efficiency) if times is None else read_times(times, layers)


def _print_template(
    model: str, sequence: int | None, only_weights: bool, batch: int, flops: str, efficiency: float
) -> None:
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.timing import Rate, parse_rate, times_document

    layers = _layers(find_model(model), sequence, only_weights)
    typer.echo(times_document(layers, Rate(parse_rate(flops), efficiency), batch))


def _finish(instance: "Instance", layers: tuple["Layer", ...], output: Path | None, as_json: bool) -> None:
    """Write the instance if a file is given, and print what it consists of."""
    from themis_opt.base.units import format_short_time
    from themis_opt.cli.printing import print_json, print_table, say, say_all
    from themis_opt.study.verdict import on_step
    from themis_opt.workloads.files import write_instance
    from themis_opt.workloads.summary import workload_summary

    if output is not None:
        write_instance(instance, output)
    summary = workload_summary(instance, layers)
    if as_json:
        print_json(summary)
        return
    say_all(on_step(instance))
    facts = [
        ("parameters", f"{summary['parameters']:,}"),
        ("NPUs", str(summary["npus"])),
        ("steps", str(summary["steps"])),
        ("tasks", str(summary["tasks"])),
        ("compute", format_short_time(instance.compute)),
        ("parameters of one NPU", f"{instance.memory:,} B"),
        ("tensors", str(summary["tensors"])),
    ]
    print_table(instance.name, ("quantity", "value"), facts)
    rows = [(e["kind"], e["parallelism"], str(e["tensors"]), f"{e['bytes']:,}") for e in summary["exchanges"]]
    print_table("exchanges", ("kind", "parallelism", "tensors", "bytes"), rows)
    if output is not None:
        say(f"wrote {output}")


def _print_models(as_json: bool) -> None:
    from themis_opt.cli.printing import print_json, print_rows
    from themis_opt.workloads.summary import model_rows

    rows = model_rows()
    if as_json:
        print_json(rows)
        return
    words = [
        {"parameters": f"{r['parameters']:,}", "gmacs": f"{r['gmacs']:.3f}", "tokens": r["tokens"] or "-"} for r in rows
    ]
    titles = {"parameters": "parameters", "gmacs": "GMAC/sample", "tokens": "tokens", "source": "source"}
    print_rows(
        "models",
        [row | more for row, more in zip(rows, words, strict=True)],
        {name: (title, "text") for name, title in ({"model": "model", "layers": "layers"} | titles).items()},
    )
