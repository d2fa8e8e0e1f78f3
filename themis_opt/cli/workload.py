"""``themis-opt workload``: training iterations of well-known models."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import completion, options
from themis_opt.cli.answers.answer import Listing, Reply, columns
from themis_opt.cli.options import OptionGroup

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance
    from themis_opt.workloads.layers import Layer

PARALLELISM_NAMES = (
    *("data", "tensor", "hybrid", "splitbrain", "expert", "sequence", "zero1", "fsdp", "hsdp", "daso"),
    *("pipeline", "out-of-core"),
    *("filter", "channel", "spatial", "data+filter", "data+channel", "data+spatial"),
)
"""Those of :data:`themis_opt.workloads.parallelisms.PARALLELISMS`, without loading what makes them."""


@dataclass(frozen=True)
class Choices(OptionGroup):
    """What is divided among NPUs, and what is exchanged."""

    tensor_group: Annotated[
        int | None, Option("--tensor-group", "--tp", help="NPUs that share a model, or its fully connected layers.")
    ] = None
    accumulate: Annotated[int, Option(help="Steps of which only the last exchanges gradients.")] = 1
    zero: Annotated[
        int,
        Option(help="1: optimizer states are sharded. 2: gradients too. 3: parameters too, in pipelines. 0: copies."),
    ] = 0
    gathers: Annotated[
        str, Option(help="microbatch or step: how often sharded parameters are gathered (fsdp, hsdp, --zero 3).")
    ] = "microbatch"
    granularity: Annotated[str, Option(help="Tensors of gradients: fused, layer or parameter.")] = "layer"
    weights_only: Annotated[bool, Option("--weights-only", help="Leave out biases and normalisation.")] = False
    recompute: Annotated[
        str, Option(help="Compute activations again in the backward pass: full, or selective for cheap operations.")
    ] = ""
    update: Annotated[str, Option(help="Time of the optimizer, such as '1 ms'.")] = "0 s"
    speeds: Annotated[str, Option(help="Speeds of groups of NPUs, such as 1,1,0.5; the slowest counts.")] = ""
    share: Annotated[str, Option(help="equal or proportional: how NPUs of unequal speed share the batch.")] = "equal"
    compress: Annotated[str, Option(help="Values per value sent, by parallelism, such as data=100,model=20.")] = ""
    index_bytes: Annotated[int, Option(help="Bytes of the place of a value that is sent, where --compress.")] = 4
    refresh: Annotated[str, Option(help="Time to set thresholds, and every how many iterations: '50 ms/1000'.")] = "0 s"
    adaptive: Annotated[float, Option(help="Compression of the slowest dimension; of others as they are slow.")] = 1.0
    tolerance: Annotated[float, Option(help="Fraction of the bytes between data-parallel NPUs that may be lost.")] = 0.0
    local_blocks: Annotated[int, Option(help="Blocks with a separate loss: gradients leave in the forward sweep.")] = 1
    experts: Annotated[int | None, Option("--experts", "--ep", help="NPUs that share the experts of a layer.")] = None
    data: Annotated[
        int | None, Option("--data", "--dp", help="Copies of what is no expert; as many as there can be by default.")
    ] = None
    context: Annotated[
        int | None, Option("--context", "--cp", help="NPUs that divide each sequence, attention included.")
    ] = None
    stages: Annotated[
        int | None, Option("--stages", "--pp", help="Stages of a pipeline, outside of tensor groups and copies.")
    ] = None
    layers_per_stage: Annotated[
        str | None,
        Option(help="Blocks of each stage, such as 15,16,16,15, or best: with the order; by default of equal time."),
    ] = None
    virtual_stages: Annotated[
        int, Option(help="Parts of the model on each stage, which microbatches pass in turn.")
    ] = 1
    microbatches: Annotated[int, Option(help="Parts of the batch that go through a pipeline one by one.")] = 1
    schedule: Annotated[
        str, Option(help="gpipe, 1f1b, v or dualpipe: order of the passes of a stage of a pipeline.")
    ] = "1f1b"
    skip: Annotated[int, Option(help="Batches from one exchange between all groups to the next (daso).")] = 1
    wait: Annotated[int, Option(help="Batches that an exchange between all groups may take (daso).")] = 0
    device: Annotated[
        str, Option(help="Accelerator, whose memory and peak rate count; its memory also where it names the network.")
    ] = ""
    memory: Annotated[str | None, Option(help="Memory of an NPU, such as '16 GB', which training must fit.")] = None
    host_link: Annotated[str | None, Option(help="Bandwidth between an NPU and its host (out-of-core, pipeline).")] = (
        None
    )

    def by_name(self) -> dict[str, Any]:
        """The choices as :func:`themis_opt.workload` takes them."""
        choices = asdict(self)
        choices["recompute"] = {"": False, "full": True}.get(self.recompute, self.recompute)
        return {"group": choices.pop("tensor_group"), **choices}


@options.grouped
def workload(
    model: Annotated[
        str | None, Argument(help="Model, see --list.", metavar="MODEL", autocompletion=completion.models)
    ] = None,
    *,
    list_models: Annotated[bool, Option("--list", help="List the models with parameters and sources.")] = False,
    network: Annotated[
        str | None,
        Option(help="Instance file, or shipped instance, whose network to take.", autocompletion=completion.instances),
    ] = None,
    parallelism: Annotated[
        str | None,
        Option(
            help=f"{', '.join(PARALLELISM_NAMES)}; by default data, or what --stages, --experts and --data ask for.",
            autocompletion=completion.starting_with(lambda: PARALLELISM_NAMES),
        ),
    ] = None,
    training: options.Training,
    times: Annotated[
        Path | None, Option("--layer-times", help="JSON file with the times of each layer, instead of --flops.")
    ] = None,
    template: Annotated[
        bool, Option("--layer-times-template", help="Print such a file for the model, with the times of --flops.")
    ] = False,
    choices: Choices,
    chunks: Annotated[
        int | None, Option(help="Chunks of each collective: 64 by default, 4 where latency occupies.")
    ] = None,
    latency: Annotated[
        str | None,
        Option(help="lag or occupy: by default start-ups occupy on known devices, else as the network's file says."),
    ] = None,
    output: Annotated[Path | None, options.output("Write the instance to this file.")] = None,
    pipeline: Annotated[
        Path | None, Option("--pipeline", help="With --stages: write the order of microbatches as a problem for solve.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make a training iteration of a model on a network, and write it as an instance file."""
    if list_models:
        _print_models(as_json)
        return
    if model is None:
        raise InputError("is required, unless --list is given", field="MODEL")
    from themis_opt.families.calls import layers_of, make_workload
    from themis_opt.workloads.timing import times_document

    if template:
        layers = layers_of(model, training.sequence, weights_only=choices.weights_only)
        typer.echo(times_document(layers, training.rate(), training.batch))
        return
    if network is None:
        raise InputError("is required, unless --list or --layer-times-template is given", field="--network")
    from themis_opt.base.units import format_short_time
    from themis_opt.cli.printing import say
    from themis_opt.families.door import save
    from themis_opt.study.verdict import on_step

    training.rate()  # warns of a figure without a unit
    given: dict[str, Any] = {"layer_times": times, **asdict(training), **choices.by_name()}
    made = make_workload(model, network, parallelism=parallelism, chunks=chunks, latency=latency, **given)
    if pipeline is not None:
        save(made.pipeline(model), pipeline)
    instance = cast("Instance", made.problem)
    if output is not None:
        save(instance, output)
    summary = _summary(instance, made.layers) | {"memory": made.held, "assumed": list(made.notes)}
    facts = {
        "parameters": f"{summary['parameters']:,}",
        **{name: str(summary[name.lower()]) for name in ("NPUs", "steps", "tasks")},
        "compute": format_short_time(instance.compute),
        "start-up latency": "occupies its dimension" if instance.latency == "occupy" else "lags",
        "parameters of one NPU": f"{instance.parameter_bytes:,} B",
        "tensors": str(summary["tensors"]),
    }
    exchanges = [row | {"bytes": f"{row['bytes']:,}"} for row in summary["exchanges"]]
    tables = [
        Listing.of_texts(instance.name, [{"quantity": name, "value": value} for name, value in facts.items()]),
        Listing.of_texts("memory of one NPU", [row | {"bytes": f"{row['bytes']:,}"} for row in made.held]),
        Listing("exchanges", exchanges, columns("kind", "parallelism", "tensors", "bytes")),
    ]
    Reply(summary, (*on_step(instance), *made.notes), tables).tell(as_json=as_json)
    if output is not None and not as_json:
        say(f"wrote {output}")


