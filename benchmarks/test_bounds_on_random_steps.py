"""No bound is above the time of a random step of sharded parameters that may hold no more than the step does.

``python -m pytest -m benchmarks benchmarks/test_bounds_on_random_steps.py -s`` looks at 10,000 steps, or at as
many as ``THEMIS_OPT_STEPS`` says, and prints how near a bound comes to one.  The reference is compared with all buckets
and launch points of steps of three layers, of which it should find one as fast or a faster one.  On tiny steps it is as
fast as the best of all ways to fuse tensors and all sequences, with those that wait.
"""

import os
from itertools import permutations, product

import numpy as np
import pytest
from sharded_iterations import all_buckets, fastest_of_all, random_schedule, random_step
from small_iterations import iteration, tensor

from themis_opt.base.errors import CyclicPlan, InputError, InvalidSchedule
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.common import of_runs
from themis_opt.policies.planning import plan_launches
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds

pytestmark = pytest.mark.benchmarks

NUM_STEPS = int(os.environ.get("THEMIS_OPT_STEPS", "10000"))
LAYERS = (2, 7)


def nearest_bound(seed: int) -> float:
    """The largest bound over the time of a step, whose memory is the peak of its schedule; 0 where there is none."""
    generator = np.random.default_rng(seed)
    instance = random_step(generator, int(generator.integers(*LAYERS)))
    schedule = random_schedule(generator, instance)
    if schedule is None:
        return 0.0
    if seed % 50 == 0:
        validate(schedule)
    limited = instance.replace(memory=f"{schedule.memory_peak} B")
    name, bound = max(bounds(limited).items(), key=lambda item: item[1])
    assert bound <= schedule.makespan * (1 + 1e-9), (seed, name, bound / schedule.makespan)
    return bound / schedule.makespan


def test_no_bound_is_above_a_step() -> None:
    ratios, seed = [], 0
    while len(ratios) < NUM_STEPS:
        ratios += [ratio] if (ratio := nearest_bound(seed)) else []
        seed += 1
        if len(ratios) % 500 == 0:
            print(f"{len(ratios)} steps: median {np.median(ratios):.3f}, tightest {max(ratios):.6f}", flush=True)


NUM_TRIED = 60


def test_the_reference_is_no_slower_than_all_buckets_and_launch_points() -> None:
    ratios = []
    for seed in range(NUM_TRIED):
        generator = np.random.default_rng(seed)
        instance = random_step(generator, 3).replace(chunks=1)
        schedule = random_schedule(generator, instance)
        if schedule is None:
            continue
        limited = instance.replace(memory=f"{round(schedule.memory_peak * generator.choice([0.8, 1.0]))} B")
        best, _ = fastest_of_all(limited)
        try:
            ratios.append(Exact(seconds=1.0, workers=1, deterministic=True).solve(limited).schedule.makespan / best)
        except (InputError, InvalidSchedule):  # nothing fits
            continue
        print(
            f"{len(ratios)} steps: {sum(ratio <= 1 for ratio in ratios)} as fast, worst {max(ratios):.4f}", flush=True
        )
    assert sum(ratio <= 1 for ratio in ratios) >= 0.95 * len(ratios)


NUM_TINY = 120


def tiny_step(seed: int) -> Instance:
    """Two layers with an all-reduce each on one dimension, in one chunk; most networks have costs."""
    generator = np.random.default_rng(seed)
    dimension = {
        "kind": str(generator.choice(["switch", "ring"])),
        "size": int(generator.choice([2, 4])),
        "bandwidth": "10 GB/s",
        "latency": f"{generator.integers(0, 4)} us",
        "launch_overhead": f"{generator.choice([0, 2, 4])} us",
    }
    tasks = {name: float(generator.integers(2, 16)) for name in ("f0", "f1", "b1", "b0")}
    sizes = generator.choice([1, 2, 4, 8, 12], 2) * generator.choice([1, 10], 2)
    tensors = [tensor(f"g{layer}", size, f"b{layer}", f"f{layer}") for layer, size in enumerate(sizes.tolist())]
    latency = str(generator.choice(["occupy", "lag"]))
    return iteration(tasks, tensors, network={"dimensions": [dimension]}, latency=latency)


def fastest_of_all_sequences(instance: Instance) -> int:
    """The least picoseconds of a step with any buckets and any sequence, of one iteration or of two."""
    best = 2**62
    for buckets in all_buckets(instance):
        plan = plan_launches(instance, of_runs(instance, buckets), "ready", Baseline())
        for order, shifts in product(permutations(range(plan.num_stages)), product((0, 1), repeat=plan.num_stages)):
            places = [(shifts[stage], order.index(stage)) for stage in range(plan.num_stages)]
            if min(shifts) or any(scatter > gather for scatter, gather in zip(places[::2], places[1::2], strict=True)):
                continue
            try:
                enforced = plan.enforcing((np.array(order),), np.array(shifts))
                best = min(best, simulate(instance, enforced).makespan)
            except CyclicPlan:
                continue
    return best


@pytest.mark.timeout(3600)
def test_the_reference_of_tiny_steps_is_the_optimum() -> None:
    missed = []
    for seed in range(NUM_TINY):
        instance = tiny_step(seed)
        solved = Exact(seconds=2.0, workers=1, deterministic=True).solve(instance)
        best = fastest_of_all_sequences(instance)
        assert solved.bound <= best
        missed += [seed] if solved.schedule.makespan > best else []
    print(f"{NUM_TINY - len(missed)} of {NUM_TINY} tiny steps at the optimum, missed: {missed}")
    assert not missed
