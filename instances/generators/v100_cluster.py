"""Data-parallel training on 256 GPUs, of which communication and compute take about equally long; pipelines on 64.

The cluster follows the evaluation of PyTorch DistributedDataParallel (S. Li et al.,
https://arxiv.org/abs/2006.15704): servers with 8 V100 and one adapter of 100 Gb/s.  Batches are small, so that overlap
matters.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

_DDP = "https://arxiv.org/abs/2006.15704"
_VOLTA = "https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
_LATENCY = (
    "latency: NCCL tuning constant per {} step, ring, LL128 "
    "(https://github.com/NVIDIA/nccl/blob/b6475625fbcaa2c3c0e50eed2fa1255d7514d4a2/src/graph/tuning.cc)"
)

NAME = "v100-256"

RATE = Rate(15_700_000_000_000, 0.6)
"""FP32 peak of a V100 (white paper, table 1); that 60 % of it are reached is an assumption."""


class Training(NamedTuple):
    """A model, its batch on each GPU, and the length of its sequences."""

    model: str
    batch: int
    sequence: int | None = None


TRAININGS: Mapping[str, Training] = MappingProxyType(
    {"resnet-50": Training("resnet-50", 8), "bert-large": Training("bert-large", 8, 128)}
)


PIPELINES: Mapping[str, Training] = MappingProxyType(
    {"bert-large": Training("bert-large", 16, 128), "vgg-16": Training("vgg-16", 32)}
)
"""On 8 servers: four stages of two servers each, whose copies exchange gradients by the adapters that messages take."""

PIPELINE_SERVERS, STAGES, MICROBATCHES = 8, 4, 4


def v100_network(servers: int = 32) -> Network:
    """Servers of 8 GPUs; the adapter of a server is shared equally by its GPUs."""
    inside = Dimension(
        name="nvlink",
        kind=Kind.RING,
        size=8,
        bandwidth="150 GB/s",
        latency="1900 ns",
        source=f"bandwidth: 6 NVLinks of 25 GB/s in each direction, size: 8 GPUs in a hybrid cube mesh ({_VOLTA}); "
        + _LATENCY.format("NVLink"),
    )
    outside = Dimension(
        name="ethernet",
        kind=Kind.SWITCH,
        size=servers,
        bandwidth="12.5 Gb/s",
        latency="4000 ns",
        source=f"bandwidth: one adapter of 100 Gb/s for 8 GPUs, size: {servers} servers, both assumptions after {_DDP}"
        + "; "
        + _LATENCY.format("network"),
    )
    return Network(name=f"V100-{8 * servers}", dimensions=(inside, outside), source=f"after the evaluation in {_DDP}")


def v100_iteration(name: str) -> Instance:
    """A training of :data:`TRAININGS`: gradients in FP32, one tensor for each layer."""
    training = TRAININGS[name]
    model = MODELS[training.model]
    setup = Setup(network=v100_network(), timing=RATE, batch=training.batch, element_bytes=4)
    instance = make_workload(model, model.layers(training.sequence), setup, chunks=4)
    length = f" of {training.sequence} tokens" if training.sequence else ""
    description = (
        f"Layers: {model.source}. FP32, {training.batch} samples{length} on each GPU, times from operations at 60 % of "
        "15.7 TFLOP/s (an assumption), so that communication and compute are of comparable length."
    )
    return instance.model_copy(update={"name": f"V100-256 {model.title}", "description": description})


def v100_pipeline(name: str) -> Instance:
    """A pipeline of :data:`PIPELINES`: one tensor of gradients for each stage, in few chunks, for the reference."""
    training = PIPELINES[name]
    model, network = MODELS[training.model], v100_network(PIPELINE_SERVERS)
    setup = Setup(
        network=network,
        timing=RATE,
        batch=training.batch,
        element_bytes=4,
        granularity="fused",
        stages=STAGES,
        microbatches=MICROBATCHES,
    )
    layers = model.layers(training.sequence)
    instance = make_workload(model, layers, setup, parallelism="pipeline", chunks=2)
    length = f" of {training.sequence} tokens" if training.sequence else ""
    description = (
        f"Layers: {model.source}. FP32, {STAGES} stages, 1F1B, {MICROBATCHES} microbatches of "
        f"{training.batch // MICROBATCHES} samples{length}, times from operations at 60 % of 15.7 TFLOP/s (an "
        "assumption). Messages between stages and gradients between copies of a stage share the adapters."
    )
    return instance.model_copy(update={"name": f"{network.name} {model.title} pipeline", "description": description})
