"""Problems that other groups published: ours, theirs and the bound, as CSV beside this file.

    python reports/rivals/problems.py [TABLE...]

Seven tables, by default all: `rivals`, every problem of ``instances/rivals/answers.csv`` with several chunk counts;
`designs`, the design problems there; `six`, the design of a network of six dimensions for five workloads; `gains`, what
free orders gain over the fixed one on networks of the paper and real clusters; `rails`, what links side by side gain;
`sweeps`, what if latency, launches or NPUs of a dimension were others; `scale`, how long plans of very large networks
take, in a process that is warm and in one that is fresh.
"""

import csv
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import themis_opt
from themis_opt import Collective, Dimension, Instance, Network, Schedule, make_policy, simulate, validate
from themis_opt.base.compiled import compile_at_once
from themis_opt.batches.experiment_run import source_commit
from themis_opt.designing.problem import DesignProblem, shipped_problems
from themis_opt.formats.tables import to_csv
from themis_opt.problem.catalog import INSTANCES, shipped
from themis_opt.schedules.explanation import explain
from themis_opt.study.sweep import plain

ANSWERS = list(csv.DictReader((INSTANCES / "rivals" / "answers.csv").open(encoding="utf-8")))
CHUNKS = (1, 4, 64, 252, 256, 1024)
FREE = "hourglass:sizes=free"
PS_PER_US, PS_PER_NS = 10**6, 10**3
REPEATS = 5


def planned(instance: Instance, policy: str = "hourglass") -> tuple[Schedule, float]:
    """A validated schedule, and the median seconds that its plan takes once everything is loaded."""
    chosen, seconds = make_policy(policy), []
    for number in range(REPEATS + 1):
        unknown = instance.replace(name=f"{instance.name} {number}")  # so that nothing is kept of it
        started = perf_counter()
        plan = chosen(unknown)
        seconds.append(perf_counter() - started)
    schedule = simulate(instance, plan)
    validate(schedule)
    return schedule, statistics.median(seconds[1:])


def rivals() -> list[dict[str, Any]]:
    """Problems of other groups."""
    rows = []
    for answer in ANSWERS:
        instance, theirs = themis_opt.load(answer["instance"]), float(answer["time_us"])
        cut = themis_opt.bounds(instance)["cut"] / PS_PER_US
        row: dict[str, Any] = {"problem": answer["instance"], "rival": answer["rival"], "theirs_us": theirs}
        for count in CHUNKS:
            schedule, seconds = planned(instance.overridden(chunks=count))
            row[f"ours_{count}_us"] = round(schedule.makespan / PS_PER_US, 2)
            if count == 256:
                row["plan_256_ms"] = round(1000 * seconds, 1)
        allowed = instance.overridden(chunks=256)
        free = simulate(allowed, make_policy(FREE)(allowed))
        validate(free)
        row |= {"free_us": round(free.makespan / PS_PER_US, 2), "free_chunks": len(free.plan.chunks[0].sizes)}
        best = min(row["free_us"], *(row[f"ours_{count}_us"] for count in CHUNKS))
        assert cut <= best * (1 + 1e-6)
        rows.append(
            row
            | {
                "cut_us": round(cut, 2),
                "theirs_above_percent": round(100 * (theirs / cut - 1), 2),
                "ours_256_above_percent": round(100 * (row["ours_256_us"] / cut - 1), 3),
                "best_above_percent": round(100 * (best / cut - 1), 3),
            }
        )
    return rows


def designs() -> list[dict[str, Any]]:
    """Their design problems."""
    rows = []
    for name in shipped_problems():
        row: dict[str, Any] = {"problem": name}
        designs = {}
        for reading in ("fixed", "free", "simulated"):
            started = perf_counter()
            designs[reading] = themis_opt.design(name, reading)
            row[f"{reading}_s"] = round(perf_counter() - started, 2)
        fixed, free, simulated = designs["fixed"], designs["free"], designs["simulated"]
        rows.append(
            {
                "problem": name,
                "fixed_gb_per_s": " ".join(f"{b / 1e9:.2f}" for b in fixed.bandwidths),
                "fixed_ns": round(fixed.time / PS_PER_NS),
                "free_gb_per_s": " ".join(f"{b / 1e9:.2f}" for b in free.bandwidths),
                "free_ns": round(free.time / PS_PER_NS),
                "bound_ns": round(free.bound / PS_PER_NS),
                "simulated_ns": round(simulated.time / PS_PER_NS),
                "fixed_over_free": round(fixed.time / free.time, 3),
                "simulated_above_bound_percent": round(100 * simulated.gap, 2),
            }
            | {key: value for key, value in row.items() if key.endswith("_s")}
        )
        assert free.bound <= free.time * (1 + 1e-9)
    return rows


