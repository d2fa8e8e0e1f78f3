"""Studies as charts: sweeps over what varies, losses on disturbed networks, and designs of networks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.reports.rendering.charts import Axis, Chart, bars, ecdf, lines
from themis_opt.study.sweep import best_by_value, in_words, knee_of

if TYPE_CHECKING:
    from themis_opt.designing.design import Design
    from themis_opt.study.measured import Beside
    from themis_opt.study.robustness import LossDistribution

LOSS = Axis("loss", "loss: makespan over the bound of the sample, minus 1", format="percent")

BANDWIDTHS: Mapping[str, str] = {"algbw": "algbw_bytes_per_s", "busbw": "busbw_bytes_per_s"}


VARIED = "varied"  # the column of what varies first


def curves(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Chart]:
    """Algorithm and bus bandwidth of collectives, or times of iterations, over the first of the varied values.

    Other varied values tell curves apart, as policies do.  The bound of each place is a guide, as a bandwidth that no
    schedule exceeds.
    """
    frame = pd.DataFrame(rows)
    frame["series"] = [
        ", ".join([str(row["policy"]), *(f"{name} {in_words(name, row[name])}" for name in names[1:])]) for row in rows
    ]
    x = _axis(names[0], frame)
    if "exposed_ns" in frame:
        y = Axis("makespan_ns", "time of an iteration", log=True, format="duration")
        bounds = frame.assign(makespan_ns=frame["bound_ns"])
        return {"iteration": lines(frame, x, y, "series", guides=_guides(bounds, names))}
    charts = {}
    for name, column in BANDWIDTHS.items():
        y = Axis(name, f"{name}, GB/s")
        value = frame.assign(**{name: frame[column] / 1e9})
        bound = value.assign(**{name: value[name] * frame["makespan_ns"] / frame["bound_ns"]})
        guides = pd.concat([_guides(bound, names), _knee(value, rows, names[0], name)])
        charts[name] = lines(value, x, y, "series", guides=guides)
    return charts


def _knee(frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]], name: str, height: str) -> pd.DataFrame:
    """A line up at the value from which on more changes little, if it lies between others."""
    best = best_by_value(rows, name)
    knee = knee_of(best, name)
    if knee in (min(best), max(best)):
        return frame.iloc[:0]
    place = next(number for number, row in enumerate(rows) if row is best[knee])
    ends = [frame[height].min(), frame[height].max()]
    return frame.iloc[[place, place]].assign(series=f"knee, {in_words(name, knee)}", **{height: ends})


def _guides(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    best = frame.drop_duplicates(subset=list(names))
    series = best["series"].str.partition(", ")[2]
    return best.assign(series=[f"bound, {rest}" if rest else "bound" for rest in series])


def _axis(name: str, frame: pd.DataFrame) -> Axis:
    """The axis of what varied, a column without the dots of its name, by which Vega would look inside of values."""
    kind = name.rpartition(".")[2]
    frame[VARIED] = frame[name]
    if name == "size":
        return Axis(VARIED, "size of the message", log=True, format="size")
    if kind == "bandwidth":
        frame[VARIED] = frame[name] / 1e9
        return Axis(VARIED, f"{name}, GB/s", log=True)
    if kind in ("latency", "launch_overhead"):
        frame[VARIED] = frame[name] / PICOSECONDS_PER_NANOSECOND
        return Axis(VARIED, name, format="duration")
    return Axis(VARIED, "NPUs along " + name.rpartition(".")[0] if "." in name else name, log=True, format="count")


def measured_curves(rows: Sequence["Beside"]) -> Chart:
    """Bus bandwidth over the size of messages: curves of what was measured, of the best schedules and of the bound."""
    several = len({row.kind for row in rows}) > 1

    def frame(series: str, time: str) -> pd.DataFrame:
        places = [
            (
                (series or row.by) + f", {row.kind.value}" * several,
                row.size,
                row.bus_bandwidth(getattr(row, time)) / 1e9,
            )
            for row in rows
        ]
        return pd.DataFrame(places, columns=["series", "size", "busbw"]).drop_duplicates()

    best, bound, measured = frame("best schedule", "best"), frame("bound of any algorithm", "needed"), frame("", "time")
    size = Axis("size", "size of the message", log=True, format="size")
    return lines(pd.concat([measured, best]), size, Axis("busbw", "busbw, GB/s"), "series", guides=bound)


def loss_curves(distributions: Sequence["LossDistribution"]) -> Chart:
    """The empirical distribution function of the losses of every policy, and its loss without disturbance.

    A curve further left loses less, a steeper one varies less; the dot is the undisturbed network.
    """
    losses = pd.concat([pd.DataFrame({"policy": d.policy, "loss": d.losses}) for d in distributions])
    nominal = pd.DataFrame([{"policy": d.policy, "loss": d.nominal_loss, "share": 0.0} for d in distributions])
    return ecdf(losses, LOSS, "samples that lose no more", "policy", dots=nominal)


def bandwidths(designs: Sequence["Design"]) -> Chart:
    """The bandwidth of every dimension, one bar for each reading."""
    rows = [
        {"dimension": row["dimension"], "minimised": design.reading, "bandwidth": row["bandwidth"] / 1e9}
        for design in designs
        for row in design.rows()
    ]
    return bars(pd.DataFrame(rows), "dimension", Axis("bandwidth", "GB/s per NPU"), "minimised")
