"""Makes the report of reports/execution from its rows.csv.gz and checks.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from themis_opt.formats.plot import save_figure
from themis_opt.reports.rendering.charts import INK, LINE, QUIET

HERE = Path(__file__).parent
TEXT = HERE / "text.md"
LARGE = 100 * 2**10  # bytes that the smallest stage of a case sends, from which the model is expected to hold
RECENT_RUNS = 5  # rows of fewer runs were measured with an earlier version of the runtime
COLOURS = {"tcp": "#1d4e89", "mpi": "#c8553d", "torch": "#588157"}
CASE = ["network", "kind", "size", "chunks", "transport", "launch", "latency"]


def rows() -> pd.DataFrame:
    """The measurements, with the error of speedups, and whether all stages are large."""
    frame = pd.read_csv(HERE / "rows.csv.gz")
    frame["ratio_error"] = frame.speedup_measured / frame.speedup_predicted - 1
    frame["is_large"] = frame.smallest_stage_bytes >= LARGE
    return frame


def scatter(frame: pd.DataFrame) -> Figure:
    """Predicted against measured times."""
    figure = Figure(figsize=(9.5, 4.4), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    ends = [frame.predicted_s.min() * 0.9, frame.measured_s.max() * 1.1]
    left.plot(ends, ends, color=QUIET, linewidth=0.8)
    for (transport, is_large), group in frame.groupby(["transport", "is_large"]):
        style = {"color": COLOURS[transport], "markersize": 4, "markerfacecolor": None if is_large else "white"}
        label = f"{transport}, smallest stage {'≥' if is_large else '<'} 100 KiB"
        left.plot(group.predicted_s, group.measured_s, "o", label=label, **style)
        right.plot(group.smallest_stage_bytes / 2**10, 100 * group.error, "o", **style)
    left.set(xscale="log", yscale="log", xlabel="predicted, s", ylabel="measured, s")
    left.legend(frameon=False, fontsize=8)
    right.set(xscale="log", xlabel="smallest stage, KiB", ylabel="measured over predicted, %", ylim=(-20, 90))
    right.axhline(0, color=QUIET, linewidth=0.8)
    for axes, title in ((left, "All runs"), (right, "Small stages take longer than predicted")):
        axes.set_title(title, loc="left", color=INK, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=LINE, linewidth=0.6)
        axes.tick_params(colors=QUIET, labelsize=8.5)
    return figure


def percent(value: float) -> str:
    """With one decimal and a sign."""
    return f"{100 * value:+.1f} %"


def cases_table(frame: pd.DataFrame) -> str:
    """One line per case."""
    lines = [
        "| network | collective | size | chunks | transport | launch, latency | smallest stage, KiB | error of times, "
        "median (smallest .. largest) | "
        "largest error of speedups | fastest: predicted / measured | processors | runs |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, rows in frame.groupby(CASE, sort=False):
        best = rows.loc[rows.predicted_s.idxmin()]
        error = f"{percent(rows.error.median())} ({percent(rows.error.min())} .. {percent(rows.error.max())})"
        cells = [
            *map(str, case[:5]),
            "-" if case[5] == "0" and case[6] == "0" else f"{case[5]}, {case[6]}",
            f"{rows.smallest_stage_bytes.min() / 2**10:.0f}",
            error,
            f"{100 * rows.ratio_error.abs().max():.1f} %",
            f"{best.speedup_predicted:.3f}x / {best.speedup_measured:.3f}x",
            f"{rows.processors_busy.median():.2f}",
            f"{rows.runs.min()}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def quantiles(frame: pd.DataFrame) -> str:
    """The distribution of errors by the size of stages."""
    lines = [
        "| smallest stage | rows | median error | 90 % of errors within | largest | speedups: 90 % within | largest |",
        "|---|---|---|---|---|---|---|",
    ]
    bins = [(0, 32), (32, 100), (100, 200), (200, 10**6)]
    for low, high in bins:
        rows = frame[(frame.smallest_stage_bytes >= low * 2**10) & (frame.smallest_stage_bytes < high * 2**10)]
        if rows.empty:
            continue
        off, ratios = rows.error.abs(), rows.ratio_error.abs()
        name = f"{low} to {high} KiB" if high < 10**6 else f"from {low} KiB"
        cells = [f"{100 * value:.1f} %" for value in (off.quantile(0.9), off.max(), ratios.quantile(0.9), ratios.max())]
        lines.append(f"| {name} | {len(rows)} | {percent(rows.error.median())} | {' | '.join(cells)} |")
    return "\n".join(lines)


def wins(frame: pd.DataFrame) -> str:
    """How often hourglass was faster than Themis with SCF where it was predicted to be by 3 % or more."""
    table = frame.pivot_table(index=CASE, columns="policy", values=["predicted_s", "measured_s"], sort=False)
    predicted = table["predicted_s"]["themis+scf"] / table["predicted_s"]["hourglass"]
    measured = table["measured_s"]["themis+scf"] / table["measured_s"]["hourglass"]
    asked = predicted >= 1.03
    return f"{int((measured[asked] > 1).sum())} of {int(asked.sum())}"


def checks_text() -> str:
    """What checks.json holds, in words."""
    checks = json.loads((HERE / "checks.json").read_text())
    return "\n".join(words(checks[name]) for name, words in WORDS.items() if name in checks)


def random_words(check: dict[str, Any]) -> str:
    """Random schedules."""
    return (
        f"- **Exact.** {check['runs']} random schedules of all collectives, types, reductions and algorithms, with "
        f"several stages in flight and sizes that do not divide: {len(check['wrong'])} wrong, no deadlock."
    )


def fault_words(check: dict[str, Any]) -> str:
    """Faults."""
    slowest = max(check["slowest_seconds"].values())
    return (
        f"- **Faults.** One of four ranks killed, stopped or corrupted at {check['faults']} random instants: named "
        f"{check['named']} times, after {slowest:.0f} s at most; processes left: {len(check['left'])}."
    )


def iteration_words(check: dict[str, Any]) -> str:
    """Exposed communication, predicted and measured."""
    lines = ["| policy | iteration, predicted / measured, ms | exposed, predicted / measured, ms |", "|---|---|---|"]
    for row in check["rows"]:
        keys = [(f"{what}predicted_s", f"{what}measured_s") for what in ("", "exposed_")]
        pair = [" / ".join(f"{1e3 * row[key]:.1f}" for key in both) for both in keys]
        lines.append(f"| {row['policy']} | {pair[0]} | {pair[1]} |")
    table = "\n".join(lines)
    how = "compute as sleeps, start-ups without latency"
    return f"- **Iterations** of four layers on 4x2, {how}; all runs exact.\n\n{table}\n"


def calibration_words(check: dict[str, Any]) -> str:
    """Errors of a file that is wrong about the network, and of the calibrated one."""
    lines = [
        "| policy | file: predicted / measured, s | error | calibrated: predicted / measured, s | error |",
        "|---|---|---|---|---|",
    ]
    for both in zip(check["stated"], check["calibrated"], strict=True):
        cells = [
            cell
            for row in both
            for cell in (f"{row['predicted_s']:.3f} / {row['measured_s']:.3f}", percent(row["error"]))
        ]
        lines.append(f"| {both[0]['policy']} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    return (
        "- **What calibration buys.** A file is wrong about the bandwidths of an emulated network and lacks the "
        f"latency of its second dimension; `calibrate` measures both. Predictions with the file, and "
        f"calibrated:\n\n{table}\n"
    )


def overhead_words(check: dict[str, Any]) -> str:
    """Without pace, beside libraries."""
    columns = ("baseline+fifo", "themis+scf", "gloo", "mpi")
    lines = [
        "| size | fixed order | Themis + SCF | gloo | MPI | ours / gloo | ours / MPI | MiB of the largest rank |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size, row in check.items():
        ours = min(row["baseline+fifo"], row["themis+scf"])
        cells = [size, *(f"{1e3 * row[name]:.1f}" for name in columns)]
        cells += [f"{ours / row['gloo']:.1f}", f"{ours / row['mpi']:.1f}", f"{row['memory_bytes'] / 2**20:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    table, sizes = "\n".join(lines), list(check.values())
    per_mebibyte = (sizes[-1]["memory_bytes"] - sizes[0]["memory_bytes"]) / 15 / 2**20
    return (
        "- **Unpaced** ranks on loopback, in ms, beside `torch.distributed.all_reduce` of gloo and `MPI_Allreduce` "
        "without shared memory; processors limit all of them. With each MiB of its buffer a rank grows "
        f"by {per_mebibyte:.1f} MiB.\n\n{table}\n"
    )


def hook_words(check: dict[str, Any]) -> str:
    """Training with the hook."""
    near, far = check["neighbours"], check["others"]
    apart = max(near["apart"], far["apart"])
    return (
        f"- **DDP hook** on an emulated network of 2x2: weights are at most {apart:.1e} from those of plain DDP, and a "
        f"step is {near['plain_seconds'] / near['hooked_seconds']:.1f} times as fast where ranks are numbered so that "
        "gloo's ring passes only between neighbours. In the order of NPUs half of that ring goes over the hub of the "
        "emulation, which is not slowed: then plain DDP is "
        f"{far['hooked_seconds'] / far['plain_seconds']:.1f} times as fast as the hook, which needs no hub. gloo's "
        "own reduce-scatter, all-gather and all-to-all keep a link longer than their bytes do, so that the hook sends "
        "messages there."
    )


WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "random": random_words,
    "faults": fault_words,
    "iterations": iteration_words,
    "calibration": calibration_words,
    "overhead": overhead_words,
    "hook": hook_words,
}


def runs_text(frame: pd.DataFrame) -> str:
    """How many runs the medians are of."""
    earlier = frame[frame.runs < RECENT_RUNS]
    if earlier.empty:
        return f"Medians are of {RECENT_RUNS} runs."
    cases = earlier.groupby(CASE).ngroups
    return (
        f"Medians are of {RECENT_RUNS} runs; those of {cases} cases, of three runs, were measured before what is "
        "listed above, and count only in this table and the picture."
    )


def report(frame: pd.DataFrame) -> str:
    """The whole page."""
    runs, recent = int(frame.runs.sum()), frame[frame.runs >= RECENT_RUNS]
    stated = recent[(recent.smallest_stage_bytes >= LARGE) & (recent.transport == "tcp")]
    unrooted = stated[stated.kind != "reduce"]
    return TEXT.read_text().format(
        runs=runs,
        cases=frame.groupby(CASE).ngroups,
        error=f"{100 * unrooted.error.abs().max():.1f} %",
        ratio=f"{100 * unrooted.ratio_error.abs().max():.1f} %",
        repeat=runs_text(frame),
        within=f"{100 * (stated.error.abs() <= 0.03).mean():.0f} %",
        ratios=f"{100 * (stated.ratio_error.abs() <= 0.02).mean():.0f} %",
        wins=wins(recent),
        quantiles=quantiles(recent),
        checks=checks_text(),
        table=cases_table(frame),
    )


def main() -> None:
    """Write the page and its picture."""
    frame = rows()
    save_figure(scatter(frame), HERE / "scatter.svg")
    (HERE / "README.md").write_text(report(frame), encoding="utf-8")


if __name__ == "__main__":
    main()
