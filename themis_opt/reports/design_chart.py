"""Designs of networks as charts."""

from collections.abc import Sequence

import pandas as pd

from themis_opt.base.units import nanoseconds
from themis_opt.designing.design import Design
from themis_opt.reports.rendering.charts import Axis, Chart, bars, lines


def bandwidths(designs: Sequence[Design]) -> Chart:
    """The bandwidth of every dimension, one bar for each reading."""
    rows = [
        {"dimension": row["dimension"], "minimised": design.reading, "bandwidth": row["bandwidth"] / 1e9}
        for design in designs
        for row in design.rows()
    ]
    return bars(pd.DataFrame(rows), "dimension", Axis("bandwidth", "GB/s per NPU"), "minimised")


def front(points: Sequence[Design]) -> Chart:
    """Time over money, or over bandwidth where nothing has a price; the bound as a guide."""
    priced = any(design.money for design in points)
    budget = Axis("budget", "dollars for the network" if priced else "GB/s per NPU", log=True)
    rows = [
        {"budget": design.money if priced else design.bandwidths.sum() / 1e9, "time": nanoseconds(time), "design": name}
        for design in points
        for name, time in (("best design", design.time), ("best design, bound", design.bound))
    ]
    frame = pd.DataFrame(rows)
    is_bound = frame["design"].str.endswith("bound")
    time = Axis("time", "time of the workloads", log=True, format="duration")
    return lines(frame[~is_bound], budget, time, "design", guides=frame[is_bound])
