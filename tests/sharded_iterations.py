"""Layers whose parameters are gathered before use and given up after it, small enough to solve by hand."""

from typing import Any

import numpy as np
from small_iterations import iteration, tensor

from themis_opt.base.errors import CyclicPlan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.common import delayed, may_fuse, of_runs, runs
from themis_opt.policies.planning import plan_launches
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Order
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