NAMES = ("chip", "board", "node", "rack", "pod", "hall")
KINDS = ("ring", "fully_connected", "ring", "switch", "switch", "switch")
SIX = DesignProblem.model_validate(
    {
        "name": "six dimensions, five workloads",
        "network": {
            "dimensions": [
                {"name": name, "kind": kind, "size": size}
                for name, kind, size in zip(NAMES, KINDS, (4, 8, 4, 8, 8, 8), strict=True)
            ]
        },
        "workloads": [
            {"name": name, "weight": weight, "collectives": [{"kind": kind, "size": size, "dimensions": span}]}
            for name, weight, kind, size, span in (
                ("a", 2, "all_reduce", "1 GiB", NAMES),
                ("b", 1, "all_gather", "512 MiB", NAMES[:3]),
                ("c", 1, "all_to_all", "64 MiB", NAMES[2:5]),
                ("d", 1, "reduce_scatter", "2 GiB", NAMES[1:5]),
                ("e", 1, "all_reduce", "300 MiB", NAMES[3:]),
            )
        ],
        "budget": {"bandwidth": "2000 GB/s"},
        "constraints": ["chip >= board", "node >= 2 rack", "pod + hall <= 300 GB/s"],
    }
)


def six() -> list[dict[str, Any]]:
    """A design of six dimensions for five workloads."""
    rows = []
    for reading in ("fixed", "free"):
        started = perf_counter()
        design = themis_opt.design(SIX, reading)
        seconds = perf_counter() - started
        rows.append(
            {
                "reading": reading,
                "gb_per_s": " ".join(f"{b / 1e9:.1f}" for b in design.bandwidths),
                "time_us": round(design.time / PS_PER_US, 1),
                "gap": f"{design.gap:.1e}",
                "seconds": round(seconds, 2),
            }
        )
        assert design.gap < 1e-6
    return rows


def gains() -> list[dict[str, Any]]:
    """Which networks gain how much by free orders."""
    chosen = [
        name
        for name, path in shipped().items()
        if path.parent.name in ("paper", "clusters") and name.endswith((".all_reduce.1GiB", ".all_reduce.1000MiB"))
    ]
    rows = []
    for name in chosen:
        instance = themis_opt.load(name).overridden(size="1 GiB", chunks=64)
        (fixed, _), (free, seconds) = planned(instance, "baseline"), planned(instance)
        bound = max(themis_opt.bounds(instance, equal_sizes=True).values())
        rows.append(
            {
                "network": instance.network.name,
                "bandwidths_gb_per_s": " ".join(f"{b / 1e9:.4g}" for b in instance.network.bandwidths),
                "fixed_us": round(fixed.makespan / PS_PER_US, 1),
                "hourglass_us": round(free.makespan / PS_PER_US, 1),
                "faster_percent": round(100 * (fixed.makespan / free.makespan - 1), 1),
                "most_possible_percent": round(100 * (fixed.makespan / bound - 1), 1),
                "plan_ms": round(1000 * seconds, 1),
            }
        )
    return sorted(rows, key=lambda row: row["faster_percent"])


def alone(dimension: Dimension) -> Dimension:
    """The first rail of a dimension as all there is."""
    costs = {"latency": f"{dimension.latency} ps", "bandwidth": dimension.rails[0].bandwidth}
    return Dimension(kind=dimension.kind, algorithm=dimension.algorithm, size=dimension.size, **costs)


def rails() -> list[dict[str, Any]]:
    """What rails gain over the first of them."""
    rows = []
    for kind in ("all_reduce", "all_gather"):
        for size in ("1 MB", "4 MB", "16 MB", "64 MB", "256 MB", "1024 MB"):
            whole = themis_opt.load("flexlink.h800.all_reduce.256MB")
            rails = whole.replace(collectives=(whole.collectives[0].replace(kind=kind, size=size),))
            one = rails.varied(network=Network(dimensions=(alone(rails.network.dimensions[0]),)))
            (together, _), (single, _) = planned(rails), planned(one)
            loads = explain(together).rails
            bound = max(themis_opt.bounds(rails).values())
            rows.append(
                {
                    "collective": kind,
                    "size": size,
                    "one_us": round(single.makespan / PS_PER_US, 2),
                    "rails_us": round(together.makespan / PS_PER_US, 2),
                    "more_bandwidth_percent": round(100 * (single.makespan / together.makespan - 1), 1),
                    "gap_percent": round(100 * (together.makespan / bound - 1), 3),
                }
                | {f"{load.rail}_percent": round(100 * load.share, 1) for load in loads}
            )
    return rows


