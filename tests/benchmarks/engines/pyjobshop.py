"""PyJobShop (https://pyjobshop.org) on the job shop that ``themis-opt export --to fjsp`` writes of Themis' paths."""

from itertools import pairwise

import numpy as np
from pyjobshop import Model

from themis_opt.formats.job_shop import job_shop
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def solve(instance: Instance, seconds: float) -> Schedule:
    """Themis' paths in the order of its best start times; Themis itself where it has none."""
    start = simulate(instance, make_policy("themis+scf")(instance))
    shop, model = job_shop(start), Model()
    machines = [model.add_machine() for _ in range(shop.num_machines)]
    for operations in shop.jobs:
        job = model.add_job()
        tasks = [model.add_task(job) for _ in operations]
        for task, ((machine, time),) in zip(tasks, operations, strict=True):
            model.add_mode(task, machines[machine], time)
        for one, other in pairwise(tasks):
            model.add_end_before_start(one, other)
    result = model.solve(time_limit=seconds, num_workers=2, display=False)
    if not result.best.tasks:
        return start
    starts = np.array([task.start for task in result.best.tasks])
    return min(start, simulate(instance, start.plan.in_order_of(instance, starts)), key=lambda each: each.makespan)
