"""Filters, channels and rows on different NPUs: closed forms on one ring, and the rules everywhere."""

from dataclasses import replace
from typing import Any

import pytest
from small_iterations import run

from themis_opt.base.errors import InputError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

SIZE, BANDWIDTH, LATENCY, BATCH, BYTES = 2, 10**10, 10**6, 4, 4
RING = Network(dimensions=(Dimension(kind="ring", size=SIZE, bandwidth=BANDWIDTH, latency="1 us"),))
TWO = Network(
    dimensions=(
        Dimension(kind="ring", size=2, bandwidth="10 GB/s", latency="1 us", name="node"),
        Dimension(kind="ring", size=4, bandwidth="1 GB/s", latency="5 us", name="rail"),
    )
)
SETUP = Setup(network=RING, timing=Rate(10**13), batch=BATCH, element_bytes=BYTES)
CNNS = ("vgg-16-cifar", "vgg-16", "resnet-50", "resnet-152")


def make(parallelism: str, model: str = "vgg-16-cifar", **choices: Any) -> Instance:
    setup = replace(SETUP, **choices)
    return make_workload(MODELS[model], MODELS[model].layers(), setup, parallelism=parallelism, chunks=1)


FUSED = "fused/baseline+fifo"


def passes(elements: int, count: int) -> float:
    """Picoseconds of some passes of the ring with elements of the whole batch or of a model."""
    return count * (SIZE - 1) * (LATENCY + elements / SIZE * BYTES / BANDWIDTH * 1e12)


@pytest.mark.parametrize("model", CNNS)
def test_filters_and_channels_take_the_time_of_the_closed_form(model: str) -> None:
    """Alpha-beta times of ParaDL: one pass of a ring for an all-gather, two for an all-reduce, at every boundary."""
    layers = MODELS[model].layers()
    outputs = [BATCH * layer.outputs for layer in layers[:-1]]
    inputs = [BATCH * layer.inputs for layer in layers[1:]]
    for parallelism, forward, backward in (("filter", 1, 2), ("channel", 2, 1)):
        instance = make(parallelism, model)
        expected = sum(passes(size, forward) for size in outputs) + sum(passes(size, backward) for size in inputs)
        assert run(instance, FUSED).makespan == pytest.approx(instance.compute + expected, rel=1e-6)


@pytest.mark.parametrize("model", CNNS)
def test_data_parallelism_takes_the_time_of_the_closed_form(model: str) -> None:
    instance = make("data", model, granularity="fused")
    weights = sum(layer.elements() for layer in MODELS[model].layers())
    assert run(instance, FUSED).makespan == pytest.approx(instance.compute + passes(weights, 2), rel=1e-6)


@pytest.mark.parametrize("model", CNNS)
def test_rows_take_the_time_of_the_closed_form(model: str) -> None:
    """Two messages at every convolution and in each direction, the change to whole samples, and all gradients."""
    instance = make("spatial", model, granularity="fused")
    layers = MODELS[model].layers()
    latency, byte = LATENCY, BYTES / BANDWIDTH * 1e12
    borders = [layer.halos[0] for layer in layers[1:]] + [layer.halos[1] for layer in layers]
    messages = sum(latency + 2 * BATCH * border * byte for border in borders if border)  # both leave by one port
    first = next(layer for layer in layers if not layer.rows)
    change = 2 * (latency + BATCH * first.inputs / SIZE / SIZE * byte)
    gradients = passes(sum(layer.elements() for layer in layers), 2)
    assert run(instance, FUSED).makespan == pytest.approx(instance.compute + messages + change + gradients, rel=1e-5)


def test_halo_is_the_rows_that_a_kernel_reaches_over() -> None:
    layers = {layer.name: layer for layer in MODELS["resnet-50"].layers()}
    assert layers["conv1"].halos == (3 * 224 * 3, 3 * 112 * 64)
    assert layers["layer1.0.conv1"].halos == (0, 0)
    assert layers["layer1.0.conv2"].halos == (56 * 64, 56 * 64)


def test_copies_exchange_gradients_of_their_parts_across_groups() -> None:
    instance = make("data+filter", network=TWO)
    gradients = [exchange for exchange in instance.exchanges if exchange.parallelism == "data"]
    assert {exchange.span for exchange in gradients} == {(1,)}
    whole = sum(layer.elements() for layer in MODELS["vgg-16-cifar"].layers())
    assert sum(exchange.size for exchange in gradients) == pytest.approx(BYTES * whole / 2, rel=1e-5)


def test_compute_is_shared_by_the_group() -> None:
    assert make("filter").compute == pytest.approx(make("data").compute / SIZE, rel=1e-6)


@pytest.mark.parametrize(
    ("parallelism", "model", "choices", "words"),
    [
        ("filter", "bert-base", {}, "convolutions"),
        ("spatial", "gnmt", {}, "convolutions"),
        ("spatial", "vgg-16-cifar", {"network": TWO}, "2 rows among 8"),
        ("data+filter", "vgg-16-cifar", {}, "--tensor-group = 2.*copies"),
        ("filter", "vgg-16-cifar", {"group": 2}, "--tensor-group = 2: is not for filter"),
    ],
)
def test_choices_that_do_not_fit_are_refused(parallelism: str, model: str, choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(parallelism, model, **choices)
