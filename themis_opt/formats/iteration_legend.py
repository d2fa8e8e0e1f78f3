"""The legend of pictures of iterations: passes and phases in one row, launches in the other."""

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from themis_opt.cost import PHASES, Phase
from themis_opt.formats.iteration_colours import (
    BACKWARD,
    FORWARD,
    WAIT,
    is_backward,
    launch_ramps,
    parallelism_of,
)
from themis_opt.formats.labels import phase_name
from themis_opt.formats.palette import QUIET, lightened, plain_text
from themis_opt.iteration import Parallelism
from themis_opt.iterations.schedule import IterationSchedule

FIRST_ROW, SECOND_ROW = 0.76, 0.98
"""Inches from the upper edge."""

RAMP_STEPS, MOST_SHADES = 6, 4
MOST_LAUNCHES, MOST_LETTERS = 2, 22
"""Launches of a kind that are named, the rest are counted; and letters of a name."""

CHUNK = "#1d4e89"
"""Stands for any launch where phases are explained."""

Entry = tuple[Patch | tuple[Patch, ...], str]


def draw_iteration_legend(figure: Figure, schedule: IterationSchedule) -> None:
    """Explain passes, waits, phases and launches, below the heading."""
    _draw_row(figure, FIRST_ROW, [*_passes(schedule), *_phases(schedule)])
    _draw_row(figure, SECOND_ROW, [*_launches(schedule, "data"), *_launches(schedule, "model")])


def _draw_row(figure: Figure, inches: float, entries: list[Entry]) -> None:
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0.012, 1 - inches / figure.get_figheight()),
        ncols=len(entries), frameon=False, fontsize=8.5, labelcolor=QUIET, handlelength=2.4, columnspacing=1.5,
        borderpad=0, borderaxespad=0, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
    )  # fmt: skip


def _passes(schedule: IterationSchedule) -> list[Entry]:
    backward = any(is_backward(task.name) for task in schedule.instance.iteration.tasks)
    passes = (("forward", FORWARD), ("backward", BACKWARD)) if backward else (("compute", FORWARD),)
    shades = [(tuple(Patch(facecolor=shade, linewidth=0) for shade in own), name) for name, own in passes]
    return [*shades, (Patch(facecolor=WAIT, linewidth=0), "waits for communication")]


def _phases(schedule: IterationSchedule) -> list[Entry]:
    """What is drawn in full colour, and what lighter."""
    present = sorted({phase for launch in schedule.plan.launches for phase in PHASES[launch.kind]})
    plain = np.array(to_rgba(CHUNK))
    full = [phase_name(phase).replace("_", "-") for phase in present if phase is not Phase.ALL_GATHER]
    entries: list[Entry] = [(Patch(facecolor=CHUNK), " or ".join(full))] if full else []
    if Phase.ALL_GATHER in present:
        gather = Patch(facecolor=tuple(lightened(plain)), hatch="////", edgecolor="white", linewidth=0)
        entries.append((gather, "all-gather"))
    return entries


def _launches(schedule: IterationSchedule, kind: Parallelism) -> list[Entry]:
    """The first launches of a kind by name, and how many more there are."""
    ramps, launches = launch_ramps(schedule), schedule.plan.launches
    own = [number for number in range(len(launches)) if parallelism_of(schedule, number) == kind]
    entries: list[Entry] = [
        (
            tuple(Patch(facecolor=ramps[number](x), linewidth=0) for x in np.linspace(0, 1, RAMP_STEPS)),
            f"{kind} parallel: {_shortened(launches[number].name)}",
        )
        for number in own[:MOST_LAUNCHES]
    ]
    if len(own) > MOST_LAUNCHES:
        more = tuple(Patch(facecolor=ramps[n](0.3), linewidth=0) for n in own[MOST_LAUNCHES:][:MOST_SHADES])
        entries.append((more, f"{len(own) - MOST_LAUNCHES} more"))
    return entries


def _shortened(name: str) -> str:
    return plain_text(name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…")
