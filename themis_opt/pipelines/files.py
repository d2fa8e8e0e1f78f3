"""Files of pipelines: the problem, a schedule of it, and the CSV that PyTorch runs."""

import json
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from themis_opt.base.documents import read_json, schema_text, write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import MAX_CLOCK
from themis_opt.pipelines.problem import PIPELINE_FORMAT, Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, Times, simulate
from themis_opt.pipelines.validation import validate
from themis_opt.problem.catalog import locate, shipped_pipelines
from themis_opt.problem.fields import located

PIPELINE_SCHEDULE_FORMAT: Literal["themis-opt/pipeline-schedule/1"] = "themis-opt/pipeline-schedule/1"

ACTION = re.compile(r"(\d{1,6})([FBIW])(\d{1,6})")
"""Part, kind and microbatch, as PyTorch writes them: ``2F0``."""


def read_pipeline(source: str | Path) -> Pipeline:
    """The pipeline of a file, of a schedule, or the shipped one of a name. Raises InputError if there is none."""
    path = locate(source, shipped_pipelines, "pipeline")
    document = read_json(path)
    if document.get("format") == PIPELINE_SCHEDULE_FORMAT:
        return _pipeline(document.get("pipeline"), str(path))
    return _pipeline(document, str(path))


def _pipeline(document: Any, source: str) -> Pipeline:
    try:
        return Pipeline.model_validate(document)
    except ValidationError as error:
        raise located(error).within(source) from None


def pipeline_text(pipeline: Pipeline) -> str:
    """The document of a pipeline."""
    document = {"format": PIPELINE_FORMAT} | pipeline.model_dump(mode="json", exclude_unset=True)
    return json.dumps(document, indent=2) + "\n"


def pipeline_schema() -> str:
    """The JSON Schema of pipelines."""
    schema = Pipeline.model_json_schema()
    return schema_text(schema | {"required": sorted({*schema["required"], "format"})})


def write_schedule(path: Path, schedule: PipelineSchedule, about: Mapping[str, Any]) -> None:
    """Write a schedule with what is known about it; start times are in picoseconds, in the order of the actions."""
    document = {
        "format": PIPELINE_SCHEDULE_FORMAT,
        **about,
        "pipeline": schedule.pipeline.model_dump(mode="json", exclude_unset=True),
        "orders": [[text_of(action) for action in order] for order in schedule.orders],
        "starts": [[schedule.start[action] for action in order] for order in schedule.orders],
    }
    write_atomically(path, json.dumps(document) + "\n")


def read_schedule(path: Path) -> PipelineSchedule:
    """Read a schedule and check it; without start times, every action runs as soon as it can.

    Raises InputError for other files, InvalidSchedule if a rule is broken.
    """
    document = read_json(path)
    if document.get("format") != PIPELINE_SCHEDULE_FORMAT:
        raise InputError(
            f"must be {PIPELINE_SCHEDULE_FORMAT}", field="format", value=document.get("format"), source=str(path)
        )
    pipeline = _pipeline(document.get("pipeline"), str(path))
    try:
        orders = _orders(pipeline, document.get("orders"))
        if "starts" in document:
            schedule = PipelineSchedule(pipeline, orders, _starts(orders, document["starts"]))
        else:
            schedule = simulate(pipeline, orders)
        validate(schedule)
    except (InputError, InvalidSchedule) as error:
        raise error.within(str(path)) from None
    return schedule


def _starts(orders: StageOrders, rows: Any) -> Times:
    """Start times in the order of the actions."""
    lengths = [len(row) if isinstance(row, list) else None for row in rows] if isinstance(rows, list) else []
    if lengths != [len(order) for order in orders]:
        raise InputError("must have a time for each action of orders", field="starts")
    times = dict(zip(chain(*orders), chain(*rows), strict=True))
    for action, time in times.items():
        if type(time) is not int or not 0 <= time <= MAX_CLOCK:
            raise InputError("must be whole picoseconds", field=f"starts of {text_of(action)}", value=time)
    return times


def _orders(pipeline: Pipeline, rows: Any) -> StageOrders:
    """Orders from their texts; every action must be one of its stage."""
    if not isinstance(rows, list) or len(rows) != pipeline.stages or not all(isinstance(row, list) for row in rows):
        raise InputError(f"must be {pipeline.stages} lists, one for each stage", field="orders")
    return tuple(
        tuple(_action(pipeline, stage, cell, f"orders[{stage}][{place}]") for place, cell in enumerate(row))
        for stage, row in enumerate(rows)
    )


def _action(pipeline: Pipeline, stage: int, cell: Any, field: str) -> Action:
    match = ACTION.fullmatch(cell) if isinstance(cell, str) else None
    if match is None:
        raise InputError("must be part, kind and microbatch, such as 2F0", field=field, value=cell)
    action = Action(ActionKind(match[2]), int(match[1]), int(match[3]))
    if action.part not in pipeline.parts_of[stage] or action.microbatch >= pipeline.microbatches:
        raise InputError(f"must be a part of stage {stage} and one of its microbatches", field=field, value=cell)
    return action


def text_of(action: Action) -> str:
    """An action as PyTorch writes it, such as ``2F0``."""
    return f"{action.part}{action.kind}{action.microbatch}"
