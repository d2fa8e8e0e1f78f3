"""What the reference proves where every chunk costs something: six networks, two sizes, three kinds of costs.

``python -m pytest -m benchmarks tests/benchmarks/test_cost_gaps.py`` prints the gaps, and the bound before any search;
it takes half of a minute per row and network unless ``THEMIS_OPT_BENCHMARK_SECONDS`` says otherwise.  With
``THEMIS_OPT_BENCHMARK_OUTPUT`` it writes ``costs.csv`` into that folder; ``THEMIS_OPT_BENCHMARK_SIZES`` names other
sizes.
"""

import csv
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.solving.bounds import bounds

pytestmark = pytest.mark.benchmarks

SECONDS = float(os.environ.get("THEMIS_OPT_BENCHMARK_SECONDS", "30"))
SIZES = os.environ.get("THEMIS_OPT_BENCHMARK_SIZES", "16MiB,100MiB").split(",")
COSTS = [("lag", "2 us"), ("occupy", "0 us"), ("occupy", "2 us"), ("occupy", "10 us")]
PACKET = {"payload": 4096, "header": 30}


def case(network: str, size: str, latency: str, launch: str) -> Instance:
    """Up to 64 chunks of free sizes."""
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(size=size, chunks=64, latency=latency)
    dimensions = tuple(
        dimension.replace(launch_overhead=launch, packet=PACKET) for dimension in instance.network.dimensions
    )
    return instance.replace(network=instance.network.replace(dimensions=dimensions))


def row(network: str, size: str, latency: str, launch: str) -> dict[str, Any]:
    instance = case(network, size, latency, launch)
    before = bounds(instance, equal_sizes=False)
    compared = themis_opt.compare(instance, ("hourglass", "exact"), time_limit=SECONDS, sizes="free")
    hourglass, exact = compared.results
    known = max(before.values())
    return {
        "network": network,
        "size": size,
        "latency": latency,
        "launch_overhead": launch,
        "seconds": SECONDS,
        "chunks": len(exact.schedule.plan.chunks[0].sizes),
        "makespan_ns": exact.makespan / 1000,
        "hourglass_ns": hourglass.makespan / 1000,
        "head_tail_ns": before["head_tail"] / 1000,
        "chunk_count_ns": before["chunk_count"] / 1000,
        "bound_ns": exact.bound / 1000,
        "gap_to_head_tail": round(exact.makespan / before["head_tail"] - 1, 5),
        "gap_before_search": round(exact.makespan / known - 1, 5),
        "gap": round(exact.gap, 5),
    }


def test_gaps_where_chunks_cost_something() -> None:
    rows = []
    for size in SIZES:
        for latency, launch in COSTS if size != "16MiB" else COSTS[:3]:
            group = [row(network, size, latency, launch) for network in PAPER_NETWORKS]
            rows += group
            gaps = ", ".join(f"{r['gap']:.1%}" for r in group)
            means = (fmean(r[name] for r in group) for name in ("gap_to_head_tail", "gap_before_search", "gap"))
            print(size, latency, launch, gaps, "; mean", " -> ".join(f"{mean:.1%}" for mean in means), flush=True)
            _write(rows)
            assert all(r["gap"] >= -1e-9 for r in group)


def _write(rows: list[dict[str, Any]]) -> None:
    if "THEMIS_OPT_BENCHMARK_OUTPUT" in os.environ:
        with Path(os.environ["THEMIS_OPT_BENCHMARK_OUTPUT"], "costs.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
