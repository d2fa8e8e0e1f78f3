"""Measured times against the fit of each dimension, and their residuals, as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND, format_rate, format_short_time
from themis_opt.problem.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save_calibrations(fits: Mapping[str, Calibration], path: Path) -> None:
    """Draw the fits of dimensions, by their names, into a file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    from themis_opt.formats.gantt import save_figure

    save_figure(picture_calibrations(fits), path)


def picture_calibrations(fits: Mapping[str, Calibration]) -> "Figure":
    """One column per dimension: times and fit above, residuals below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(fits), 6), layout="constrained")
    axes = figure.subplots(2, len(fits), sharex="col", squeeze=False, height_ratios=(2, 1))
    for column, (name, fit) in enumerate(fits.items()):
        _times(axes[0][column], name, fit)
        _residuals(axes[1][column], fit)
    return figure


def _times(axes: "Axes", name: str, fit: Calibration) -> None:
    latency = format_short_time(fit.latency)
    axes.set_title(f"{name}: {format_rate(fit.bandwidth)}, {latency} per step", fontsize="medium")
    for kind, npus in sorted({(own.kind.value, own.num_npus) for own in fit.measurements}):
        chosen = [k for k, own in enumerate(fit.measurements) if (own.kind.value, own.num_npus) == (kind, npus)]
        chosen.sort(key=lambda k: fit.measurements[k].size)
        sizes = [fit.measurements[k].size for k in chosen]
        measured = [fit.measurements[k].time / PICOSECONDS_PER_MICROSECOND for k in chosen]
        (points,) = axes.plot(sizes, measured, "o", markersize=4, label=f"{kind.replace('_', '-')}, {npus} NPUs")
        axes.plot(sizes, fit.fitted[np.array(chosen)] / PICOSECONDS_PER_MICROSECOND, color=points.get_color())
    axes.set(xscale="log", yscale="log", ylabel="time (us)")
    axes.legend(frameon=False, fontsize="small")


def _residuals(axes: "Axes", fit: Calibration) -> None:
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.plot([own.size for own in fit.measurements], 100 * fit.residuals, "o", markersize=4, color="0.3")
    axes.set(xscale="log", xlabel="size (bytes)", ylabel="residual (%)")
