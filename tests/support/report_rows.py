"""Rows as a batch writes them, made up for the tests of reports."""

import csv
import json
import math
from pathlib import Path
from random import Random
from types import SimpleNamespace

from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.making import report_function
from themis_opt.reports.rendering.charts import specification
from themis_opt.reports.rows import RunRow, RunRows

COLUMNS = (
    "experiment", "block", "instance", "fingerprint", "network", "dimensions", "npus", "kind", "size_bytes",
    "chunks", "latency", "ag_order", "launch_overhead_ns", "packet", "policy", "seed", "time_limit", "workers",
    "gap_asked", "sizes", "status", "error", "makespan_ns", "utilisation", "algbw_bytes_per_s", "busbw_bytes_per_s",
    "bound_ns", "bound_equal_ns", "seconds", "simulate_seconds", "extra", "code_version", "started", "host",
)  # fmt: skip
"""Header of rows.csv."""

MIB = 2**20
NETWORKS = ("2d-sw_sw", "3d-fc_ring_sw", "4d-ring_fc_ring_sw")
HEURISTICS = {"baseline+fifo": 0.9, "themis+fifo": 0.35, "themis+scf": 0.3, "hourglass": 0.02}
"""Policies, and their gaps at 64 chunks."""


def row(**changes):
    """A run that went well, as cells of the CSV."""
    cells = dict.fromkeys(COLUMNS, "") | {
        "experiment": "made_up", "instance": "net.all_reduce.1MiB", "fingerprint": "f", "network": "net",
        "dimensions": 2, "npus": 16, "kind": "all_reduce", "size_bytes": MIB, "chunks": 4, "latency": "lag",
        "ag_order": "free", "policy": "themis+scf", "sizes": "equal", "status": "ok", "makespan_ns": 1000.0,
        "seconds": 0.01, "simulate_seconds": 0.001, "extra": "{}", "code_version": "0.1.0-abc",
    }  # fmt: skip
    return cells | changes


def bound(**changes):
    """A run that proves bounds."""
    return row(policy="bound", makespan_ns="", bound_ns=1000.0) | changes


def frame(rows):
    """Rows as a report function takes them."""
    cells = [{column: str(cell) for column, cell in row.items() if cell != ""} for row in rows]
    return RunRows(tuple(RunRow.model_validate(row) for row in cells)).to_frame()


def drawn(report, name):
    """The series of a figure by name, each with its places, the ends of its range, and whether it is a guide."""
    (figure,) = [figure for figure in report.figures if figure.name == name]
    return series_of(figure.chart)


def series_of(chart):
    """The series of a chart by name."""
    spec = specification(chart)
    (cells,) = spec["datasets"].values()
    fields = {name: layer["encoding"][name]["field"]
              for layer in spec["layer"] for name in ("x", "y", "color") if name in layer["encoding"]}  # fmt: skip
    names = dict.fromkeys(row.get(fields["color"]) for row in cells)
    return {name: _series([row for row in cells if row.get(fields["color"]) == name], fields) for name in names}


def _series(rows, fields):
    places = {"x": fields["x"], "y": fields["y"], "low": "low", "high": "high"}
    columns = {name: tuple(row[field] for row in rows if field in row) for name, field in places.items()}
    return SimpleNamespace(**columns, guide=any(row.get("_part") == "guide" for row in rows))


def write_rows(path: Path, rows, columns=COLUMNS) -> Path:
    """Write rows as CSV, with only these columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_experiment(folder: Path, report: str, rows, **fields) -> Path:
    """Write the folder of an experiment: head of the experiment file, and rows."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"name": folder.name, "title": f"Rows for {report}", "report": path_of(report)} | fields
    lines = "".join(f"{field} = {json.dumps(value)}\n" for field, value in head.items())
    (folder / "experiment.toml").write_text(lines, encoding="utf-8")
    write_rows(folder / "rows.csv", rows)
    return folder


def grid_rows(chunks=(2, 8, 64, 512), sizes=(2**16, MIB, 100 * MIB, 1000 * MIB)):
    """Policies, bounds and a search on networks x sizes x chunks, with gaps that shrink with the chunks."""
    dice = Random(0)
    made = []
    for network in NETWORKS:
        for size in sizes:
            for count in chunks:
                name = f"{network}.all_reduce.{size}"
                place = {
                    "instance": name, "fingerprint": f"{name}.{count}", "network": network, "size_bytes": size,
                    "chunks": count, "dimensions": int(network[0]),
                }  # fmt: skip
                least = 5000 + size / 100
                made.append(bound(**place, bound_ns=0.99 * least, bound_equal_ns=least))
                for policy, gap in HEURISTICS.items():
                    loss = gap * (64 / count) ** 0.4 * dice.uniform(0.8, 1.2)
                    made.append(
                        row(**place, policy=policy, makespan_ns=least * (1 + loss), utilisation=0.9 / (1 + loss))
                    )
                made.append(_search(place, least, dice))
    return made


def _search(place, least, dice):
    gap = dice.choice((0, 5e-5, 1e-3, 1e-2))
    steps = range(dice.randint(4, 9))
    path = [[0.05 * 3**k * dice.uniform(0.8, 1.2), least * (1 + gap + 0.3 * 0.3**k), 0.9 * least] for k in steps]
    path.append([path[-1][0] + 1, least * (1 + gap), 0.95 * least])
    return row(**place, policy="exact", makespan_ns=least * (1 + gap), bound_ns=0.95 * least, seconds=60, time_limit=60,
               extra=json.dumps({"trajectory": path}))  # fmt: skip