def _summary(instance: "Instance", layers: "tuple[Layer, ...]") -> dict[str, Any]:
    """Tasks, compute, memory, and bytes by kind of collective and by parallelism, as plain values."""
    from themis_opt.base.units import nanoseconds
    from themis_opt.workloads.layers import count

    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for tensor in instance.exchanges:
        groups[tensor.kind.value, tensor.parallelism].append(tensor.size)
    return {
        "name": instance.name,
        "npus": instance.network.num_npus,
        "parameters": count(layers),
        "steps": instance.iteration.steps if instance.iteration else 1,
        "tasks": len(instance.tasks),
        "compute_ns": nanoseconds(instance.compute),
        "memory_bytes": instance.parameter_bytes,
        "tensors": len(instance.exchanges),
        "exchanges": [
            {"kind": kind, "parallelism": parallelism, "tensors": len(sizes), "bytes": sum(sizes)}
            for (kind, parallelism), sizes in sorted(groups.items())
        ],
        "fingerprint": instance.fingerprint,
    }


def _print_models(as_json: bool) -> None:
    from themis_opt.workloads.models import model_rows

    rows = model_rows()
    words = [
        row | {"parameters": f"{row['parameters']:,}", "gmacs": f"{row['gmacs']:.3f}", "tokens": row["tokens"] or "-"}
        for row in rows
    ]
    names = ("model", "layers", "parameters", "gmacs", "tokens", "source")
    table = Listing("models", words, columns(*names, gmacs=("GMAC/sample", "text")))
    Reply(rows, tables=[table]).tell(as_json=as_json)
