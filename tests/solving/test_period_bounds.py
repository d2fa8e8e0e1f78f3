"""Bounds on iterations against a plain recomputation, and as strong as ever."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from planning import schedule_of
from sharded_iterations import random_step
from small_iterations import PAIR, iteration, tensor

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.solving.bounds import bounds
from themis_opt.solving.makespan_bounds import MAKESPAN_BOUNDS
from themis_opt.solving.period_bounds import critical_path

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def random_iteration(seed: int, kinds: tuple[str, ...] = KINDS, **fields: Any) -> Instance:
    """Four to six tasks and three to eight tensors, from any task to any other one, on one to three dimensions."""
    generator = random.Random(seed)
    tasks = {f"t{n}": generator.choice([0, 3, 10, 25]) for n in range(generator.randint(4, 6))}
    tensors = [
        tensor(
            f"x{n}",
            generator.randint(1, 60),
            generator.choice([*tasks]),
            generator.choice([*tasks]),
            kind=generator.choice(kinds),
            needed_in=generator.choice([None, "next"]),
        )
        for n in range(generator.randint(3, 8))
    ]
    for one in tensors if len(kinds) > 1 else []:
        if generator.random() < 0.3:
            one["dimensions"] = ["dim1"]
    dimensions = [
        {
            "kind": generator.choice(["ring", "switch", "fully_connected"]),
            "size": generator.choice([2, 3, 4]),
            "bandwidth": f"{generator.choice([1, 2, 3])} GB/s",
            "latency": f"{generator.choice([0, 1, 2])} us",
            "launch_overhead": f"{generator.choice([0, 0, 2])} us",
        }
        for _ in range(generator.randint(1, 3))
    ]
    more = {"latency": generator.choice(["lag", "occupy"]), "chunks": generator.choice([1, 4])}
    return iteration(tasks, tensors, network={"dimensions": dimensions}, **more | fields)


def bound_of_contents(instance: Instance, sizes: list[int], name: str, *, bare: bool = False) -> float:
    """A bound on all these tensors together, at once on an idle network."""
    (kind,) = {exchange.kind for exchange in instance.exchanges}
    network = instance.network
    if bare:
        free = tuple(one.replace(latency=0, launch_overhead=0) for one in network.dimensions)
        network = network.replace(dimensions=free)
    collective = Collective(kind=kind, size=sum(sizes), chunks=sum(sizes), element_bytes=1)
    problem = Instance(network=network, collectives=(collective,), latency=instance.latency)
    return MAKESPAN_BOUNDS[name].compute(problem)


def plain_windows(instance: Instance, name: str) -> Iterator[tuple[int, int, float]]:
    """Task before and after each window whose bytes alone take longer than the tasks in it; what it gains."""
    count, tasks = len(instance.tasks), instance.tasks * 2
    for end in range(count):
        for start in range(end + 1, end + count + 1):
            inside = [
                exchange.size
                for exchange in instance.exchanges
                for later in (0, count)
                if exchange.ready_task + later >= end
                and exchange.needed_task + count * exchange.needed_later + later <= start
            ]
            covered = sum(task.duration for task in tasks[end + 1 : start])
            if inside and bound_of_contents(instance, inside, "fluid", bare=True) > covered:
                yield end, start, bound_of_contents(instance, inside, name) - covered


def plain_critical_path(instance: Instance, name: str) -> float:
    """Compute and the most that windows one after the other gain from any start of a task to its next start."""
    count, windows = len(instance.tasks), [*plain_windows(instance, name)]
    longest = 0.0
    for origin in range(count):
        gained = [0.0]
        for task in range(origin + 1, origin + count + 1):
            by_windows = [
                gained[end + later - origin] + gain
                for end, start, gain in windows
                for later in (0, count)
                if start + later == task and end + later >= origin
            ]
            gained.append(max([gained[-1], *by_windows]))
        longest = max(longest, gained[-1])
    return instance.compute + longest


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("seed", range(6))
def test_the_critical_path_is_the_longest_of_all_windows_one_by_one(seed: int, kind: str) -> None:
    instance = random_iteration(seed, (kind,))
    assert critical_path(instance) == pytest.approx(plain_critical_path(instance, "head_tail"), rel=1e-9)
    assert critical_path(instance, "ideal") == pytest.approx(plain_critical_path(instance, "ideal"), rel=1e-9)


def layers_of(seed: int) -> Instance:
    """Gradients of many layers in two kinds, so that there are more windows than are looked at one by one.

    The iteration begins in the middle of the backward pass.
    """
    generator, count = random.Random(seed), 30 + 15 * seed
    tasks = {f"t{n}": generator.choice([0.5, 1.5]) * (1 + n // count) for n in range(2 * count)}
    tensors = [
        tensor(f"x{n}", generator.randint(2, 12), f"t{2 * count - 1 - n}", f"t{n}", kind=KINDS[n % 7 // 6 * 3])
        for n in range(count)
    ]
    names = [*tasks]
    tasks = {name: tasks[name] for name in names[3 * count // 2 :] + names[: 3 * count // 2]}
    dimension = {"kind": "switch", "size": 4, "latency": "0.5 us"}
    network = {"dimensions": [dimension | {"bandwidth": bandwidth} for bandwidth in ("8 GB/s", "2 GB/s")]}
    return iteration(tasks, tensors, network=network, latency="occupy", chunks=4)


def limited(seed: int) -> Instance:
    """Gathers that memory holds back."""
    instance = random_step(np.random.default_rng(seed), 4)
    return instance.replace(memory=f"{max(exchange.size for exchange in instance.exchanges) * 2} B")


def pipelined(seed: int) -> Instance:
    """The tasks of :func:`random_iteration` in two stages."""
    document = random_iteration(seed).model_dump(mode="json", exclude_unset=True)
    for number, task in enumerate(document["iteration"]["tasks"]):
        task["stage"] = number % 2
    return Instance.model_validate(document)


def in_network(seed: int) -> Instance:
    """A switch that sums, whose directions are two resources, and a dimension in two parts that share it."""
    document = random_iteration(seed, ("all_reduce",)).model_dump(mode="json", exclude_unset=True)
    document["network"]["dimensions"][0] |= {"kind": "switch", "in_network": True}
    document["network"]["dimensions"].append({"kind": "switch", "size": 4, "bandwidth": "1 GB/s", "name": "nic"})
    document["iteration"]["splits"] = [{"dimension": "nic", "sizes": [2, 2], "names": ["a", "b"], "shared": True}]
    return Instance.model_validate(document)


def mixed(seed: int) -> Instance:
    """The same where an all-to-all makes one resource of both directions, but not in all windows."""
    document = in_network(seed).model_dump(mode="json", exclude_unset=True)
    document["iteration"]["tensors"].append(tensor("y", 5, "t0", "t0", kind="all_to_all"))
    return Instance.model_validate(document)


def waiting(seed: int) -> Instance:
    """Two stages, whose tasks and tensors wait for each other."""
    generator = random.Random(seed)
    tasks = {f"t{n}": generator.choice([3, 10, 25]) for n in range(6)}
    tensors = [
        tensor(f"x{n}", generator.randint(1, 60), f"t{n}", f"t{(n + generator.randint(1, 4)) % 6}", kind="all_gather")
        for n in range(6)
    ]
    tensors[4]["after"] = ["x3"]
    network = {"dimensions": [PAIR | {"latency": "1 us"}]}
    document = iteration(tasks, tensors, network=network).model_dump(mode="json", exclude_unset=True)
    for number, task in enumerate(document["iteration"]["tasks"]):
        task["stage"] = number % 2
    return Instance.model_validate(document)


NAMES = ("communication", "ideal", "critical_path", "pieces", "cut")
FIGURES = {
    random_iteration: (9, (759951388.9, 785291666.7, 840321969.7, 767071969.7, 739750000.0)),
    layers_of: (2, (112250000.0, 234500000.0, 240844913.2, 242063386.2, 231500000.0)),
    limited: (6, (346750000.0, 1011407331.9, 1027407331.9, 913901265.6, 962260342.0)),
    pipelined: (6, (442787500.0, 403892361.1, 434734924.7, 203000000.0, 425450000.0)),
    in_network: (6, (400034387.9, 411973492.8, 497182990.7, 279000000.0, 407625000.0)),
    mixed: (6, (460948967.2, 471944444.4, 516659714.0, 279000000.0, 418875000.0)),
    waiting: (8, (458000000.0, 727500000.0, 747500000.0, 393000000.0, 480000000.0)),
}
"""Of so many seeds the sums of these bounds, in picoseconds."""


@pytest.mark.parametrize(("make", "figures"), FIGURES.items(), ids=lambda value: getattr(value, "__name__", None))
def test_bounds_are_as_strong_as_ever(make: Callable[[int], Instance], figures: tuple[int, tuple[float, ...]]) -> None:
    """A window that is left out, or holds less, lowers them."""
    count, expected = figures
    proven = [bounds(make(seed)) for seed in range(count)]
    sums = {name: sum(one[name] for one in proven) for name in NAMES}
    assert sums == pytest.approx(dict(zip(NAMES, expected, strict=True)), rel=1e-8)


@pytest.mark.parametrize("seed", [19, 20])
@pytest.mark.parametrize("policy", ["ddp/baseline+fifo", "fused/themis+scf", "wait_free/hourglass"])
def test_iterations_begin_no_faster_than_resources_serve_them(seed: int, policy: str) -> None:
    """One stage of the first seed runs ahead of tensors that nobody needs, and its network falls behind."""
    instance = pipelined(seed)
    schedule = schedule_of(instance, policy)
    assert max(schedule.busy.values()) <= 1
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - 1e-9)
