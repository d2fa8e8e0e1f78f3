"""Sweeps as charts: what every policy reaches over what varies, and what no schedule beats."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.reports.rendering.charts import Axis, Chart, lines
from themis_opt.study.sweep import in_words

BANDWIDTHS: Mapping[str, str] = {"algbw": "algbw_bytes_per_s", "busbw": "busbw_bytes_per_s"}


def curves(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Chart]:
    """Algorithm and bus bandwidth of collectives, or times of iterations, over the first of the varied values.

    Other varied values tell curves apart, as policies do.  The bound of each place is a guide, as a bandwidth that no
    schedule exceeds.
    """
    frame = pd.DataFrame(rows)
    frame["series"] = [_series(row, names[1:]) for row in rows]
    x = _axis(names[0], frame)
    if "makespan_ns" not in frame:
        y = Axis("iteration_ns", "time of an iteration", log=True, format="duration")
        bounds = frame.assign(iteration_ns=frame["bound_ns"])
        return {"iteration": lines(frame, x, y, "series", guides=_guides(bounds, names))}
    charts = {}
    for name, column in BANDWIDTHS.items():
        y = Axis(name, f"{name}, GB/s")
        value = frame.assign(**{name: frame[column] / 1e9})
        bound = value.assign(**{name: value[name] * frame["makespan_ns"] / frame["bound_ns"]})
        charts[name] = lines(value, x, y, "series", guides=_guides(bound, names))
    return charts


def _guides(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """One bound for each place."""
    best = frame.drop_duplicates(subset=list(names))
    series = best["series"].str.partition(", ")[2]
    return best.assign(series=[f"bound, {rest}" if rest else "bound" for rest in series])


def _series(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join([str(row["policy"]), *(f"{name} {in_words(name, row[name])}" for name in names)])


def _axis(name: str, frame: pd.DataFrame) -> Axis:
    kind = name.rpartition(".")[2]
    if name == "size":
        return Axis(name, "size of the message", log=True, format="size")
    if kind == "bandwidth":
        frame[name] = frame[name] / 1e9
        return Axis(name, f"{name}, GB/s", log=True)
    if kind in ("latency", "launch_overhead"):
        frame[name] = frame[name] / PICOSECONDS_PER_NANOSECOND
        return Axis(name, name, format="duration")
    return Axis(name, "NPUs along " + name.rpartition(".")[0] if "." in name else name, log=True, format="count")
