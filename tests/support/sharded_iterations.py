"""Layers whose parameters are gathered before use and given up after it, small enough to solve by hand."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
from small_iterations import iteration, tensor

from themis_opt.base.errors import CyclicPlan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.common import delayed, may_fuse, of_runs, runs
from themis_opt.policies.planning import PlanningOnce, plan_launches
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, Order
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def sharded(*kilobytes: float, task: float = 10.0, **fields: Any) -> Instance:
    """Layers with some kB of parameters each, gathered and scattered in half as many microseconds as kB.

    Layer n computes in `forward n` and `backward n`, for `task` microseconds each, and is updated in no time.  The last
    one is gathered once, the others before both passes.
    """
    numbers = range(1, len(kilobytes) + 1)
    tasks = {f"forward{n}": task for n in numbers}
    tasks |= {f"backward{n}": task for n in reversed(numbers)} | {f"update{n}": 0.0 for n in reversed(numbers)}
    tensors = []
    for n, size in zip(numbers, kilobytes, strict=True):
        last, gather = n == len(kilobytes), {"kind": "all_gather"}
        freed = {"freed_after": f"backward{n}" if last else f"forward{n}"}
        tensors.append(tensor(f"parameters{n}", size, f"update{n}", f"forward{n}", **gather, **freed))
        if not last:
            freed = {"freed_after": f"backward{n}"}
            tensors.append(tensor(f"again{n}", size, f"forward{n}", f"backward{n}", **gather, **freed))
        tensors.append(tensor(f"gradients{n}", size, f"backward{n}", f"update{n}", kind="reduce_scatter"))
    return iteration(tasks, tensors, **fields)


def random_step(generator: np.random.Generator, layers: int) -> Instance:
    """Layers of random sizes, times and activations, on one or two dimensions that may have costs."""
    sizes = generator.integers(1, 31, layers)
    document = sharded(*sizes.tolist()).model_dump(mode="json", exclude_unset=True)
    forward, backward = generator.choice([1.0, 5.0, 20.0, 60.0], 2)
    for task in document["iteration"]["tasks"]:
        kind, number = task["name"][:-1], int(task["name"][-1])
        task["duration"] = f"{generator.uniform(0.5, 1) * {'forward': forward, 'backward': backward}.get(kind, 0.0)} us"
        if kind == "forward" and generator.random() < 0.5:
            task |= {"activation_bytes": f"{generator.integers(1, 20)} kB", "freed_after": f"backward{number}"}
    document["network"]["dimensions"] = [
        {"kind": "ring", "size": int(size), "bandwidth": f"{generator.integers(1, 5)} GB/s"}
        | {"latency": f"{generator.choice([0, 0, 1, 4])} us", "launch_overhead": f"{generator.choice([0, 0, 1, 3])} us"}
        for size in generator.choice([2, 3, 4], generator.integers(1, 3))
    ]
    document |= {"chunks": int(generator.choice([1, 1, 2, 4])), "latency": generator.choice(["lag", "occupy"]).item()}
    return Instance.model_validate(document)


def random_buckets(generator: np.random.Generator, instance: Instance) -> list[tuple[int, ...]]:
    """Tensors of each run cut at random; buckets that may not be fused are left apart."""
    buckets = []
    for run in runs(instance):
        cuts = [place for place in range(1, len(run)) if generator.random() < 0.6]
        for begin, end in zip([0, *cuts], [*cuts, len(run)], strict=True):
            whole = run[begin:end]
            buckets += [whole] if may_fuse(instance, whole) else [(number,) for number in whole]
    return buckets


def random_schedule(generator: np.random.Generator, instance: Instance) -> Schedule | None:
    """Random buckets, of which gathers leave at random distances from their use; None if they wait for each other."""
    launches = of_runs(instance, random_buckets(generator, instance))
    most = generator.integers(1, 2 * len(instance.tasks))
    for number, launch in enumerate(launches):
        if instance.exchanges[launch.tensors[0]].freed_task >= 0:
            launches[number] = delayed(instance, launch, int(generator.integers(0, most)))
    order: Order = generator.choice(["ready", "layer", "newest"]).item()
    try:
        return simulate(instance, plan_launches(instance, launches, order, Baseline()))
    except CyclicPlan:
        return None


def all_buckets(instance: Instance) -> Iterator[list[tuple[int, ...]]]:
    """Every way to cut runs in buckets that may be fused."""

    def cut(run: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
        for flags in product((False, True), repeat=len(run) - 1):
            ends = [0, *(place for place, flag in enumerate(flags, start=1) if flag), len(run)]
            yield tuple(run[begin:end] for begin, end in pairwise(ends))

    for parts in product(*(cut(run) for run in runs(instance))):
        buckets = [bucket for part in parts for bucket in part]
        if all(may_fuse(instance, bucket) for bucket in buckets):
            yield buckets


def all_launches(instance: Instance, buckets: list[tuple[int, ...]]) -> Iterator[list[Launch]]:
    """Every launch point of gathers; of tasks that take no time the first."""
    launches, tasks = of_runs(instance, buckets), instance.tasks
    moments = []
    for launch in launches:
        if instance.exchanges[launch.tensors[0]].freed_task >= 0:
            need = launch.before.task + launch.before.later * len(tasks)
            distances = range(need - launch.after.task)
            moments.append([d for d in distances if d == distances[-1] or tasks[(need - d - 1) % len(tasks)].duration])
        else:
            moments.append([0])
    for chosen in product(*moments):
        parts = zip(launches, chosen, moments, strict=True)
        yield [delayed(instance, e, distance) if len(m) > 1 else e for e, distance, m in parts]


def fastest_of_all(instance: Instance, orders: tuple[Order, ...] = ("layer",)) -> tuple[int, int]:
    """The least picoseconds of a step of all buckets and launch points that fit in memory, and how many there are."""
    best, count, policy = 2**62, 0, PlanningOnce(Baseline())
    for buckets in all_buckets(instance):
        for launches in all_launches(instance, buckets):
            for order in orders:
                try:
                    schedule = simulate(instance, plan_launches(instance, launches, order, policy))
                except CyclicPlan:
                    continue
                count += 1
                if schedule.makespan < best and schedule.fits:
                    best = schedule.makespan
    return best, count
