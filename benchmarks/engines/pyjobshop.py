"""PyJobShop (https://pyjobshop.org) on the job shop that ``themis-opt export --to fjsp`` writes of Themis' paths."""

from itertools import pairwise
from typing import Any

import numpy as np
from pyjobshop import Model

from themis_opt.formats.job_shop import job_shop
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate


def solve(instance: Instance, sizes: str, seconds: float, watch: Any) -> None:
    """Themis' paths, and their stages in the order of the best start times."""
    start = simulate(instance, make_policy("themis+scf")(instance))
    watch(start)
    shop, model = job_shop(start), Model()
    machines = [model.add_machine() for _ in range(shop.num_machines)]
    for operations in shop.jobs:
        job = model.add_job()
        tasks = [model.add_task(job) for _ in operations]
        for task, ((machine, time),) in zip(tasks, operations, strict=True):
            model.add_mode(task, machines[machine], time)
        for one, other in pairwise(tasks):
            model.add_end_before_start(one, other)
    best = model.solve(time_limit=seconds * 100, num_workers=2, display=False).best  # ended from outside before
    if best.tasks:
        starts = np.array([task.start for task in best.tasks])
        watch(simulate(instance, start.plan.in_order_of(instance, starts)))