def random_rows(count=1000, sample=100):
    """Policies and bounds on random networks, and a search on a sample of them."""
    dice = Random(1)
    made = []
    for seed in range(count):
        place = {"instance": f"random:{seed}", "fingerprint": f"r{seed}", "network": f"random-{seed}"}
        loss = dice.lognormvariate(-2, 1)
        made.append(bound(**place, bound_ns=1e6))
        for policy, part in (("baseline+fifo", 3), ("themis+scf", 1), ("hourglass", dice.uniform(0, 0.5))):
            made.append(row(**place, policy=policy, makespan_ns=1e6 * (1 + part * loss)))
        if seed < sample:
            made.append(row(**place, policy="exact", makespan_ns=1e6 * (1 + 1e-4 * dice.random()), seconds=10))
    return made


def scaling_rows():
    """Seconds that grow as n log n with chunks and with dimensions, and not with NPUs."""
    cases = [("chunks", 4, 1024, 2**k) for k in range(2, 13)]
    cases += [("dimensions", k, 4**k, 64) for k in range(2, 7)] + [("npus", 3, 8**k, 64) for k in range(2, 6)]
    return [run for case in cases for run in _sized_runs(*case)]


def _sized_runs(block, dimensions, npus, chunks):
    stages = 2 * dimensions * chunks
    work = stages * math.log(stages)
    name = f"{dimensions}d.{npus}.{chunks}"
    place = {"block": block, "instance": name, "fingerprint": name,
             "dimensions": dimensions, "npus": npus, "chunks": chunks}  # fmt: skip
    runs = (("themis+scf", 2e-7), ("hourglass", 2e-6), ("exact", 1e-4))
    return [
        row(**place, policy=policy, seconds=factor * work + 1e-7 * work, simulate_seconds=1e-7 * work)
        for policy, factor in runs
    ]


def iteration(compute, exposed, *, model=0.0, **changes):
    """A training iteration: its compute, and what it exposes of data and of model parallelism, in ns."""
    extra = {"compute_ns": compute, "exposed_ns": exposed + model, "exposed_data_ns": exposed,
             "exposed_model_ns": model, "overlap": 0.5, "launches": 3, "steps": 1}  # fmt: skip
    extra |= changes.pop("extra", {})
    return row(kind="iteration", makespan_ns=compute + exposed + model, extra=json.dumps(extra)) | changes


def panel_rows(instance, block, network="V100-256", policies=(), **changes):
    """Policies, the reference and bounds on one training iteration of 1000 ns compute."""
    place = {"block": block, "instance": instance, "network": network, "fingerprint": instance} | changes
    heads = {"fused:order=newest/baseline+fifo": 1000, "fused/themis+scf": 600, "fused/themis+scf_largest": 610,
             "fused/hourglass": 500, "ddp/hourglass": 400, "exact": 380}  # fmt: skip
    chosen = {policy: heads[policy] for policy in policies or heads}
    ideal = {"bounds_ns": {"ideal": 1350, "critical_path": 1370}}
    made = [bound(**place, kind="iteration", bound_ns=1370, bound_equal_ns=1370, extra=json.dumps(ideal))]
    return made + [
        iteration(1000, exposed, model=20.0, **place, policy=policy, sizes="free" if policy == "exact" else "equal")
        for policy, exposed in chosen.items()
    ]


def bucket_rows(times):
    """Iterations with buckets of some sizes: names such as 1MiB, and ns."""
    place = {"block": "buckets", "instance": "v100-256.resnet-50", "fingerprint": "buckets"}
    return [
        iteration(1000, time - 1000, **place, policy=f"ddp:first_cap={size}:cap={size}/hourglass",
                  launch_overhead_ns=10000.0)
        for size, time in times.items()
    ]  # fmt: skip


def workload_rows(block, choices, times, policy="ddp/hourglass", model="vgg-16-cifar"):
    """Iterations that differ by choices of their workload; `times` are pairs of compute and exposed, in ns."""
    return [
        iteration(compute, exposed, block=block, policy=policy, instance=f"{model} {choice}",
                  fingerprint=f"{block}{model}{choice}", npus=choice.get("npus", 8),
                  extra={"workload": {"model": model} | choice, "steps": choice.get("accumulate", 1),
                         "memory_bytes": choice.get("memory")})
        for choice, (compute, exposed) in zip(choices, times, strict=True)
    ]  # fmt: skip


def sample(report):
    """Rows that show everything a report has to say."""
    return _SAMPLES[report]()


_SAMPLES = {
    "table": lambda: [*grid_rows(), row(fingerprint="none", status="failed", error="no answer", makespan_ns="")],
    "policies": lambda: [*grid_rows(), *random_rows(60, sample=20)],
    "scaling": scaling_rows,
}

SAMPLED = tuple(_SAMPLES)  # reports that have sample rows


DRAWN = ("policies", "scaling", "paper_reproduction", "chunk_tuning", "iterations")


def path_of(report):
    """The name by which experiments ask for a report: those of this repository are its functions."""
    return f"drawing.{report}:{report}" if report in DRAWN else report


def draw(report, rows, experiment=None):
    """What a report makes of a frame of rows, under the name by which experiments ask for it."""
    return report_function(path_of(report))(rows, experiment or ExperimentHead(report, report))
