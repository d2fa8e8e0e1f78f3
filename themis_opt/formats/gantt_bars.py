"""The bars of the timeline: one rectangle per stage."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

from themis_opt.cost import FloatArray, IntArray, Phase
from themis_opt.formats.palette import INK, is_dark, stage_colours
from themis_opt.schedule import Schedule

HEIGHT = 0.84
"""Height of a bar; rows are 1 apart."""

NARROWEST_EDGED = 0.006
"""Width, as a part of the makespan, from which bars get an edge, and a hatch while gathering."""

NARROWEST_SHARP = 0.001
"""Width, as a part of the makespan, below which bars blend with what is beside them; on whole pixels some are lost."""

DIGIT_WIDTH = 0.0066
"""Room, as a part of the makespan, for a digit of the number of a chunk; one more for the margins."""

MOST_SHAPES = 10_000
"""Bars up to which an SVG holds them as shapes; more become an image inside it."""


def draw_bars(
    axes: Axes, schedule: Schedule, scale: int, *, colours: FloatArray | None = None, span: int | None = None
) -> None:
    """Draw all stages, each in the row of its dimension, with `scale` picoseconds to the unit of the axis.

    Parameters
    ----------
    colours : float64 array, shape (stages, 4), optional
        Instead of those of the chunks.
    span : int, optional
        Picoseconds along the axis, by default the makespan.
    """
    colours = stage_colours(schedule) if colours is None else colours
    span = span or schedule.makespan
    width = (schedule.end - schedule.start) / span
    wide, thin = width > NARROWEST_EDGED, width < NARROWEST_SHARP
    gathers = schedule.plan.phases(schedule.instance) == Phase.ALL_GATHER
    axes.add_collection(_bars(schedule, thin, colours, scale, snap=False), autolim=False)
    axes.add_collection(_bars(schedule, ~wide & ~thin, colours, scale, antialiaseds=False), autolim=False)
    edge = {"edgecolors": "white", "linewidths": 0.6}
    axes.add_collection(_bars(schedule, wide & ~gathers, colours, scale, **edge), autolim=False)
    axes.add_collection(_bars(schedule, wide & gathers, colours, scale, hatch="////", **edge), autolim=False)
    _number_chunks(axes, schedule, colours, scale, span)


def _bars(
    schedule: Schedule, chosen: NDArray[np.bool_], colours: FloatArray, scale: int, **style: Any
) -> PolyCollection:
    """The chosen stages as one collection: all its bars share the hatch."""
    return PolyCollection(
        _rectangles(schedule, np.flatnonzero(chosen), scale),  # type: ignore[arg-type]  # an array is a sequence
        facecolors=colours[chosen],
        rasterized=schedule.plan.num_stages > MOST_SHAPES,
        zorder=2,
        **{"linewidths": 0.0} | style,
    )


def _rectangles(schedule: Schedule, stages: IntArray, scale: int) -> FloatArray:
    """Corners, shape (stages, 4, 2)."""
    left, right = schedule.start[stages] / scale, schedule.end[stages] / scale
    row = schedule.plan.stage_dimensions[stages]
    top, bottom = row - HEIGHT / 2, row + HEIGHT / 2
    x, y = np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)
    return np.stack([x, y], axis=2)


def _number_chunks(axes: Axes, schedule: Schedule, colours: FloatArray, scale: int, span: int) -> None:
    """Write the number of the chunk on every bar that has room for it."""
    chunk = np.concatenate([np.repeat(np.arange(len(c.sizes)), c.paths.shape[1]) for c in schedule.plan.chunks])
    middle = (schedule.start + schedule.end) / 2 / scale
    room = (schedule.end - schedule.start) / span / DIGIT_WIDTH
    for stage in np.flatnonzero(room > 2):
        number = str(chunk[stage])
        if room[stage] > len(number) + 1:
            axes.text(
                middle[stage], schedule.plan.stage_dimensions[stage], number, fontsize=8, ha="center", va="center",
                color="white" if is_dark(colours[stage]) else INK,
                bbox={"facecolor": colours[stage], "linewidth": 0, "pad": 1.0},
            )  # fmt: skip
