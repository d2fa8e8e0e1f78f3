"""Training beyond the memory of an NPU: what is swapped or computed again, and that the memory holds it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from samples import every
from small_iterations import run

from themis_opt.base.errors import InputError
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.bounds import bounds
from themis_opt.workloads.layers import convolution, count, linear
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.out_of_core import activations
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

NETWORK = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="1 GB/s", latency="1 us", name="ring"),))
LINK = 16 * 10**9
SETUP = Setup(network=NETWORK, timing=Rate(10**13), batch=64, element_bytes=4, memory=10**9, host_link=float(LINK))
LAYERS = (
    *(convolution(f"conv{place}", (16 if place else 3, 16), 3, 56, 1, norm=True) for place in range(8)),
    linear("fc", 16 * 56**2, 10),
)
FIXED = 2 * 4 * count(LAYERS)
LEAST = 3 * 4 * 64 * 16 * 56**2
"""Bytes of the largest layer: its two activations and the gradient of one, then those of both."""


def make(room: float, **choices: Any) -> Instance:
    """The iteration with room for so many activations of 51 MB."""
    memory = FIXED + int(room * LEAST / 3)
    setup = replace(SETUP, **({"memory": memory} | choices))
    return make_workload(MODELS["vgg-16"], LAYERS, setup, parallelism="out-of-core", chunks=4)


POLICY = "priority/hourglass"


def swapped(instance: Instance) -> int:
    return sum(exchange.size for exchange in instance.exchanges if exchange.kind is CollectiveKind.SEND)


def used(schedule: Schedule) -> int:
    """Most bytes of activations and their gradients at any moment of an iteration that repeats the one before."""
    held = list(lifetimes(schedule))
    return max(sum(size for begin, end, size in held if begin <= moment < end) for moment, _, _ in held)


def lifetimes(schedule: Schedule) -> Iterator[tuple[int, int, int]]:
    """When each activation and gradient takes up memory, and its bytes."""
    instance, period, last = schedule.instance, schedule.period, schedule.num_iterations - 2
    begin, end = (
        dict(zip(instance.task_index, times[last].tolist(), strict=True))
        for times in (period.task_start, period.task_end)
    )
    launches = [launch.name for launch in schedule.plan.launches_of(instance)]
    ready = dict(zip(launches, period.launch_ready[last].tolist(), strict=True))
    back_after = {tensor.name: end[tensor.ready_after] for tensor in instance.iteration.tensors}
    names, sizes = [layer.name for layer in LAYERS], activations(LAYERS, SETUP)
    for place, name in enumerate(names):
        made = begin[f"{names[place - 1]}.forward" if place else f"{name}.forward"]
        used, done = begin[f"{name}.weight_gradient"], end.get(f"{name}.input_gradient", end[f"{name}.weight_gradient"])
        if f"{name}.swap_out" in ready:
            gone = ready[f"{name}.swap_out"]
            yield made, gone, sizes[place]
            yield max(back_after[f"{name}.swap_in"], gone), done, sizes[place]
        elif is_made_again(instance, place):
            yield made, end[f"{name}.forward"], sizes[place]
            yield begin[f"{names[place - 1]}.recompute"], done, sizes[place]
        else:
            yield made, done, sizes[place]
        yield used, done, sizes[place]
        yield used, done, sizes[place + 1]


def is_made_again(instance: Instance, place: int) -> bool:
    """Whether the input of a layer is computed again, just before its backward pass."""
    task = instance.task_index[f"{LAYERS[place].name}.weight_gradient"] - 1
    return place > 0 and instance.tasks[task].name == f"{LAYERS[place - 1].name}.recompute"


@pytest.mark.parametrize("launching", every(3, LAUNCHING))
@pytest.mark.parametrize("room", [3.1, 5.0, 8.0])
def test_iteration_is_never_below_compute_link_and_network(room: float, launching: str) -> None:
    instance = make(room)
    link = swapped(instance) / LINK * 1e12
    network = 2 * 0.75 * 4 * count(LAYERS) / 1e9 * 1e12
    schedule = run(instance, f"{launching}/hourglass")
    assert swapped(instance) > 0
    assert schedule.makespan >= max(instance.compute, link, network)
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - 1e-9)


@pytest.mark.parametrize("launching", ["fused", "priority"])
@pytest.mark.parametrize("room", [3.1, 4.0, 5.5, 8.0])
@pytest.mark.parametrize("link", [2e9, 64e9])
def test_memory_is_never_exceeded(room: float, link: float, launching: str) -> None:
    instance = make(room, host_link=link)
    assert used(run(instance, f"{launching}/hourglass")) <= int(room * LEAST / 3)
    for tensor in instance.iteration.tensors:
        name, _, way = tensor.name.rpartition(".")
        if way == "swap_in":
            users = (f"{name}.recompute", f"{name}.weight_gradient")
            assert tensor.after == (f"{name}.swap_out",)
            assert tensor.needed_before == next(user for user in users if user in instance.task_index)


def test_where_everything_fits_it_is_data_parallelism() -> None:
    plain = make_workload(
        MODELS["vgg-16"], LAYERS, replace(SETUP, memory=None, host_link=None), parallelism="data", chunks=4
    )
    instance = make(20)
    assert swapped(instance) == 0
    assert run(instance, POLICY).makespan == run(plain, POLICY).makespan


def test_more_memory_and_a_faster_link_never_cost_time() -> None:
    times = [run(make(room), POLICY).makespan for room in (3.1, 5.0, 8.0, 20)]
    assert times == sorted(times, reverse=True)
    slow, fast = (run(make(4.0, host_link=link), POLICY).makespan for link in (1e9, 64e9))
    assert fast < slow


def test_slow_links_make_it_compute_again_and_fast_ones_swap() -> None:
    slow, fast = (make(4.0, host_link=link) for link in (1e9, 64e9))
    assert slow.compute > fast.compute
    assert swapped(slow) < swapped(fast)


def test_fused_gradients_and_an_update_keep_their_bytes() -> None:
    instance = make(4.0, granularity="fused", update=10**9)
    (gradients,) = [exchange for exchange in instance.exchanges if exchange.kind is CollectiveKind.ALL_REDUCE]
    assert (gradients.size, instance.tasks[gradients.needed_task].name) == (4 * count(LAYERS), "update")


@pytest.mark.parametrize(
    ("model", "choices", "words"),
    [
        ("vgg-16", {"memory": None}, "--memory: is required for out-of-core"),
        ("vgg-16", {"host_link": None}, "--host-link: is required for out-of-core"),
        ("vgg-16", {"memory": 10**9}, "--memory = .*more than the .* of parameters and gradients"),
        ("vgg-16", {"memory": 12 * 10**8}, "--memory = .*too small for a batch of 64: one layer alone needs"),
        ("vgg-16", {"zero": 2}, "--zero = 2: is not for out-of-core"),
        ("vgg-16", {"recompute": True}, "--recompute = True: is not for out-of-core"),
        ("dlrm-mlperf", {}, "tables"),
    ],
)
def test_choices_that_do_not_fit_are_refused(model: str, choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_workload(MODELS[model], MODELS[model].layers(), replace(SETUP, **choices), parallelism="out-of-core")


def test_host_links_are_for_iterations_that_go_out_of_core() -> None:
    with pytest.raises(InputError, match=r"--host-link = .*: is not for data"):
        make_workload(MODELS["vgg-16"], LAYERS, SETUP, parallelism="data")
