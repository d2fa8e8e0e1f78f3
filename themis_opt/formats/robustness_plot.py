"""How robust plans are, as a picture: the share of samples that lose no more than each amount."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from themis_opt.formats.palette import INK, LINE, QUIET, chunk_ramp, plain_text
from themis_opt.robustness import LossDistribution

WIDTH, HEIGHT = 8.0, 4.5
"""Inches."""

_STYLES = ("-", "--", "-.", ":")


def loss_curves(distributions: Sequence[LossDistribution], title: str = "") -> Figure:
    """Draw the empirical distribution function of the losses of every policy, and its loss without disturbance.

    A curve further left loses less, a steeper one varies less; the dot is the undisturbed network.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, distribution in enumerate(distributions):
        _draw_curve(axes, distribution, number, len(distributions))
    axes.set_title(plain_text(title), color=INK, fontsize=10, loc="left")
    axes.set_xlabel("loss: makespan over the bound of the sample, minus 1", color=QUIET, fontsize=9)
    axes.set_ylabel("samples that lose no more", color=QUIET, fontsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(xmax=1))
    axes.legend(loc="lower right", fontsize=8.5, labelcolor=INK, edgecolor=LINE)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5)
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure


def _draw_curve(axes: Axes, distribution: LossDistribution, number: int, count: int) -> None:
    colour = chunk_ramp(number, count)(0.0)
    label, style = plain_text(distribution.policy), _STYLES[number % len(_STYLES)]
    axes.ecdf(distribution.losses, label=label, color=colour, linestyle=style, linewidth=1.6)
    axes.plot(distribution.nominal_loss, 0, marker="o", markersize=6, color=colour, clip_on=False)
