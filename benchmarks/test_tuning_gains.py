"""What tuning gains over 64 equal chunks with themis+scf.

The networks of the paper, all-reduce of 100 MiB, 100 trials, seed 0; a stage is launched in 2 us and packets are those
of InfiniBand with 4096 B of payload and 30 B of headers.  Step latencies delay the chunk (`lag`) or hold the
dimension (`occupy`).  THEMIS_OPT_BENCHMARK_OUTPUT sets the folder for the table `tuning`, as CSV, Markdown and SVG.
"""

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.formats.tables import to_csv
from themis_opt.reports.rendering.charts import Axis, bars, save
from themis_opt.tuning import Tuned, tune

pytestmark = pytest.mark.benchmarks

OUTPUT = os.environ.get("THEMIS_OPT_BENCHMARK_OUTPUT")
COSTS = {"launch_overhead": "2 us", "packet": "4096B/30B"}
TRIALS, SEED = 100, 0
NS_PER_US = 1000


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Collects a row per search; all are written after each."""
    return []


def searched(network: str, latency: str) -> Tuned:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB")
    return tune(instance, trials=TRIALS, seed=SEED, latency=latency, **COSTS)


def row_of(network: str, latency: str, tuned: Tuned) -> dict[str, Any]:
    default, best = tuned.rows()
    return {
        "network": network,
        "latency": latency,
        "default_us": round(default["makespan_ns"] / NS_PER_US, 1),
        "best_us": round(best["makespan_ns"] / NS_PER_US, 1),
        "gain_percent": round(100 * tuned.gain, 1),
        "default_utilisation": round(default["utilisation"], 3),
        "best_utilisation": round(best["utilisation"], 3),
        "setting": tuned.space.describe(tuned.choice),
        "found_at_trial": tuned.best.number,
        "trials_with_repeats": len(tuned.trials),
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The default and the tuned time of each network, where the latency delays the chunk."""
    names = {"default_us": "64 chunks, themis+scf", "best_us": "tuned"}
    frame = pd.DataFrame(rows).query("latency == 'lag'").melt("network", list(names), "setting", "us")
    frame = frame.assign(setting=frame["setting"].map(names))
    save(bars(frame, "network", Axis("us", "makespan, us"), "setting"), path)


def write(rows: list[dict[str, Any]]) -> None:
    if OUTPUT is None:
        return
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    Path(OUTPUT).mkdir(parents=True, exist_ok=True)
    (Path(OUTPUT) / "tuning.csv").write_text(to_csv(rows), encoding="utf-8")
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    draw(rows, Path(OUTPUT) / "tuning.svg")
    (Path(OUTPUT) / "tuning.md").write_text(table, encoding="utf-8")


@pytest.mark.parametrize("latency", ["lag", "occupy"])
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_tuning_gains_and_repeats(rows: list[dict[str, Any]], network: str, latency: str) -> None:
    tuned = searched(network, latency)
    rows.append(row_of(network, latency, tuned))
    write(rows)
    assert tuned.schedule.makespan < tuned.default_schedule.makespan
    again = searched(network, latency)
    assert [(t.choice, t.measurement) for t in again.trials] == [(t.choice, t.measurement) for t in tuned.trials]
    assert again.schedule == tuned.schedule
