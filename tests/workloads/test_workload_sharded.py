"""Full and hybrid sharding, and exchanges between groups every few batches."""

from dataclasses import replace
from typing import Any

import pytest
from planning import schedule_of
from small_iterations import run

from themis_opt.base.errors import InputError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.layers import count
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

NODE, NODES = 4, 8
FAST, SLOW = 40 * 10**9, 10**9
NETWORK = Network(
    dimensions=(
        Dimension(kind="ring", size=NODE, bandwidth=FAST, latency="1 us", name="node"),
        Dimension(kind="switch", size=NODES, bandwidth=SLOW, latency="3 us", name="rail"),
    )
)
SETUP = Setup(network=NETWORK, timing=Rate(10**13), batch=4)
MODEL = "vgg-16-cifar"
WEIGHTS = count(MODELS[MODEL].layers())


def make(parallelism: str, model: str = MODEL, chunks: int = 1, **choices: Any) -> Instance:
    setup = replace(SETUP, **choices)
    return make_workload(MODELS[model], MODELS[model].layers(), setup, parallelism=parallelism, chunks=chunks)


def sent(instance: Instance, kind: str, dimension: int) -> int:
    return sum(
        exchange.size for exchange in instance.exchanges if exchange.kind == kind and exchange.span == (dimension,)
    )


def test_full_sharding_keeps_a_shard_and_gathers_all_but_the_last_layer_twice() -> None:
    instance = make("fsdp")
    layers = MODELS[MODEL].layers()
    gathered = sum(exchange.size for exchange in instance.exchanges if exchange.kind == "all_gather")
    assert gathered == 2 * (2 * WEIGHTS - layers[-1].elements())
    assert 0 <= instance.parameter_bytes - 2 * WEIGHTS / (NODE * NODES) < 2 * len(layers)


@pytest.mark.parametrize(("gathers", "times"), [("step", 1), ("microbatch", 3 * 2)])
def test_accumulated_steps_reduce_once_and_gather_as_often_as_stated(gathers: str, times: int) -> None:
    instance = make("fsdp", accumulate=3, gathers=gathers, update=10**6)
    size = {
        kind: sum(e.size for e in instance.exchanges if e.kind == kind) for kind in ("all_gather", "reduce_scatter")
    }
    last = 2 * MODELS[MODEL].layers()[-1].elements()
    assert size["reduce_scatter"] == 2 * WEIGHTS
    assert size["all_gather"] == times * 2 * WEIGHTS - (3 * last if gathers == "microbatch" else 0)
    assert instance.compute == pytest.approx(3 * (make("fsdp").compute) + 10**6, rel=1e-6)


def test_selective_recomputation_keeps_what_matrices_and_attention_make() -> None:
    """Of GPT-3 no time, and of the 34 bytes for each width of a token those of norms, masks and activations less."""
    layers = MODELS["gpt-3"].layers(16)[1:3]
    setups = [replace(SETUP, recompute=how) for how in (False, "selective", True)]
    attention, wide = ([setup.kept(layer) / (16 * 12_288) for setup in setups] for layer in layers)
    assert attention == [6.5, 5.0, 1.0]
    assert wide == [10.5, 5.0, 1.0]
    assert make("fsdp", "bert-base", recompute="selective").compute == make("fsdp", "bert-base").compute


def test_hybrid_sharding_sends_shards_alone_between_groups() -> None:
    instance = make("hsdp")
    assert sent(instance, "reduce_scatter", 0) == 2 * WEIGHTS
    assert sent(instance, "all_reduce", 1) == pytest.approx(2 * WEIGHTS / NODE, rel=1e-3)
    assert all(exchange.after for exchange in instance.exchanges if exchange.kind == "all_reduce")


def test_hybrid_sharding_overlaps_inside_and_between_groups() -> None:
    instance = make("hsdp", batch=1)
    schedule = run(instance)
    alone = sum(
        exchange.size / FAST * (1 - 1 / NODE) if exchange.span == (0,) else 2 * exchange.size / SLOW * (1 - 1 / NODES)
        for exchange in instance.exchanges
    )
    assert schedule.makespan < instance.compute + alone * 1e12


def test_without_skipping_and_waiting_it_is_hierarchical_data_parallelism_that_blocks() -> None:
    instance = make("daso", granularity="fused")
    size = 2 * WEIGHTS
    inside = (1 - 1 / NODE) * size / FAST * 1e12 + (NODE - 1) * 1e6
    across = (1 - 1 / NODES) * size / NODE / SLOW * 1e12 + 3 * 3e6
    blocking = instance.compute + 2 * inside + 2 * across + inside
    assert run(instance, "fused/baseline+fifo").makespan == pytest.approx(blocking, rel=1e-6)


