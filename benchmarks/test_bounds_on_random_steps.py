"""No bound is above the time of a random step of sharded parameters that may hold no more than the step does.

``python -m pytest -m benchmarks benchmarks/test_bounds_on_random_steps.py -s`` looks at 10,000 steps, or at as
many as ``THEMIS_OPT_STEPS`` says, and prints how near a bound comes to one.  The reference is compared with all buckets
and launch points of steps of three layers, of which it should find one as fast or a faster one.
"""

import os

import numpy as np
import pytest
from sharded_iterations import fastest_of_all, random_schedule, random_step

from themis_opt.base.errors import InputError, InvalidSchedule
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
