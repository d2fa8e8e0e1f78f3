"""Designs of networks as charts."""

from collections.abc import Sequence

import pandas as pd

from themis_opt.base.units import nanoseconds
from themis_opt.designing.design import Design
from themis_opt.reports.rendering.charts import Axis, Chart, bars, lines


def bandwidths(designs: Sequence[Design]) -> Chart:
    """The bandwidth of every dimension, one bar for each reading."""
    rows = [
        {"dimension": row["dimension"], "minimised": own.reading, "bandwidth": row["bandwidth"] / 1e9}
        for own in designs
        for row in own.rows()
    ]
    return bars(pd.DataFrame(rows), "dimension", Axis("bandwidth", "GB/s per NPU"), "minimised")


def front(points: Sequence[Design]) -> Chart:
    """Time over money, or over bandwidth where nothing has a price; the bound as a guide."""
    priced = any(own.money for own in points)
    budget = Axis("budget", "dollars for the network" if priced else "GB/s per NPU", log=True)
    rows = [
        {"budget": own.money if priced else own.bandwidths.sum() / 1e9, "time": nanoseconds(time), "design": name}
        for own in points
        for name, time in (("best design", own.time), ("best design, bound", own.bound))
    ]
    frame = pd.DataFrame(rows)
    is_bound = frame["design"].str.endswith("bound")
    time = Axis("time", "time of the workloads", log=True, format="duration")
    return lines(frame[~is_bound], budget, time, "design", guides=frame[is_bound])
