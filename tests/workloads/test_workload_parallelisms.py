"""Data, tensor and hybrid parallelism: what is exchanged, when, and between whom."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.layers import count
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup, element_bytes
from themis_opt.workloads.timing import Rate

SETUP = Setup(network=load("3d-sw_sw_sw_hetero.all_reduce.100MiB").network, timing=Rate(10**14))
BLOCKS = 12  # transformer layers of BERT-base


def make(model: str, parallelism: str = "data", **choices: Any) -> Instance:
    layers = MODELS[model].layers()
    return make_workload(MODELS[model], layers, replace(SETUP, **choices), parallelism=parallelism, chunks=2)


def kinds(instance: Instance) -> Counter[tuple[str, str]]:
    return Counter((t.kind.value, t.parallelism) for t in instance.exchanges)


def test_data_parallel_gradients_come_after_their_layer_and_are_needed_before_it() -> None:
    tensors = {t.name: t for t in make("resnet-50").iteration.tensors}
    tensor = tensors["layer1.0.conv2.gradients"]
    assert (tensor.ready_after, tensor.needed_before) == ("layer1.0.conv2.weight_gradient", "layer1.0.conv2.forward")


@pytest.mark.parametrize("granularity", ["fused", "layer", "parameter"])
def test_granularity_keeps_the_bytes(granularity: str) -> None:
    instance = make("resnet-50", granularity=granularity)
    assert sum(t.size for t in instance.exchanges) == 2 * count(MODELS["resnet-50"].layers())


def test_compute_of_a_network_is_three_forward_passes_but_for_its_first_layer() -> None:
    layers = MODELS["resnet-50"].layers()
    flops = 3 * sum(layer.flops for layer in layers) - layers[0].flops
    assert make("resnet-50").compute == pytest.approx(32 * flops / 1e14 * 1e12, abs=len(layers) * 2)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_memory_is_the_parameters_of_one_npu(dtype: str) -> None:
    size = element_bytes(dtype)
    assert make("bert-large", element_bytes=size).parameter_bytes == size * 335_141_888


def test_accumulation_repeats_the_passes_and_exchanges_gradients_once() -> None:
    once, often = make("resnet-50"), make("resnet-50", accumulate=4)
    assert often.iteration.steps == 4
    assert often.compute == 4 * once.compute
    assert [t.size for t in often.iteration.tensors] == [t.size for t in once.iteration.tensors]
    assert often.parameter_bytes == once.parameter_bytes


def test_accumulated_gradients_come_from_the_last_step_and_are_needed_in_the_first() -> None:
    tensor = make("resnet-50", accumulate=4).iteration.tensors[0]
    assert (tensor.ready_after, tensor.needed_before) == ("step4/fc.weight_gradient", "step1/fc.forward")


def test_update_waits_for_all_gradients_and_comes_first() -> None:
    instance = make("resnet-50", update=10**9)
    assert instance.tasks[0].name == "update"
    assert {exchange.needed_task for exchange in instance.exchanges} == {0}


def test_zero_scatters_gradients_and_gathers_parameters() -> None:
    instance = make("bert-base", zero=2)
    layers = len(MODELS["bert-base"].layers())
    assert kinds(instance) == {("reduce_scatter", "data"): layers, ("all_gather", "data"): layers}
    assert {(exchange.needed_later, exchange.kind) for exchange in instance.exchanges} == {
        (0, CollectiveKind.REDUCE_SCATTER),
        (1, CollectiveKind.ALL_GATHER),
    }


@pytest.mark.parametrize(("recompute", "exchanges"), [(False, 4 * BLOCKS), (True, 6 * BLOCKS)])
def test_tensor_parallelism_reduces_each_block_twice_in_each_pass(recompute: bool, exchanges: int) -> None:
    assert kinds(make("bert-base", "tensor", recompute=recompute)) == {("all_reduce", "model"): exchanges}


def test_tensor_parallel_exchanges_block_the_next_task() -> None:
    instance = make("bert-base", "tensor")
    gaps = {
        needed - ready
        for ready, needed in ((exchange.ready_task, exchange.needed_task) for exchange in instance.exchanges)
    }
    assert gaps == {1}


def test_tensor_parallel_exchanges_have_the_activations_of_the_batch() -> None:
    instance = make("bert-base", "tensor", batch=3)
    assert {t.size for t in instance.exchanges} == {3 * 512 * 768 * 2}


def test_hybrid_exchanges_activations_inside_and_gradients_across_groups() -> None:
    instance = make("bert-base", "hybrid", group=32)
    spans = {t.parallelism: t.dimensions for t in instance.iteration.tensors}
    assert spans == {"model": ("dim1", "dim2_model"), "data": ("dim2_data", "dim3")}
    assert instance.num_resources == 3


def test_hybrid_shards_matrices_and_copies_the_rest() -> None:
    layers = MODELS["bert-base"].layers()
    sharded = sum(p.elements for layer in layers for p in layer.parameters if p.sharded)
    instance = make("bert-base", "hybrid", group=16)
    elements = count(layers) - sharded + sharded // 16
    assert instance.parameter_bytes == 2 * elements
    assert sum(t.size for t in instance.exchanges if t.parallelism == "data") == 2 * elements


def test_hybrid_in_groups_of_one_is_data_parallelism() -> None:
    assert make("bert-base", "hybrid", group=1).fingerprint == make("bert-base").fingerprint


def test_tables_are_exchanged_and_not_reduced() -> None:
    instance = make("dlrm-mlperf")
    exchanged = {t.name: (t.ready_after, t.needed_before) for t in instance.iteration.tensors if "row" in t.name}
    assert exchanged == {
        "tables.rows": ("tables.forward", "top.0.forward"),
        "tables.row_gradients": ("top.0.input_gradient", "tables.weight_gradient"),
    }
    assert kinds(instance)["all_reduce", "data"] == 8


@pytest.mark.parametrize(
    ("model", "parallelism", "choices", "rule"),
    [
        ("resnet-50", "magic", {}, "unknown parallelism"),
        ("resnet-50", "tensor", {}, "the model has none"),
        ("resnet-50", "data", {"group": 4}, "--tensor-group = 4"),
        ("bert-base", "tensor", {"group": 1}, "--tensor-group = 1"),
        ("bert-base", "hybrid", {"group": 24}, "--tensor-group = 24"),
        ("bert-base", "data", {"batch": 0}, "--batch = 0"),
        ("bert-base", "data", {"accumulate": 0}, "--accumulate = 0"),
        ("bert-base", "data", {"accumulate": 1000}, "more than 10000 tasks; fewer microbatches or steps"),
        ("bert-base", "data", {"zero": 3}, "--zero = 3"),
        ("bert-base", "data", {"zero": 2, "granularity": "fused"}, "--granularity = 'fused'"),
        ("bert-base", "data", {"granularity": "byte"}, "--granularity = 'byte'"),
        ("bert-base", "data", {"update": -1}, "--update"),
    ],
)
def test_choices_that_do_not_fit_together(model: str, parallelism: str, choices: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        make(model, parallelism, **choices)
