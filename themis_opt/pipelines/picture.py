"""A picture of a pipeline's schedule: what each stage does over time, and what it keeps."""

from pathlib import Path

from matplotlib.figure import Figure

from themis_opt.base.units import time_unit
from themis_opt.formats.gantt import save_figure
from themis_opt.pipelines.problem import ActionKind
from themis_opt.pipelines.schedule import PipelineSchedule

COLOURS = {
    ActionKind.FORWARD: "#4477aa",
    ActionKind.BACKWARD: "#ccbb44",
    ActionKind.INPUTS: "#ee6677",
    ActionKind.WEIGHTS: "#228833",
}
ACTION_TITLES = {
    ActionKind.FORWARD: "forward",
    ActionKind.BACKWARD: "backward",
    ActionKind.INPUTS: "gradients of inputs",
    ActionKind.WEIGHTS: "gradients of weights",
}

MOST_LABELS = 400
"""Actions whose microbatches are written on them; more of them are too narrow."""

LATER_PARTS = 0.55
"""Opacity of actions of the last part of a stage; those between are in between."""


def draw(path: Path, schedule: PipelineSchedule, title: str) -> None:
    """Draw a schedule into a file, as its ending says. Raises InputError for other endings."""
    pipeline = schedule.pipeline
    unit, scale = time_unit(schedule.makespan)
    figure = Figure(figsize=(12.0, 1.6 + 0.45 * pipeline.stages), layout="constrained")
    axes, memory = figure.subplots(2, 1, sharex=True, height_ratios=(max(pipeline.stages, 3), 2))
    for stage, order in enumerate(schedule.orders):
        first, last = pipeline.parts_of[stage][0], pipeline.parts_of[stage][-1]
        for kind, colour in COLOURS.items():
            for part in pipeline.parts_of[stage]:
                actions = [action for action in order if action.kind is kind and action.part == part]
                spans = [(schedule.start[a] / scale, pipeline.duration(kind, part) / scale) for a in actions]
                opacity = 1 - (1 - LATER_PARTS) * (part - first) / max(last - first, 1)
                axes.broken_barh(
                    spans, (stage - 0.4, 0.8), facecolors=colour, alpha=opacity, edgecolor="white", linewidth=0.4
                )
        if sum(map(len, schedule.orders)) <= MOST_LABELS:
            for action in order:
                middle = (schedule.start[action] + schedule.end(action)) / 2 / scale
                axes.text(middle, stage, str(action.microbatch), ha="center", va="center", fontsize=7, color="white")
    axes.set_yticks(range(pipeline.stages), [f"stage {stage}" for stage in range(pipeline.stages)])
    axes.invert_yaxis()
    axes.set_title(title, loc="left", fontsize=11)
    kinds = [kind for kind in COLOURS if any(action.kind is kind for order in schedule.orders for action in order)]
    handles = [axes.broken_barh([], (0, 0), facecolors=COLOURS[kind], label=ACTION_TITLES[kind]) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    for stage, order in enumerate(schedule.orders):
        held = [amount / pipeline.activation for amount in schedule.held(order)]
        times = [schedule.start[action] / scale for action in order]
        memory.step(times, held, where="post", linewidth=1.0, alpha=0.8, label=f"stage {stage}")
    if pipeline.memory is not None:
        memory.axhline(pipeline.memory / pipeline.activation, color="black", linewidth=0.8, linestyle="--")
    memory.set_ylabel("activations kept", fontsize=8)
    memory.set_xlabel(f"time ({unit})")
    save_figure(figure, path)
