"""A calibration as a picture: times of stages over their bytes with the fitted lines, and what the lines miss."""

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from themis_opt.formats.palette import INK, LINE, QUIET, plain_text
from themis_opt.problem.phases import Phase
from themis_opt.runtime.calibration import Calibration, Fit

WIDTH, HEIGHT = 4.2, 4.6
"""Inches of a dimension."""

COLOURS = {Phase.ALL_GATHER: "#1d4e89", Phase.REDUCE_SCATTER: "#c8553d"}


def calibration_picture(done: Calibration) -> Figure:
    """One column per dimension: times above, residuals below."""
    names = done.instance.network.dimension_names
    figure = Figure(figsize=(WIDTH * len(names), HEIGHT), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(names), sharex="col", squeeze=False, height_ratios=(3, 1))
    for name, fit, upper, lower in zip(names, done.fits, axes[0], axes[1], strict=True):
        _draw_times(upper, fit, f"{plain_text(name)}: {1 / fit.per_byte / 1e6:.4g} MB/s")
        _draw_residuals(lower, fit)
    axes[0][0].set_ylabel("ms per stage", color=QUIET)
    axes[1][0].set_ylabel("residual, %", color=QUIET)
    return figure


def _draw_times(axes: Axes, fit: Fit, title: str) -> None:
    for phase, colour in COLOURS.items():
        own = sorted((s.sent, s.seconds) for s in fit.samples if s.phase == phase)
        sent = [sent for sent, _ in own]
        axes.plot(sent, [1e3 * fit.seconds(n, phase) for n in sent], color=colour, linewidth=1)
        axes.plot(sent, [1e3 * seconds for _, seconds in own], "o", color=colour, markersize=4, label=phase.rule.label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.legend(frameon=False, fontsize=8.5)
    _make_plain(axes)


def _draw_residuals(axes: Axes, fit: Fit) -> None:
    for sample, residual in zip(fit.samples, fit.residuals, strict=True):
        axes.plot(sample.sent, 100 * residual, "o", color=COLOURS[sample.phase], markersize=4)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_xlabel("bytes sent", color=QUIET)
    _make_plain(axes)


def _make_plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=QUIET, labelsize=8.5)
    axes.grid(color=LINE, linewidth=0.6)
