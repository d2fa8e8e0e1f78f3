"""No bound is above the makespan of a schedule: random networks with every cost, random plans, sizes and orders.

No horizon that a schedule of so many chunks reaches is refuted by interval loads either, nor one of equal chunks by
where they begin and end.

``python -m pytest -m benchmarks benchmarks/test_bounds_on_random_schedules.py`` looks at 100,000 schedules in
some minutes, and prints how near the best of them comes to each bound.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from formulations.interval_loads import IntervalLoads
from formulations.limits import Limits
from themis_opt.base.arrays import IntArray
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds
from themis_opt.solving.makespan_bounds import chunk_counts
from themis_opt.solving.sizing import resized

pytestmark = pytest.mark.benchmarks

NUM_INSTANCES, PLANS_EACH = 1_000, 100
RESIZED_EACH = 3  # plans of an instance whose sizes are optimised, which comes nearer to the bounds
TOLERANCE = 1e-9

LOADS, LOADS_BUDGET = {"intervals": 20, "ticks": 8, "units": 96}, Limits(seconds=0.3, deterministic=True)
"""How horizons are looked at."""

"""What the proof by begin and end counts may spend on an instance."""


def random_dimension(generator: np.random.Generator) -> Dimension:
    kind = generator.choice(list(Kind))
    rule = Kind(kind).rule
    algorithms = list(rule.algorithms)
    size, in_network = int(generator.integers(2, 17)), rule.can_reduce and bool(generator.random() < 0.2)
    size = size if rule.flaw(size) is None else 12
    if in_network or size & (size - 1):  # 'adasum' combines pairs of NPUs, which no switch does
        algorithms = [algorithm for algorithm in algorithms if algorithm is not Algorithm.ADASUM]
    packet = {"payload": int(generator.integers(64, 9000)), "header": int(generator.integers(0, 200))}
    return Dimension(
        kind=kind,
        size=size,
        bandwidth=float(generator.integers(1, 400)) * 1e9,
        latency=f"{generator.integers(0, 5000)} ns",
        algorithm=generator.choice([None, *algorithms]),
        in_network=in_network,
        packet=packet if generator.random() < 0.5 else None,
        launch_overhead=f"{generator.choice([0, 2000, 10000])} ns",
        compression=float(generator.choice([1.0, 1.0, 2.0])),
        reduction="200 GB/s" if generator.random() < 0.3 else None,
    )


def random_collective(generator: np.random.Generator, names: tuple[str, ...]) -> Collective:
    span = tuple(generator.permutation(names)[: generator.integers(1, len(names) + 1)].tolist())
    return Collective(
        kind=generator.choice(list(CollectiveKind)),
        size=int(2 ** generator.uniform(12, 26)) * 2,
        chunks=int(generator.integers(1, 9)),
        dimensions=span,
        release=f"{generator.choice([0, 0, 50_000])} ns",
    )


def random_instance(seed: int) -> Instance:
    generator = np.random.default_rng(seed)
    network = Network(dimensions=tuple(random_dimension(generator) for _ in range(generator.integers(1, 5))))
    if len(network.dimensions) > 1 and generator.random() < 0.2:
        first, second, *others = network.dimensions
        network = Network(dimensions=(first, second.replace(shares=network.dimension_names[0]), *others))
    count = int(generator.choice([1, 1, 2]))
    return Instance(
        network=network,
        collectives=tuple(random_collective(generator, network.dimension_names) for _ in range(count)),
        latency=generator.choice(["lag", "occupy"]),
        ag_order=generator.choice(["free", "reverse"]),
    )


def random_sizes(generator: np.random.Generator, exchange: Exchange) -> IntArray:
    """Equal sizes, or any number of sizes."""
    if generator.random() < 0.4:
        return equal_sizes(exchange)
    elements, count = exchange.size // exchange.element_bytes, int(generator.integers(1, exchange.chunks + 1))
    cuts = np.sort(generator.choice(elements - 1, count - 1, replace=False) + 1).tolist()
    return np.array([b - a for a, b in pairwise([0, *cuts, elements])], dtype=np.int64) * exchange.element_bytes


def random_plan(generator: np.random.Generator, instance: Instance) -> Plan:
    chunks = []
    for exchange in instance.exchanges:
        paths, sizes = [], random_sizes(generator, exchange)
        for _ in sizes:
            orders = [generator.permutation(exchange.span) for _ in exchange.kind.rule.phases]
            if exchange.kind.rule.mirrors and instance.ag_order == "reverse":
                orders[1] = orders[0][::-1]
            paths.append(np.concatenate(orders))
        chunks.append(Chunks(sizes, np.array(paths, dtype=np.int64)))
    return Plan(tuple(chunks), generator.choice(sorted(DISPATCH)))


def random_schedules(instance: Instance, seed: int, count: int) -> Iterator[Schedule]:
    """Of random plans, some with the best sizes, and of a policy that comes near to the bounds."""
    generator = np.random.default_rng([seed, 1])
    for sizes in ("equal", "free"):
        yield simulate(instance, make_policy(f"hourglass:sizes={sizes}")(instance))
    for number in range(count):
        schedule = simulate(instance, random_plan(generator, instance))
        yield schedule
        if number < RESIZED_EACH:
            yield resized(schedule)


def check(seed: int, plans: int) -> dict[str, float]:
    """How near the best schedules of an instance come to each bound: bound over makespan."""
    instance = random_instance(seed)
    free, equal = bounds(instance, equal_sizes=False), bounds(instance)
    nearest, by_count = dict.fromkeys(equal, 0.0), dict[int, int]()
    for schedule in random_schedules(instance, seed, plans):
        for name, bound in (equal if schedule.has_equal_sizes else free).items():
            assert bound <= schedule.makespan * (1 + TOLERANCE), (seed, name)
            nearest[name] = max(nearest[name], bound / schedule.makespan)
        count = len(schedule.plan.chunks[0].sizes)
        by_count[count] = min(by_count.get(count, schedule.makespan), schedule.makespan)
    if len(instance.exchanges) == 1 and instance.ports.is_plain:  # they see each dimension as one resource
        check_interval_loads(seed, instance, by_count)
    return nearest


def check_interval_loads(seed: int, instance: Instance, by_count: Mapping[int, int]) -> None:
    """No horizon is refuted that a schedule of so many chunks reaches, not by what other numbers teach either."""
    counts = chunk_counts(instance)
    horizon = max(by_count.values()) * (1 + TOLERANCE)
    model = IntervalLoads(replace(counts.jobs[0], count=max(by_count)), counts.least[0], horizon, **LOADS)
    for count, makespan in by_count.items():
        model.solve(count, min(model.ticks(makespan) + 1, model.num_ticks), LOADS_BUDGET)
    for count, makespan in by_count.items():
        assert model.horizon(int(model.refuted[count])) <= makespan * (1 + TOLERANCE), (seed, count)


def test_no_bound_is_above_a_makespan() -> None:
    nearest = [check(seed, PLANS_EACH) for seed in range(NUM_INSTANCES)]
    for name in nearest[0]:
        ratios = [row[name] for row in nearest]
        print(f"{name}: median {np.median(ratios):.3f}, most {max(ratios):.6f} of the best makespan")
