"""Pipelines for tests, with times in units of a picosecond."""

import random

from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.schedule import simulate


def pipeline(stages, microbatches, forward=1, inputs=1, weights=1, message=0, **fields):
    """A pipeline whose times are in picoseconds; lists have a time for each part."""
    times = {"forward": forward, "inputs": inputs, "weights": weights}
    lists = {name: time if isinstance(time, list) else [time] for name, time in times.items()}
    picoseconds = {name: [f"{t} ps" for t in values] for name, values in lists.items()}
    return Pipeline(stages=stages, microbatches=microbatches, message=f"{message} ps", **picoseconds, **fields)


def random_pipeline(seed):
    """A small pipeline with other times on each part, messages and memory."""
    draw = random.Random(seed)
    stages, parts = draw.randint(2, 4), draw.choice([1, 1, 2])
    placement = draw.choice(["interleaved", "v"])
    times = [[draw.randint(1, 5) for _ in range(stages * parts)] for _ in range(3)]
    activation = draw.randint(1, 3)
    return pipeline(
        stages,
        draw.randint(1, 6),
        *times,
        message=draw.choice([0, 1, 7]),
        parts=parts,
        placement=placement,
        activation=activation,
        gradient=draw.choice([None, 0, 1]),
        memory=draw.choice([None, activation * parts * draw.randint(1, 6)]),
        split=draw.random() < 0.8,
        objective=draw.choice(["period", "makespan"]),
    )


def random_schedule(problem, seed):
    """A schedule of stages that run anything that is ready and fits, None where they wait for each other."""
    draw = random.Random(seed)
    done, orders = set(), [[] for _ in range(problem.stages)]
    held = [0] * problem.stages
    left = {action for stage in range(problem.stages) for action in problem.actions_of(stage)}
    while left:
        ready = [
            action
            for action in sorted(left)
            if ((before := problem.before(action)) is None or before in done)
            and (
                problem.memory is None
                or held[problem.stage_of[action.part]] + max(problem.change_of_memory(action.kind), 0) <= problem.memory
            )
        ]
        if not ready:
            return None
        action = draw.choice(ready)
        stage = problem.stage_of[action.part]
        orders[stage].append(action)
        held[stage] += problem.change_of_memory(action.kind)
        left.discard(action)
        done |= {action, action._replace(kind="I")} if action.kind == "B" else {action}
    return simulate(problem, tuple(map(tuple, orders)))
