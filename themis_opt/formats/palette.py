"""Colours and texts of the timeline.

Each launch has a ramp of colours along which its chunks lie, lighter while gathering.  With compute, cool launches are
data parallel, warm ones model parallel, and compute is grey.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgba

from themis_opt.base.arrays import FloatArray
from themis_opt.problem.exchanges import Parallelism
from themis_opt.problem.phases import growing
from themis_opt.schedules.schedule import Schedule

INK, QUIET, LINE, CURVE, WAIT = "#1f2933", "#5f6b7a", "#dfe4ea", "#3b6ea5", "#f3c6c0"

# Shades between which the tasks of a pass alternate
FORWARD, BACKWARD = ("#b4bdc8", "#c6cdd6"), ("#66717f", "#7c8794")
# Ends of the ramps when several collectives must be told apart; they repeat after the last
_SEVERAL = (("#1d4e89", "#6fa8dc"), ("#a63d00", "#f2a25c"), ("#1e6b3a", "#7cc48d"), ("#6a2c8c", "#c39bd8"),
            ("#8a6d00", "#dcc04a"), ("#9b1b4f", "#ee8fb2"), ("#0f6b70", "#6fc5c8"), ("#4d4d4d", "#ababab"))  # fmt: skip
# Ends of the ramps of launches beside compute; many launches share each, those next to each other one
RAMPS: Mapping[Parallelism, tuple[tuple[str, str], ...]] = {
    "data": (("#1d4e89", "#6fa8dc"), ("#1e6b3a", "#7cc48d"), ("#4b3f9e", "#a8a0e0"), ("#0f6b70", "#6fc5c8")),
    "model": (("#a63d00", "#f2a25c"), ("#9b1b4f", "#ee8fb2"), ("#8a6d00", "#dcc04a")),
}

_LIGHTER = 0.5  # how far a gathering chunk is moved towards white


def chunk_ramp(collective: int, num_collectives: int) -> Colormap:
    """Colours of the chunks of a collective, from the first to the last."""
    if num_collectives == 1:
        return LinearSegmentedColormap.from_list("chunks", colormaps["viridis"](np.linspace(0.08, 0.86, 32)))
    return LinearSegmentedColormap.from_list("chunks", list(_SEVERAL[collective % len(_SEVERAL)]))


def launch_ramps(schedule: Schedule) -> list[Colormap]:
    """Colours of the chunks of each launch, from the first to the last."""
    count = len(schedule.launched)
    if not schedule.has_period:
        return [chunk_ramp(number, count) for number in range(count)]
    ramps: dict[int, Colormap] = {}
    for kind, ends in RAMPS.items():
        for place, members in enumerate(launch_groups(schedule, kind)):
            ramps |= dict.fromkeys(members, LinearSegmentedColormap.from_list("chunks", list(ends[place])))
    return [ramps[number] for number in range(count)]


def launch_groups(schedule: Schedule, kind: Parallelism) -> list[list[int]]:
    """Numbers of the launches of a kind in as many groups as there are colours, neighbours together."""
    numbers = [number for number, launch in enumerate(schedule.launched) if launch.parallelism == kind]
    count = min(len(numbers), len(RAMPS[kind]))
    return [[int(number) for number in group] for group in np.array_split(numbers, count)] if numbers else []


def stage_colours(schedule: Schedule) -> FloatArray:
    """Red, green, blue and opacity of every stage of the plan, shape (stages, 4)."""
    colours: FloatArray = np.concatenate(
        [
            np.repeat(ramp(np.linspace(0, 1, len(part.sizes))), part.paths.shape[1], axis=0)
            for ramp, part in zip(launch_ramps(schedule), schedule.plan.chunks, strict=True)
        ]
    )
    gathers = growing(schedule.plan.phases(schedule.instance))
    colours[gathers] = lightened(colours[gathers])
    return colours


def is_backward(task: str) -> bool:
    """Whether the name of a task says that it belongs to the backward pass."""
    return any(word in task.lower() for word in ("backward", "bwd", "gradient"))


def task_colours(names: Sequence[str]) -> FloatArray:
    """Red, green, blue and opacity of every task, shape (tasks, 4)."""
    shades = [(BACKWARD if is_backward(name) else FORWARD)[number % 2] for number, name in enumerate(names)]
    return np.array([to_rgba(shade) for shade in shades])


def lightened(colours: FloatArray) -> FloatArray:
    """The colours of gathering chunks."""
    return colours + _LIGHTER * (1 - colours)


def is_dark(colour: FloatArray) -> bool:
    """Whether white text reads better on the colour than black (relative luminance, ITU-R BT.709)."""
    return bool(colour[:3] @ (0.2126, 0.7152, 0.0722) < 0.47)


def plain_text(text: str) -> str:
    """A name as matplotlib draws it literally: dollars would start a formula, and XML holds no control characters."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text).replace(
        "$", r"\$"
    )


# Only of a picture that is a document or an image: inside another document `:root` is not `svg`.
SCREEN_STYLE = (
    "<style>svg:root{max-width:100%;height:auto}@media(prefers-color-scheme:dark){"
    "svg:root{color-scheme:dark;filter:invert(.9)hue-rotate(180deg)}}</style>"
)


def fit_screens(svg: str) -> str:
    """The SVG, no wider than a narrow window, and dark where pages are: lightness is inverted, hues stay."""
    return re.sub(r"<svg\b[^>]*>", lambda root: f"{root[0]}{SCREEN_STYLE}", svg, count=1)
