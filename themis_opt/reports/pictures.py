"""Pictures of pipelines and graphs: schedules as bars along time, and what losses leave of the speed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from themis_opt.base.units import decimal_size_unit, format_short_time, time_unit
from themis_opt.graphs.bounds import alike_nodes
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.slots import SlotPlan
from themis_opt.pipelines.problem import TRANSFERS, ActionKind
from themis_opt.pipelines.schedule import PipelineSchedule
from themis_opt.reports.rendering.charts import BAR_COLUMNS, Axis, lines, save, stacked, timeline

ACTION_TITLES = {
    ActionKind.FORWARD: "forward",
    ActionKind.BACKWARD: "backward",
    ActionKind.INPUTS: "gradients of inputs",
    ActionKind.WEIGHTS: "gradients of weights",
    ActionKind.OFFLOAD: "to the host",
    ActionKind.LOAD: "from the host",
}
LATER_PARTS = 0.55  # opacity of actions of the last part of a stage; those between are in between
MOST_LINK_LINES, MOST_DRAWN_BARS = 40, 10_000  # rows of links, and bars of all rows but the first: of more the busiest
MOST_LOSSES = 40


def draw_pipeline(path: Path, schedule: PipelineSchedule, title: str) -> None:
    """Draw what each stage does over time, and what it keeps. Raises InputError if no picture has that ending."""
    pipeline, (unit, scale) = schedule.pipeline, time_unit(schedule.makespan)
    sizes, size = decimal_size_unit(max(schedule.peaks()))
    bars, kept = [], []
    for stage, order in enumerate(schedule.orders):
        first, last = pipeline.parts_of[stage][0], pipeline.parts_of[stage][-1]
        for action, held in zip(order, schedule.held(order), strict=True):
            start, end = schedule.start[action] / scale, schedule.end(action) / scale
            solid = 1 - (1 - LATER_PARTS) * (action.part - first) / max(last - first, 1)
            row = f"host of stage {stage}" if action.kind in TRANSFERS else f"stage {stage}"
            bars.append((row, start, end, ACTION_TITLES[action.kind], 0.0, f"{action.microbatch}", solid))
            kept.append((f"stage {stage}", start, held / size))
    memory = pd.DataFrame(kept, columns=["stage", "start", "held"])
    limit = None
    if pipeline.memory is not None:
        ends = [("limit", float(time), pipeline.memory / size) for time in (0, schedule.makespan / scale)]
        limit = pd.DataFrame(ends, columns=memory.columns)
    axes = Axis("start", f"time ({unit})"), Axis("held", f"activations kept ({sizes})")
    chart = timeline(pd.DataFrame(bars, columns=BAR_COLUMNS), f"time ({unit})", numbered=True)
    save(stacked(chart, lines(memory, *axes, "stage", step=True, guides=limit)), path, title)


def draw_losses(instance: GraphInstance, losses: Sequence[tuple[str, float, int]], path: Path) -> None:
    """Draw what is kept of the speed without each link, the worst first; alike names with equal values share a bar.

    `losses`: a link, the part of the speed that is kept, and how many other links it stands for.

    Raises InputError if no picture has that ending.
    """
    bars: dict[tuple[str, float], list[tuple[str, int]]] = defaultdict(list)
    for name, kept, alike in sorted(losses, key=lambda one: one[1]):
        bars[re.sub(r"\d+", "*", name), round(kept, 4)].append((name, 1 + alike))
    rows = []
    for (_, kept), links in bars.items():
        others = sum(count for _, count in links) - 1
        name = f"{links[0][0]}{f' and {others} alike' if others else ''}: {100 * kept:.3g} %"
        rows.append((name, 0.0, 100 * kept, "speed", 0.5, name, 1.0))
    frame = pd.DataFrame(rows[:MOST_LOSSES], columns=BAR_COLUMNS)
    left_out = f", the worst {MOST_LOSSES} of {len(rows)} bars" if len(rows) > MOST_LOSSES else ""
    title = f"{instance.name or 'graph'}: what hurts most{left_out}"
    save(timeline(frame, "speed kept without this link (%)"), path, title)


def draw_schedule(schedule: GraphSchedule, path: Path) -> None:
    """Draw what links send, a row for the busiest of all that are alike; later chunks are lighter.

    Raises InputError if no picture has that ending.
    """
    plan, timed = schedule.plan, schedule.timed
    held = timed.operations.resource
    busy = np.bincount(held, timed.operations.duration, len(timed.resources))
    roles = _roles(schedule, busy, np.bincount(held, minlength=len(timed.resources)))
    names = {link: timed.resources[link] + (f" and {alike} alike" if alike else "") for link, alike in roles.items()}
    unit, scale = time_unit(schedule.makespan)
    chunks = len(held) // schedule.chunks
    rows = [
        (
            name,
            timed.start[n] / scale,
            timed.end[n] / scale,
            "chunks",
            n // chunks / schedule.chunks,
            f"{n // chunks}",
            1.0,
        )
        for link, name in names.items()
        for n in np.flatnonzero(held == link).tolist()
    ]
    shown = f"{len(names)} of {int((busy > 0).sum())} link directions"
    shown += f", {schedule.chunks} chunks from dark to light" if schedule.chunks > 1 else ""
    title = f"{plan.instance.name or 'graph'}, {plan.name}: {format_short_time(schedule.makespan)}; {shown}"
    save(timeline(pd.DataFrame(rows, columns=BAR_COLUMNS), f"time ({unit})"), path, title)


def _roles(schedule: GraphSchedule, busy: "np.ndarray[Any, Any]", counts: "np.ndarray[Any, Any]") -> dict[int, int]:
    """The busiest direction of links that are alike, and how many others are, by name; of many roles the busiest."""
    network, alike = schedule.problem.network, defaultdict[Any, list[int]](list)
    classes = alike_nodes(network, None)
    looks: Iterable[Any] = ((classes[tail], classes[head], rate) for (tail, head), rate in network.arcs.items())
    if isinstance(schedule.plan, SlotPlan):  # whose links stand for all that are alike
        looks = range(len(busy))
    for number, look in enumerate(looks):
        if busy[number]:
            alike[look].append(number)
    roles = {max(members, key=lambda link: busy[link]): len(members) - 1 for members in alike.values()}
    kept = sorted(roles, key=lambda link: -busy[link])[:MOST_LINK_LINES]
    few = [link for place, link in enumerate(kept) if not place or counts[kept[: place + 1]].sum() <= MOST_DRAWN_BARS]
    return {link: roles[link] for link in sorted(few, key=lambda link: schedule.timed.resources[link])}
