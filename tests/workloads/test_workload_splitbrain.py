"""SplitBrain: closed forms of memory and speedup, and the exchanges."""

from dataclasses import replace
from typing import Any

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load
from themis_opt.problem.instance import Instance
from themis_opt.workloads.convolutional import memory_fraction, splitbrain
from themis_opt.workloads.layers import linear
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

CONVOLUTIONS, CONNECTED = 14_714_688, 18_923_530  # parameters of the two parts of VGG-16 for CIFAR-10
SETUP = Setup(network=load("2d-sw_sw.all_reduce.100MiB").network, timing=Rate(10**13), batch=64)


def make(group: int, **choices: Any) -> Instance:
    iteration = splitbrain(MODELS["vgg-16-cifar"].layers(), replace(SETUP, group=group, **choices))
    return Instance(network=SETUP.network, iteration=iteration, chunks=2)


@pytest.mark.parametrize("group", [1, 2])
def test_memory_follows_the_closed_form(group: int) -> None:
    fraction = memory_fraction(CONVOLUTIONS, CONNECTED, group)
    assert make(group).parameter_bytes == 2 * (CONVOLUTIONS + CONNECTED) * fraction


@pytest.mark.parametrize("group", [4, 8, 16, 64])
def test_memory_follows_the_closed_form_but_for_shards_rounded_up(group: int) -> None:
    exact = 2 * (CONVOLUTIONS + CONNECTED) * memory_fraction(CONVOLUTIONS, CONNECTED, group)
    assert 0 <= make(group).parameter_bytes - exact < 2 * 3


def test_gradients_of_shards_span_the_machines_that_hold_the_same_one() -> None:
    tensors = {t.name: t for t in make(16).iteration.tensors}
    assert tensors["fc6.gradients"].dimensions == ("dim2",)
    assert tensors["fc6.gradients"].size == 2 * 2_101_248 // 16
    assert tensors["conv1_1.gradients"].dimensions is None


def test_groups_of_all_machines_do_not_exchange_gradients_of_shards() -> None:
    names = [t.name for t in make(1024).iteration.tensors if t.parallelism == "data"]
    assert len(names) == 13
    assert all(name.startswith("conv") for name in names)


def test_each_round_gathers_the_activations_of_a_whole_batch() -> None:
    gathered = [t for t in make(4).iteration.tensors if t.name.endswith("activations")]
    assert [t.size for t in gathered] == [64 * 512 * 2] * 4


def test_gradients_of_convolutions_wait_for_all_rounds() -> None:
    instance = make(4)
    returned = {t.needed_before for t in instance.iteration.tensors if t.name.startswith("round") and "error" in t.name}
    assert returned == {"conv5_3.weight_gradient"}
    assert instance.task_index["conv5_3.weight_gradient"] > instance.task_index["fc6.round4.input_gradient"]


@pytest.mark.parametrize(
    ("choices", "rule"),
    [
        ({"zero": 2}, "--zero"),
        ({"recompute": True}, "--recompute"),
        ({"update": 5}, "--update"),
        ({"accumulate": 2}, "--accumulate"),
        ({"granularity": "fused"}, "--granularity"),
    ],
)
def test_choices_that_splitbrain_does_not_have(choices: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        make(4, **choices)


@pytest.mark.parametrize("layers", [(), (linear("fc", 2, 2),), MODELS["bert-base"].layers()], ids=len)
def test_models_of_other_shapes_are_refused(layers: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="convolutions and then fully connected layers"):
        splitbrain(layers, SETUP)
