"""Colours and texts of the timeline.

Each collective has a ramp of colours along which its chunks lie, lighter while gathering.
"""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, LinearSegmentedColormap

from themis_opt.cost import FloatArray, Phase
from themis_opt.schedule import Schedule

INK, QUIET, LINE, CURVE = "#1f2933", "#5f6b7a", "#dfe4ea", "#3b6ea5"

_SEVERAL = (("#1d4e89", "#6fa8dc"), ("#a63d00", "#f2a25c"), ("#1e6b3a", "#7cc48d"), ("#6a2c8c", "#c39bd8"),
            ("#8a6d00", "#dcc04a"), ("#9b1b4f", "#ee8fb2"), ("#0f6b70", "#6fc5c8"), ("#4d4d4d", "#ababab"))  # fmt: skip
"""Ends of the ramps when several collectives must be told apart; they repeat after the last."""

_LIGHTER = 0.5
"""How far a gathering chunk is moved towards white."""


def chunk_ramp(collective: int, num_collectives: int) -> Colormap:
    """Colours of the chunks of a collective, from the first to the last."""
    if num_collectives == 1:
        return LinearSegmentedColormap.from_list("chunks", colormaps["viridis"](np.linspace(0.08, 0.86, 32)))
    return LinearSegmentedColormap.from_list("chunks", list(_SEVERAL[collective % len(_SEVERAL)]))


def stage_colours(schedule: Schedule) -> FloatArray:
    """Red, green, blue and opacity of every stage, shape (stages, 4)."""
    chunks = schedule.plan.chunks
    ramps = (chunk_ramp(number, len(chunks)) for number in range(len(chunks)))
    colours: FloatArray = np.concatenate(
        [
            np.repeat(ramp(np.linspace(0, 1, len(part.sizes))), part.paths.shape[1], axis=0)
            for ramp, part in zip(ramps, chunks, strict=True)
        ]
    )
    gathers = schedule.plan.phases(schedule.instance) == Phase.ALL_GATHER
    colours[gathers] = lightened(colours[gathers])
    return colours


def lightened(colours: FloatArray) -> FloatArray:
    """The colours of gathering chunks."""
    return colours + _LIGHTER * (1 - colours)


def is_dark(colour: FloatArray) -> bool:
    """Whether white text reads better on the colour than black (relative luminance, ITU-R BT.709)."""
    return bool(colour[:3] @ (0.2126, 0.7152, 0.0722) < 0.47)


def plain_text(text: str) -> str:
    """A name as matplotlib draws it literally: dollars would start a formula."""
    return text.replace("$", r"\$")
