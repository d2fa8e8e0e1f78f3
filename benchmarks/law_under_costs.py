"""The policy law where every chunk costs something, beside hourglass with free sizes and a reference.

    PYTHONPATH=tests/support python benchmarks/law_under_costs.py [NETWORKS [SECONDS]]

prints a line for each case, the tables of docs/law.md, and the same for random networks.  The reference has counted
seconds, so that it does not depend on the load of the machine.  Milliseconds are the least of five calls.
"""

import random
import sys
import timeit
from collections.abc import Iterator, Sequence
from math import log, log2, prod
from statistics import fmean
from time import process_time
from typing import NamedTuple

from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.base.compiled import compile_at_once
from themis_opt.policies.chunk_law import LawDimension
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.law import Law, network_of
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.search.exact import Exact


class Row(NamedTuple):
    """Numbers of chunks and makespans of a case, and milliseconds of the policy law."""

    network: str
    case: str
    formula: int
    law: int
    few: int
    excess: float
    hourglass: float
    milliseconds: float


def main(networks: int = 36, seconds: float = 2.0) -> None:
    """Print the rows and tables of the networks of the paper and of random ones."""
    compile_at_once()
    for cases in (list(paper_cases()), [random_case(seed) for seed in range(networks)]):
        rows = []
        for case in cases:
            rows.append(row(*case, seconds))
            print(*rows[-1][:5], *(f"{number:.4f}" for number in rows[-1][5:]), flush=True)
        for kind in (*dict.fromkeys(row.case for row in rows), ""):
            print(kind or "all", summary([row for row in rows if kind in row.case]))


def row(network: str, case: str, instance: Instance, seconds: float) -> Row:
    """Plan an instance in three ways."""
    law = Law()
    plan = law(instance)
    milliseconds = 1000 * min(timeit.repeat(lambda: law(instance), timer=process_time, number=1))
    hourglass = simulate(instance, Hourglass("free")(instance))
    exact = Exact(seconds=seconds, workers=1, sizes="free", deterministic=True).solve(instance).schedule
    best = min(hourglass, exact, key=lambda schedule: schedule.makespan)
    excess, other = (schedule.makespan / best.makespan - 1 for schedule in (simulate(instance, plan), hourglass))
    formula = best_number(network_of(instance, instance.exchanges[0]), instance.exchanges[0].size)
    counts = (len(plan.chunks[0].sizes), len(best.plan.chunks[0].sizes))
    return Row(network, case, formula, *counts, excess, other, milliseconds)


def best_number(network: Sequence[LawDimension], size: int) -> int:
    """The closed form: halving the gap with each chunk is worth what a chunk holds a dimension for in both phases."""
    time = 2 * size * (1 - 1 / prod(d.npus for d in network)) / sum(1 / d.byte_time for d in network)
    fixed = max(dimension.fixed for dimension in network)
    return max(1, min(2 * len(network) - 1, round(log2(time * log(2) / (2 * fixed)))))


def summary(rows: Sequence[Row]) -> str:
    """Excess of law and hourglass in the mean and at worst, and how near the numbers of chunks are."""
    parts = [f"law {fmean(row.excess for row in rows):.2%}, {max(row.excess for row in rows):.2%}"]
    parts += [f"hourglass {fmean(row.hourglass for row in rows):.2%}, {max(row.hourglass for row in rows):.2%}"]
    for name in ("formula", "law"):
        away = [abs(getattr(row, name) - row.few) for row in rows]
        parts += [
            f"chunks of {name} within 1, 2: {sum(a <= 1 for a in away)}, {sum(a <= 2 for a in away)} of {len(rows)}"
        ]
    return "; ".join([*parts, f"{fmean(row.milliseconds for row in rows):.1f} ms"])


def paper_cases() -> Iterator[tuple[str, str, Instance]]:
    """The networks of the paper with launches of 2 us."""
    for size in ("16MiB", "100MiB"):
        for latency in ("lag", "occupy"):
            for name in PAPER_NETWORKS:
                yield name, f"{size} {latency}", with_launches(f"{name}.all_reduce.100MiB", "2 us", size, latency)


def with_launches(name: str, launch: str, size: str, latency: str) -> Instance:
    """A shipped instance with launches, up to 64 chunks, and another size."""
    instance = themis_opt.load(name).overridden(size=size, chunks=64, latency=latency)
    dimensions = tuple(dimension.replace(launch_overhead=launch) for dimension in instance.network.dimensions)
    return instance.replace(network=instance.network.replace(dimensions=dimensions))


def random_case(seed: int) -> tuple[str, str, Instance]:
    """A network of two to four dimensions, with the kinds of the paper and other figures."""
    generator = random.Random(seed)
    instance = with_launches("3d-fc_ring_sw.all_reduce.100MiB", "2 us", "100MiB", "lag")
    dimensions = tuple(
        generator.choice(instance.network.dimensions).replace(
            size=generator.choice((2, 4, 8, 16)),
            bandwidth=f"{generator.choice((25, 50, 100, 150, 200, 300, 400))} GiB/s",
            latency=f"{generator.choice((200, 500, 700, 1000, 1700))} ns",
            launch_overhead=f"{generator.choice((1, 2, 5))} us",
        )
        for _ in range(2 + seed % 3)
    )
    size, latency = generator.choice(("16MiB", "32MiB", "100MiB", "200MiB")), generator.choice(("lag", "occupy"))
    network = instance.network.replace(dimensions=dimensions)
    return (
        f"random {seed}",
        f"{len(dimensions)}D",
        instance.replace(network=network).overridden(size=size, latency=latency),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *map(float, sys.argv[2:]))
