"""What the reference proves where every chunk costs something: six networks, two sizes, three kinds of costs.

    python reports/references/costs.py [SECONDS [SIZE...]]

prints the gaps, and the bound before any search, and writes ``costs.csv.gz`` beside it.  It takes half of a minute
per row and network unless SECONDS says otherwise; other sizes than 16MiB and 100MiB can be named.
"""

import gzip
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import themis_opt
from themis_opt.formats.tables import to_csv
from themis_opt.problem.catalog import shipped
from themis_opt.problem.instance import Instance
from themis_opt.solving.bounds import bounds

NETWORKS = [name for name, path in shipped().items() if path.parent.name == "paper" and "all_reduce.100MiB" in name]
COSTS = [("lag", "2 us"), ("occupy", "0 us"), ("occupy", "2 us"), ("occupy", "10 us")]
PACKET = {"payload": 4096, "header": 30}


def case(network: str, size: str, latency: str, launch: str) -> Instance:
    """Up to 64 chunks of free sizes."""
    instance = themis_opt.load(network).overridden(size=size, chunks=64, latency=latency)
    dimensions = tuple(
        dimension.replace(launch_overhead=launch, packet=PACKET) for dimension in instance.network.dimensions
    )
    return instance.replace(network=instance.network.replace(dimensions=dimensions))


def row(network: str, size: str, latency: str, launch: str, seconds: float) -> dict[str, Any]:
    """What the reference reaches in some seconds, and the bounds."""
    instance = case(network, size, latency, launch)
    before = bounds(instance, equal_sizes=False)
    compared = themis_opt.compare(instance, ("hourglass", "exact"), time_limit=seconds, sizes="free")
    hourglass, exact = compared.results
    known = max(before.values())
    return {
        "network": network.partition(".")[0],
        "size": size,
        "latency": latency,
        "launch_overhead": launch,
        "seconds": seconds,
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


def main(seconds: float = 30.0, *sizes: str) -> None:
    """Write the table anew after each size and kind of costs."""
    rows = []
    for size in sizes or ("16MiB", "100MiB"):
        for latency, launch in COSTS if size != "16MiB" else COSTS[:3]:
            group = [row(network, size, latency, launch, seconds) for network in NETWORKS]
            rows += group
            gaps = ", ".join(f"{r['gap']:.1%}" for r in group)
            means = (fmean(r[name] for r in group) for name in ("gap_to_head_tail", "gap_before_search", "gap"))
            print(size, latency, launch, gaps, "; mean", " -> ".join(f"{mean:.1%}" for mean in means), flush=True)
            Path(__file__).with_name("costs.csv.gz").write_bytes(gzip.compress(to_csv(rows).encode(), mtime=0))
            assert all(r["gap"] >= -1e-9 for r in group)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *sys.argv[2:])
