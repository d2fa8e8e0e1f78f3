"""Random jobs of any sizes for the tests of proofs about them."""

import random
from dataclasses import replace

from formulations.lattice import JobClass, JobPhase, arcs


def random_class(generator: random.Random, phases: int) -> tuple[JobClass, JobClass]:
    """What a unit of six costs on two machines, and what every job does."""
    every = list(arcs((0, 1)))
    lags = [{k: generator.randint(0, 6) for k in (0, 1)} for _ in range(phases)]
    rates = [JobPhase({arc: 6 * generator.randint(1, 12) for arc in every}, lag) for lag in lags]
    fixed = [{k: generator.randint(0, 9) for k in (0, 1)} for _ in range(phases)]
    least = [JobPhase({arc: cost[arc[1]] for arc in every}, lag) for cost, lag in zip(fixed, lags, strict=True)]
    mirrored = phases == 2 and bool(generator.randint(0, 1))
    return JobClass((0, 1), tuple(rates), mirrored=mirrored), JobClass((0, 1), tuple(least), mirrored=mirrored)


def random_pair(seed: int, phases: int, machines: tuple[int, ...] = (0, 1, 2)) -> tuple[JobClass, JobClass]:
    """The same on any machines, perhaps released later."""
    generator = random.Random(seed)
    every = [*arcs(machines)]
    lags = [{k: generator.randint(0, 6) for k in machines} for _ in range(phases)]
    rates = tuple(JobPhase({arc: 6 * generator.randint(1, 12) for arc in every}, lag) for lag in lags)
    fixed = [{k: generator.randint(0, 9) for k in machines} for _ in range(phases)]
    least = tuple(JobPhase({arc: cost[arc[1]] for arc in every}, lag) for cost, lag in zip(fixed, lags, strict=True))
    mirrored, release = phases == 2 and generator.random() < 0.5, generator.choice([0, 20])
    return (
        JobClass(machines, rates, mirrored=mirrored, release=release),
        JobClass(machines, least, mirrored=mirrored, release=release),
    )


def part(whole: JobClass, least: JobClass, units: int) -> JobClass:
    """A job of so many units of six."""
    phases = (
        JobPhase({arc: d * units // 6 + one.duration[arc] for arc, d in phase.duration.items()}, phase.lag)
        for phase, one in zip(whole.phases, least.phases, strict=True)
    )
    return replace(whole, phases=tuple(phases))
