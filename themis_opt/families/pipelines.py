"""Pipelines of microbatches: orders of actions on stages."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.families import family
from themis_opt.families.family import Family, lazily, refuse_changes
from themis_opt.pipelines import comparison
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule, simulate
from themis_opt.pipelines.validation import validate
from themis_opt.policies.registry import REFERENCE

if TYPE_CHECKING:
    from numpy.random import Generator

    from themis_opt.formats.exports import Exported
    from themis_opt.study.robustness import Disturbance


compare = family.with_limits(comparison.compare)


def bounds(problem: Pipeline, **options: Any) -> Mapping[str, float]:
    """The bound of filling and draining, in any order of the microbatches."""
    return {"filling_and_draining": float(bound(problem, **options))}


def facts(problem: Pipeline) -> Mapping[str, str | int]:
    """Stages stand for NPUs, and microbatches for chunks of activations."""
    return {
        "network": problem.name or "pipeline",
        "dimensions": 1,
        "npus": problem.stages,
        "kind": "pipeline",
        "size_bytes": problem.activation * problem.microbatches,
        "chunks": problem.microbatches,
    }


def in_short(problem: Pipeline) -> str:
    """Stages and microbatches."""
    parts = f"{problem.num_parts} parts of a model on {problem.stages} stages"
    return f"{parts}, {problem.microbatches} microbatches; the objective is the {problem.objective}"


def export(schedule: PipelineSchedule, to: str, folder: Path, *, check: bool = False) -> "Exported":
    """The CSV that PyTorch runs, a job shop, or a trace for Perfetto."""
    from themis_opt.base.documents import make_folder
    from themis_opt.families import files
    from themis_opt.formats.exports import Exported, Replay
    from themis_opt.pipelines.torch_csv import TORCH, torch_rows, write_torch_csv

    if to.partition(":")[0] in files.SHARED:
        return files.export(schedule, to, folder, check=check)
    if to != TORCH:
        rule = f"must be one of {', '.join((TORCH, *files.SHARED))} for the schedule of a pipeline"
        raise InputError(rule, field="--to", value=to)
    make_folder(folder)
    write_torch_csv(folder / f"{TORCH}.csv", schedule)
    time = Replay("PyTorch", simulate(schedule.pipeline, torch_rows(schedule)).makespan, schedule.makespan)
    return Exported([folder / f"{TORCH}.csv"], [str(time)] if check else [])


def again(schedule: PipelineSchedule, problem: Pipeline) -> int:
    """What the orders of a schedule take in another pipeline."""
    return simulate(problem, schedule.orders).value


def disturbed(problem: Pipeline, disturbance: "Disturbance", random: "Generator") -> Pipeline:
    """Every part with slower passes, and all links with another bandwidth."""
    spread, parts, slower = disturbance.bandwidth_spread, problem.num_parts, dict[str, Any]()
    for name in ("forward", "inputs", "weights"):
        times = np.broadcast_to(getattr(problem, name), parts) * (1 + disturbance.compute_jitter * random.random(parts))
        slower[name] = [f"{math.ceil(time)} ps" for time in times.tolist()]
    rate = random.uniform(1 - spread, 1 + spread)
    links = {"message": problem.message, "offload": problem.offload}
    return problem.replace(**slower, **{name: f"{math.ceil(time / rate)} ps" for name, time in links.items() if time})


def _varied(problem: Pipeline, figure: str, value: Any) -> Pipeline:
    if figure not in Pipeline.model_fields:
        raise InputError("must be a field of the pipeline", field="over", value=figure)
    return problem.replace(**{figure: value})


def changed(problem: Pipeline, changes: Mapping[str, Any]) -> Pipeline:
    """The pipeline, whose figures are fields of its file."""
    refuse_changes("pipelines", changes)
    return problem


PIPELINE_FAMILY = Family(
    name="pipelines",
    solve=partial(compare, policies=None),
    compare=compare,
    bounds=bounds,
    has_policy={*PIPELINE_POLICIES, REFERENCE}.__contains__,
    make_policy=partial(family.make_policy, PIPELINE_POLICIES),
    simulate=simulate,
    validate=validate,
    export=export,
    robustness=partial(lazily("themis_opt.study.robustness:replayed_losses"), disturbed, again, bounds),
    rival=lambda problem: "1f1b",
    sweep=partial(family.sweep, compare, _varied, tuple(PIPELINE_POLICIES)),
    read_solution=partial(family.read_solution, "themis_opt.pipelines.files:read_schedule"),
    text=lazily("themis_opt.pipelines.files:pipeline_text"),
    in_short=in_short,
    changed=changed,
    searches=REFERENCE.__eq__,
    facts=facts,
    usual=tuple(PIPELINE_POLICIES),
    instead={
        "run": "call 'export', whose file PyTorch runs",
        "tune": "a pipeline has no chunks, so call 'solve', or 'sweep' over memory",
    },
)
