"""Measured times over their bytes with the fitted ones as a line, and the residuals of the fit, as a picture."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from themis_opt.formats.drawing import PICTURED_MICRO
from themis_opt.formats.palette import QUIET, plain_text

PANEL_WIDTH, PICTURE_HEIGHT = 5.0, 6.0  # inches of a dimension, and of the picture


class FitSeries(NamedTuple):
    """Measurements of one kind on a dimension, from the smallest to the largest; times are in seconds."""

    label: str
    sizes: Sequence[float]
    measured: Sequence[float]
    fitted: Sequence[float]


def picture_fits(panels: Mapping[str, Sequence[FitSeries]]) -> Figure:
    """One column per dimension, by its title: times above, residuals below."""
    figure = Figure(figsize=(PANEL_WIDTH * len(panels), PICTURE_HEIGHT), facecolor="white", layout="constrained")
    axes = figure.subplots(2, len(panels), sharex="col", squeeze=False, height_ratios=(2, 1))
    for (title, series), upper, lower in zip(panels.items(), axes[0], axes[1], strict=True):
        lower.axhline(0, color=QUIET, linewidth=0.8)
        for one in series:
            _draw_series(upper, lower, one)
        upper.set_title(plain_text(title), fontsize="medium")
        upper.set(xscale="log", yscale="log", ylabel=f"time ({PICTURED_MICRO})")
        upper.legend(frameon=False, fontsize="small")
        lower.set(xscale="log", xlabel="size (bytes)", ylabel="residual (%)")
    return figure


def _draw_series(upper: Axes, lower: Axes, series: FitSeries) -> None:
    measured, fitted = np.array(series.measured), np.array(series.fitted)
    (points,) = upper.plot(series.sizes, measured * 1e6, "o", markersize=4, label=series.label)
    upper.plot(series.sizes, fitted * 1e6, color=points.get_color())
    lower.plot(series.sizes, 100 * (measured / fitted - 1), "o", markersize=4, color=points.get_color())
