"""Experts and sequences divided in groups, and sharded optimizer states: the volumes of their sources."""

from dataclasses import replace

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

SETUP = Setup(network=load("3d-sw_sw_sw_hetero.all_reduce.100MiB").network, timing=Rate(10**14), batch=2)
SEQUENCE, HIDDEN, BLOCKS, ACTIVE = 4096, 4096, 32, 2  # those of Mixtral 8x7B


def make(model, parallelism, **choices):
    layers = MODELS[model].layers()
    return make_workload(MODELS[model], layers, replace(SETUP, **choices), parallelism=parallelism, chunks=2)


def total(instance, kind, parallelism):
    sizes = [
        exchange.size
        for exchange in instance.exchanges
        if (exchange.kind.value, exchange.parallelism) == (kind, parallelism)
    ]
    return len(sizes), sum(sizes)


def test_tokens_travel_to_their_experts_and_back_in_both_passes():
    instance = make("mixtral-8x7b", "expert", group=8)
    once = 2 * SETUP.batch * SEQUENCE * ACTIVE * HIDDEN
    assert total(instance, "all_to_all", "model") == (4 * BLOCKS, 4 * BLOCKS * once)


def test_gradients_of_experts_are_reduced_between_groups_and_others_between_all():
    instance = make("mixtral-8x7b", "expert", group=8)
    layers = MODELS["mixtral-8x7b"].layers()
    experts = sum(layer.expert_elements for layer in layers)
    assert experts == BLOCKS * 8 * 3 * HIDDEN * 14_336
    sizes = {exchange.name: exchange.size for exchange in instance.exchanges}
    assert sum(size for name, size in sizes.items() if name.endswith(".expert_gradients")) == 2 * experts // 8
    shared = sum(layer.elements() for layer in layers) - experts
    assert sum(size for name, size in sizes.items() if name.endswith(".gradients")) == 2 * shared
    spans = {exchange.name.rpartition(".")[2]: exchange.span for exchange in instance.exchanges}
    assert not set(spans["expert_gradients"]) & set(spans["dispatch"])
    assert instance.parameter_bytes == 2 * (shared + experts // 8)


@pytest.mark.parametrize(
    ("model", "group", "rule"),
    [("bert-base", 8, "needs layers with experts"), ("mixtral-8x7b", 16, "divide the 8 experts")],
)
def test_groups_that_cannot_share_experts_are_refused(model, group, rule):
    with pytest.raises(InputError, match=rule):
        make(model, "expert", group=group)


def test_sequences_are_exchanged_with_the_bytes_of_all_reduces_and_inputs_once_more():
    whole, divided = make("bert-base", "hybrid", group=16), make("bert-base", "sequence", group=16)
    count, size = total(whole, "all_reduce", "model")
    assert total(divided, "reduce_scatter", "model") == (count, size)
    sharded = [layer for layer in MODELS["bert-base"].layers() if layer.sharded]
    again = 2 * SETUP.batch * sum(layer.inputs for layer in sharded)
    assert total(divided, "all_gather", "model") == (count + len(sharded), size + again)
    assert total(divided, "all_reduce", "data") == total(whole, "all_reduce", "data")


def test_with_recomputation_inputs_are_there():
    divided = make("bert-base", "sequence", group=16, recompute=True)
    assert total(divided, "all_gather", "model") == total(divided, "reduce_scatter", "model")


def test_sharded_optimizer_states_add_an_all_gather_of_parameters():
    whole, sharded = make("bert-base", "data"), make("bert-base", "zero1", update=10**9)
    assert total(sharded, "all_reduce", "data") == total(whole, "all_reduce", "data")
    assert total(sharded, "all_gather", "data")[1] == total(whole, "all_reduce", "data")[1]
    assert sharded.iteration == make("bert-base", "data", zero=1, update=10**9).iteration
    assert "ZeRO stage 1" in make("bert-base", "data", zero=1).description


def test_a_template_of_layer_times_is_a_file_of_layer_times(succeed, tmp_path):
    path = tmp_path / "times.json"
    path.write_text(succeed("workload", "vgg-16-cifar", "--layer-times-template", "--batch", 8), encoding="utf-8")
    network = ("--network", "fig5.all_reduce.256MB", "--batch", 8, "--json")
    assert '"conv1_1": {"forward": ' in path.read_text(encoding="utf-8")
    made = [succeed("workload", "vgg-16-cifar", *network, *options) for options in ((), ("--layer-times", path))]
    assert made[0] == made[1]
