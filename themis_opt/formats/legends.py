"""Entries of the legends of timelines: passes, phases, and the collectives or launches by their colours."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import Colormap, to_rgba
from matplotlib.patches import Patch

from themis_opt.formats.palette import (
    BACKWARD,
    FORWARD,
    QUIET,
    WAIT,
    is_backward,
    launch_groups,
    launch_ramps,
    lightened,
    plain_text,
)
from themis_opt.formats.tables import phase_title
from themis_opt.problem.exchanges import Parallelism
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules.schedule import Schedule

MOST_NAMED_COLLECTIVES, COLLECTIVE_LETTERS, COLLECTIVE_SHADES = 5, 18, 8
"""Collectives that the legend names, the rest are counted; letters of a name; shades of its chunks."""

MOST_NAMED_LAUNCHES, LAUNCH_LETTERS, LAUNCH_SHADES = 2, 22, 6  # the same of launches of a kind beside compute
EXAMPLE_CHUNK = "#1d4e89"
"""Stands for any launch where phases are explained."""

LegendEntry = tuple[Patch | tuple[Patch, ...], str]  # the sample of a legend, and its meaning


def legend_entries(schedule: Schedule) -> tuple[list[LegendEntry], list[LegendEntry]]:
    """Both rows of the legend of a schedule."""
    if not schedule.has_period:
        return _phase_entries(schedule), _collective_entries(schedule)
    launches = [entry for kind in ("data", "model") for entry in _launch_entries(schedule, kind)]
    return [*_pass_entries(schedule), *_joined_phase_entries(schedule)], launches


def _present_phases(schedule: Schedule) -> list[Phase]:
    return sorted({phase for exchange in schedule.launched for phase in exchange.kind.rule.phases})


def _phase_entries(schedule: Schedule) -> list[LegendEntry]:
    phases = _present_phases(schedule)
    return [(_phase_patch(phase.rule.data is Data.GROW, QUIET), phase_title(phase)) for phase in phases]


def _joined_phase_entries(schedule: Schedule) -> list[LegendEntry]:
    """Phases in full colour as one entry, and lighter ones as another."""
    present = _present_phases(schedule)
    titles = {
        gathers: " or ".join(phase_title(p) for p in present if (p.rule.data is Data.GROW) == gathers)
        for gathers in (False, True)
    }
    return [(_phase_patch(gathers, EXAMPLE_CHUNK), title) for gathers, title in titles.items() if title]


def _phase_patch(gathers: bool, colour: str) -> Patch:
    if not gathers:
        return Patch(facecolor=colour)
    light = lightened(np.array(to_rgba(colour)))
    return Patch(facecolor=tuple(light), hatch="////", edgecolor="white", linewidth=0)


def _collective_entries(schedule: Schedule) -> list[LegendEntry]:
    ramps, count = launch_ramps(schedule), len(schedule.launched)
    triples = zip(ramps, schedule.launched, schedule.plan.chunks, strict=True)
    entries: list[LegendEntry] = [
        (_ramp_patches(ramp, COLLECTIVE_SHADES), f"{_chunk_range(len(chunks.sizes))} of {name}")
        for ramp, exchange, chunks in list(triples)[:MOST_NAMED_COLLECTIVES]
        for name in (_shortened(exchange.name, COLLECTIVE_LETTERS),)
    ]
    if count > MOST_NAMED_COLLECTIVES:
        entries.append((Patch(visible=False), f"and {count - MOST_NAMED_COLLECTIVES} more"))
    return entries


def _chunk_range(count: int) -> str:
    return f"chunks 0 to {count - 1}" if count > 1 else "chunk 0"


def _pass_entries(schedule: Schedule) -> list[LegendEntry]:
    backward = any(is_backward(task.name) for task in schedule.instance.tasks)
    passes = (("forward", FORWARD), ("backward", BACKWARD)) if backward else (("compute", FORWARD),)
    entries = [(tuple(Patch(facecolor=shade, linewidth=0) for shade in shades), name) for name, shades in passes]
    return [*entries, (Patch(facecolor=WAIT, linewidth=0), "waits for communication")]


def _launch_entries(schedule: Schedule, kind: Parallelism) -> list[LegendEntry]:
    """Launches of a kind that have their colour alone, the first by name and the rest counted; else groups."""
    ramps, launched, groups = launch_ramps(schedule), schedule.launched, launch_groups(schedule, kind)
    if any(len(members) > 1 for members in groups):
        return _group_entries(ramps, groups, kind)
    entries: list[LegendEntry] = [
        (_ramp_patches(ramps[n], LAUNCH_SHADES), f"{kind} parallel: {_shortened(launched[n].name, LAUNCH_LETTERS)}")
        for (n,) in groups[:MOST_NAMED_LAUNCHES]
    ]
    rest = groups[MOST_NAMED_LAUNCHES:]
    if rest:
        shades = tuple(Patch(facecolor=ramps[n](0.3), linewidth=0) for (n,) in rest)
        entries.append((shades, f"{len(rest)} more"))
    return entries


def _group_entries(ramps: Sequence[Colormap], groups: Sequence[Sequence[int]], kind: Parallelism) -> list[LegendEntry]:
    """The groups of launches by their places among those of their kind."""
    count, entries, before = sum(map(len, groups)), list[LegendEntry](), 0
    for members in groups:
        last = before + len(members)
        places = f"{last}" if len(members) == 1 else f"{before + 1} to {last}"
        text = places if before else f"{kind} parallel: {places} of {count}"
        entries.append((_ramp_patches(ramps[members[0]], LAUNCH_SHADES), text))
        before = last
    return entries


def _shortened(name: str, letters: int) -> str:
    return plain_text(name if len(name) <= letters else f"{name[: letters - 1]}…")


def _ramp_patches(ramp: Colormap, count: int) -> tuple[Patch, ...]:
    return tuple(Patch(facecolor=ramp(position), linewidth=0) for position in np.linspace(0, 1, count))
