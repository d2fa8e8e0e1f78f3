"""The legend of the timeline: what colours and hatches mean."""

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from themis_opt.cost import PHASES, Phase
from themis_opt.formats.labels import phase_name
from themis_opt.formats.palette import QUIET, chunk_ramp, lightened, plain_text
from themis_opt.schedule import Schedule

RAMP_STEPS = 8
MOST_COLLECTIVES, MOST_LETTERS = 5, 18
"""Collectives that are named, the rest are counted; and letters of a name."""

FIRST_ROW, SECOND_ROW, COLUMNS = 0.42, 0.63, 3
"""Inches from the upper edge, and entries in a row."""

Entry = tuple[Patch | tuple[Patch, ...], str]


def draw_legend(figure: Figure, schedule: Schedule) -> None:
    """Explain the phases and the ramp of each collective, at the top right of the figure."""
    _draw_rows(figure, FIRST_ROW, _phases(schedule))
    _draw_rows(figure, SECOND_ROW, _collectives(schedule))


def _draw_rows(figure: Figure, inches: float, entries: list[Entry]) -> None:
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=(0.955, 1 - inches / figure.get_figheight()),
        ncols=min(COLUMNS, len(entries)), frameon=False, fontsize=8.5, labelcolor=QUIET,
        handlelength=2.6, columnspacing=1.6, borderpad=0, borderaxespad=0,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
    )  # fmt: skip


def _phases(schedule: Schedule) -> list[Entry]:
    present = sorted({phase for c in schedule.instance.collectives for phase in PHASES[c.kind]})
    return [(_phase_patch(phase), phase_name(phase).replace("_", "-")) for phase in present]


def _phase_patch(phase: Phase) -> Patch:
    plain = np.array(to_rgba(QUIET))
    if phase is Phase.ALL_GATHER:
        return Patch(facecolor=tuple(lightened(plain)), hatch="////", edgecolor="white", linewidth=0)
    return Patch(facecolor=tuple(plain))


def _collectives(schedule: Schedule) -> list[Entry]:
    parts, count = schedule.plan.chunks, len(schedule.plan.chunks)
    entries: list[Entry] = []
    for number, label in enumerate(schedule.instance.labels[:MOST_COLLECTIVES]):
        entries.append((_ramp_patches(number, count), f"{_chunks(len(parts[number].sizes))} of {_shortened(label)}"))
    if count > MOST_COLLECTIVES:
        entries.append((Patch(visible=False), f"and {count - MOST_COLLECTIVES} more"))
    return entries


def _chunks(count: int) -> str:
    return f"chunks 0 to {count - 1}" if count > 1 else "chunk 0"


def _shortened(label: str) -> str:
    return plain_text(label if len(label) <= MOST_LETTERS else f"{label[: MOST_LETTERS - 1]}…")


def _ramp_patches(collective: int, num_collectives: int) -> tuple[Patch, ...]:
    ramp = chunk_ramp(collective, num_collectives)
    return tuple(Patch(facecolor=ramp(position), linewidth=0) for position in np.linspace(0, 1, RAMP_STEPS))
