"""How soon clusters are bounded and planned: CPU seconds and memory from 64 to 16,384 GPUs, whole and without a NIC.

``python benchmarks/cluster_speed.py -o rows.csv`` runs each case in a process of its own.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from itertools import pairwise, product
from pathlib import Path

SIZES = (64, 256, 1024, 4096, 16384)
KINDS = ("all_gather", "all_reduce", "all_to_all")
COLUMNS = (
    "npus", "kind", "lost", "read_cpu_s", "bounds_cpu_s", "plan_cpu_s", "check_cpu_s", "chunks", "gap", "memory_mb",
)  # fmt: skip


def measure(npus: int, kind: str, lost: int) -> dict[str, float | str]:
    """One case, in this process."""
    from themis_opt.graphs.bounds import best_bound
    from themis_opt.graphs.clusters import Cluster, cluster, made
    from themis_opt.graphs.policies import hierarchical_plan
    from themis_opt.graphs.schedule import in_best_chunks
    from themis_opt.graphs.validation import validate_graph

    moments = [time.process_time()]
    instance = made(cluster(Cluster("h100", npus), kind))
    if lost:
        nics = [link.name for link in instance.network.links if ".nic" in link.name]
        instance = instance.on(instance.network.without(nics[:lost]))
    moments.append(time.process_time())
    bound = float(best_bound(instance).picoseconds)
    moments.append(time.process_time())
    schedule = in_best_chunks(hierarchical_plan(instance), 1.002 * bound)
    moments.append(time.process_time())
    validate_graph(schedule)
    moments.append(time.process_time())
    seconds = [round(end - begin, 2) for begin, end in pairwise(moments)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    values = (npus, kind, lost, *seconds, schedule.chunks, round(schedule.makespan / bound - 1, 5), memory)
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    """Run all cases, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--case", nargs=3)
    arguments = parser.parse_args()
    if arguments.case:
        npus, kind, lost = arguments.case
        print(json.dumps(measure(int(npus), kind, int(lost))))
        return
    with arguments.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for npus, kind, lost in product(SIZES, KINDS, (0, 1)):
            command = [sys.executable, __file__, "--case", str(npus), kind, str(lost)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            writer.writerow(row)
            file.flush()
            print(row)


if __name__ == "__main__":
    main()