AXES = {
    "dim3.latency": ["0 s", "1.7 us", "5 us", "20 us", "80 us"],
    "dim1.launch_overhead": ["0 s", "1 us", "4 us", "16 us"],
    "dim3.size": [2, 4, 8, 16, 32, 64],
}


def sweeps() -> list[dict[str, Any]]:
    """What if a dimension were another."""
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB")
    policies = ("baseline+fifo", "themis+scf", "hourglass")
    rows = []
    for axis, values in AXES.items():
        swept = themis_opt.sweep(instance, {axis: values}, policies)
        for value in values:
            by_policy = {row["policy"]: row for row in swept if row[axis] == plain(axis, value)}
            times = {
                f"{name.partition('+')[0]}_us": round(by_policy[name]["makespan_ns"] / 1000, 2) for name in policies
            }
            gap = round(100 * by_policy["hourglass"]["gap"], 2)
            rows.append({"varied": axis, "value": value, **times, "hourglass_gap_percent": gap})
    return rows


def ring(size: int) -> Dimension:
    """A ring of fast links."""
    return Dimension(kind="ring", size=size, bandwidth="100 GB/s", latency="1 us")


def network(*dimensions: tuple[str, int, str, str]) -> tuple[Dimension, ...]:
    """Dimensions by kind, NPUs, bandwidth and latency."""
    return tuple(Dimension(kind=k, size=size, bandwidth=b, latency=late) for k, size, b, late in dimensions)


LARGE: dict[str, Callable[[], tuple[Dimension, ...]]] = {
    "torus 32 x 32 x 40": lambda: (ring(32), ring(32), ring(40)),
    "six dimensions, 4 x 8 x 4 x 8 x 32 x 32": lambda: network(
        ("ring", 4, "1000 GB/s", "20 ns"),
        ("fully_connected", 8, "400 GB/s", "700 ns"),
        ("ring", 4, "200 GB/s", "700 ns"),
        ("switch", 8, "200 GB/s", "700 ns"),
        ("switch", 32, "100 GB/s", "1700 ns"),
        ("switch", 32, "50 GB/s", "1700 ns"),
    ),
    "six-dimensional torus, 10 each": lambda: tuple(ring(10) for _ in range(6)),
}


FRESH = """
from time import perf_counter
started = perf_counter()
import sys, themis_opt
instance = themis_opt.Instance.model_validate_json(sys.stdin.read())
policy = themis_opt.make_policy("hourglass")
loaded = perf_counter()
policy(instance)
print(loaded - started, perf_counter() - loaded)
"""


def fresh(instance: Instance) -> tuple[float, float]:
    """Median seconds that a new process takes to load the library, and then for its first plan."""
    command = [sys.executable, "-c", FRESH]
    runs = [
        subprocess.run(command, input=instance.model_dump_json(), capture_output=True, text=True, check=True).stdout
        for _ in range(REPEATS)
    ]
    loading, planning = zip(*(map(float, run.split()) for run in runs), strict=True)
    return statistics.median(loading), statistics.median(planning)


def scale() -> list[dict[str, Any]]:
    """Plans of very large networks."""
    rows = []
    for name, dimensions in LARGE.items():
        collective = Collective(kind="all_reduce", size="1 GiB", chunks=64)
        instance = Instance(network=Network(dimensions=dimensions()), collectives=(collective,))
        schedule, seconds = planned(instance)
        loading, first = fresh(instance)
        bounds = themis_opt.bounds(instance, equal_sizes=schedule.has_equal_sizes)
        rows.append(
            {
                "network": name,
                "npus": instance.network.num_npus,
                "plan_ms": round(1000 * seconds, 1),
                "fresh_plan_ms": round(1000 * first),
                "loading_ms": round(1000 * loading),
                "makespan_us": round(schedule.makespan / PS_PER_US, 1),
                "gap_percent": round(100 * (schedule.makespan / max(bounds.values()) - 1), 2),
                "above_cut_percent": round(100 * (schedule.makespan / bounds["cut"] - 1), 2),
            }
        )
    return rows


TABLES = {table.__name__: table for table in (rivals, designs, six, gains, rails, sweeps, scale)}

TIMED = ("designs", "six", "scale")
"""Tables of seconds, or of solvers that stop at a tolerance."""

SINGLE: dict[str, Callable[[int], dict[str, Any]]] = {}
"""How tables make one row by its number."""


def main(names: Sequence[str]) -> None:
    """Make tables, by default all, and write each when it is done."""
    compile_at_once()  # so that plans take what they take in a process that makes many
    for name in names or TABLES:
        text = to_csv([row | {"commit": source_commit()} for row in TABLES[name]()])
        print(f"{name}\n{text}")
        Path(__file__).with_name(f"{name}.csv").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
