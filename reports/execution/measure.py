"""Measures predicted beside measured times of schedules on this machine; rows go to reports/execution as they arrive.

python reports/execution/measure.py --seconds 270    # until all cases have rows
python reports/execution/draw.py                     # README.md and pictures from the rows
"""

import argparse
import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from themis_opt import Collective, Dimension, Instance, Network, make_policy, simulate
from themis_opt.batches.rows_file import read_csv_text, write_csv
from themis_opt.runtime.coordinator import Coordinator, local
from themis_opt.runtime.execution import execute
from themis_opt.runtime.program import RunOptions

ROWS = Path(__file__).with_name("rows.csv.gz")

POLICIES = ("baseline+fifo", "baseline+scf", "themis+fifo", "themis+scf", "hourglass", "search:evaluations=2000")

NETWORKS: Mapping[str, tuple[str, ...]] = {
    "4x2": ("100 Mb/s", "50 Mb/s"),
    "2x2x2": ("100 Mb/s", "100 Mb/s", "50 Mb/s"),
    "8x2": ("60 Mb/s", "30 Mb/s"),
    "4x2x2": ("40 Mb/s", "40 Mb/s", "20 Mb/s"),
    "2x2x2x2": ("40 Mb/s", "40 Mb/s", "20 Mb/s", "20 Mb/s"),
}

SIZES = {8: ("4 MiB", "8 MiB", "16 MiB"), 16: ("2 MiB", "4 MiB", "8 MiB")}  # by the number of ranks


@dataclass(frozen=True)
class Case:
    """What is run; all policies together."""

    network: str
    kind: str = "all_reduce"
    size: str = "8 MiB"
    chunks: int = 8
    transport: str = "tcp"
    launch: str = "0"
    latency: str = "0"

    @property
    def num_ranks(self) -> int:
        """Processes."""
        count = 1
        for size in self.network.split("x"):
            count *= int(size)
        return count

    def instance(self) -> Instance:
        """The problem."""
        dimensions = tuple(
            Dimension(kind="switch", size=int(size), bandwidth=rate, launch_overhead=self.launch, latency=self.latency)
            for size, rate in zip(self.network.split("x"), NETWORKS[self.network], strict=True)
        )
        collective = Collective(kind=self.kind, size=self.size, chunks=self.chunks, element_bytes=4)
        return Instance(network=Network(dimensions=dimensions), collectives=(collective,))


def cases() -> Iterator[Case]:
    """All cases, those that matter most first."""
    largest = {name: SIZES[Case(name).num_ranks][2] for name in NETWORKS}
    yield from (Case(name, size=size) for name, size in largest.items())
    yield from (Case("4x2", kind) for kind in ("reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"))
    yield Case("4x2", size="16 MiB", chunks=32)
    yield from (Case(name, size=size) for name in NETWORKS for size in SIZES[Case(name).num_ranks][1::-1])
    yield Case("4x2", size="16 MiB", launch="5 ms")
    yield Case("4x2", size="16 MiB", launch="2 ms", latency="1 ms")
    yield Case("4x2", transport="torch")
    yield Case("4x2", size="1 MiB", chunks=32)


def main() -> None:
    """Measure until the time is over; cases that have been run often enough are left as they are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=270.0)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    began, rows = monotonic(), _read()
    done = {_case(row) for row in rows if int(row["runs"]) >= arguments.repeat}
    for case in cases():
        words = tuple(map(str, asdict(case).values()))
        if words in done:
            continue
        if monotonic() - began > arguments.seconds:
            break
        rows = [row for row in rows if _case(row) != words] + _measured(case, arguments.repeat)
        _write(rows)
        print(*words, max(row["error"] for row in rows if _case(row) == words), flush=True)


def _read() -> list[dict[str, Any]]:
    if not ROWS.exists():
        return []
    return list(csv.DictReader(read_csv_text(ROWS).splitlines()))


def _case(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in Case.__dataclass_fields__)


def _measured(case: Case, repeat: int) -> list[dict[str, Any]]:
    instance = case.instance()
    schedules = {name: simulate(instance, make_policy(name)(instance)) for name in POLICIES}
    with Coordinator(case.num_ranks, local(case.num_ranks, case.transport)) as ranks:
        rows = execute(schedules, ranks, RunOptions(), repeat=repeat).rows()
    load = {
        "smallest_stage_bytes": min(min(schedule.costs.sent) for schedule in schedules.values()),
        "load": os.getloadavg()[0],
    }
    flat = ({name: value for name, value in row.items() if not isinstance(value, list)} for row in rows)
    return [asdict(case) | row | load for row in flat]


def _write(rows: list[dict[str, Any]]) -> None:
    """All rows, in the order of the cases."""
    order = {tuple(map(str, asdict(case).values())): number for number, case in enumerate(cases())}
    write_csv(ROWS, list(rows[0]), sorted(rows, key=lambda row: order[_case(row)]))


if __name__ == "__main__":
    main()