def test_time_of_a_batch_falls_with_the_batches_between_exchanges() -> None:
    times = [run(make("daso", granularity="fused", skip=skip, batch=1)).makespan / skip for skip in (1, 2, 4)]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1] * 1.5


@pytest.mark.parametrize("skip", [1, 2, 4])
def test_bytes_between_nodes_fall_with_the_batches_between_exchanges(skip: int) -> None:
    instance = make("daso", skip=skip)
    assert instance.steps == skip
    of_a_node = NODE * sent(instance, "all_reduce", 1) / skip
    assert of_a_node == pytest.approx(2 * WEIGHTS / skip, rel=1e-6)


def test_waiting_hides_the_exchange_between_nodes() -> None:
    times = [run(make("daso", skip=4, wait=wait, batch=16)).makespan for wait in (0, 1, 2, 4)]
    assert max(times[1:]) < times[0]


def test_averages_that_wait_as_long_as_they_skip_are_needed_in_the_next_iteration() -> None:
    instance = make("daso", skip=2, wait=2)
    average = next(exchange for exchange in instance.exchanges if exchange.name == "average")
    assert (average.needed_later, instance.tasks[average.needed_task].name) == (1, "batch1/conv1_1.forward")


@pytest.mark.parametrize(
    ("parallelism", "model", "choices", "words"),
    [
        ("hsdp", MODEL, {"group": 32}, "--tensor-group = 32.*hsdp"),
        ("hsdp", MODEL, {"group": 1}, "--tensor-group = 1.*hsdp"),
        ("fsdp", MODEL, {"group": 4}, "--tensor-group = 4: is not for fsdp"),
        ("fsdp", "dlrm-mlperf", {}, "tables"),
        ("fsdp", MODEL, {"zero": 2}, "--zero = 2: is not for fsdp"),
        ("daso", MODEL, {"skip": 2, "wait": 3}, "--wait = 3.*at most --skip, 2"),
        ("daso", MODEL, {"wait": -1}, "--wait = -1"),
        ("daso", MODEL, {"skip": 0}, "--skip = 0"),
        ("daso", MODEL, {"group": 32}, "--tensor-group = 32.*daso"),
        ("daso", "dlrm-mlperf", {}, "tables"),
        ("data", MODEL, {"wait": 1}, "--wait = 1: is not for data"),
    ],
)
def test_choices_that_do_not_fit_are_refused(parallelism: str, model: str, choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(parallelism, model, **choices)


def test_a_block_of_gpt_keeps_the_published_bytes_of_a_token():
    """34 times the width in 16 bits, without the scores of attention (Korthikanti et al., 2022)."""
    layers = {layer.name: layer for layer in MODELS["gpt-3"].layers(2048)}
    kept = sum(layers[f"layer0.{part}"].kept for part in ("attention", "mlp"))
    assert 2 * kept == 34 * 12288 * 2048


def activations(**choices):
    """Bytes that an iteration of one NPU keeps at most, and those of its forward pass."""
    network = Network(dimensions=(Dimension(kind="switch", size=8, bandwidth="100 GB/s"),))
    model, setup = MODELS["llama-3-8b"], Setup(network, Rate(10**15), batch=1, **choices)
    instance = make_workload(model, model.layers(2048), setup, parallelism="fsdp", chunks=1)
    forward = sum(task.activation_bytes for task in instance.tasks if task.name.endswith(".forward"))
    schedule = schedule_of(instance, "fsdp2/baseline+fifo")
    return schedule.memory_peak - instance.parameter_bytes, forward


def test_activations_are_held_from_the_forward_to_the_backward_pass():
    peak, forward = activations()
    block, logits, inputs = 2 * 2048 * (18_432 + 65_536), 4 * 2048 * 128_256, 2 * 2048 * (1 + 2 * 4096)
    assert forward == 32 * block + logits + inputs
    assert peak > forward


def test_with_recomputation_the_inputs_of_layers_are_held():
    peak, forward = activations(recompute=True)
    assert forward == 2 * 2048 * (1 + 65 * 4096)
    assert forward < peak < activations()[0] / 2


def test_what_does_not_fit_says_that_recomputation_would():
    with pytest.raises(InputError, match="or --recompute"):
        activations(memory=24 * 10**9)
