"""Files of pipelines: the problem, a schedule of it, and the CSV that PyTorch runs."""

import json
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from themis_opt.base.documents import read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import MAX_CLOCK
from themis_opt.pipelines.problem import PIPELINE_FORMAT, Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, simulate
from themis_opt.pipelines.validation import validate
from themis_opt.problem.catalog import locate, shipped_pipelines
from themis_opt.problem.documents import errors_of, read_model
from themis_opt.schedules.envelope import Envelope, Summary, check_envelope, head

PIPELINE_SCHEDULE_FORMAT: Literal["themis-opt/pipeline-schedule/1"] = "themis-opt/pipeline-schedule/1"

ACTION = re.compile(r"(\d{1,6})([FBIWOL])(\d{1,6})")  # part, kind and microbatch, as PyTorch writes them: ``2F0``


StartTime = Annotated[int, Field(strict=True, ge=0, le=MAX_CLOCK)]


class PipelineScheduleFile(Envelope):
    """Orders of actions by stage, with start times in picoseconds or without."""

    format: Literal["themis-opt/pipeline-schedule/1"]
    instance: Pipeline
    orders: list[Annotated[list[str], Field(fail_fast=True)]]
    starts: list[Annotated[list[StartTime], Field(fail_fast=True)]] | None = None


def read_pipeline(source: str | Path) -> Pipeline:
    """The pipeline of a file, of a schedule, or the shipped one of a name. Raises InputError if there is none."""
    path = locate(source, shipped_pipelines, "pipeline")
    document = read_json(path)
    is_schedule = document.get("format") == PIPELINE_SCHEDULE_FORMAT
    with errors_of(path):
        return Pipeline.model_validate(document.get("instance") if is_schedule else document)


def pipeline_text(pipeline: Pipeline) -> str:
    """The document of a pipeline."""
    document = {"format": PIPELINE_FORMAT} | pipeline.model_dump(mode="json", exclude_unset=True)
    return json.dumps(document, indent=2) + "\n"


def write_schedule(path: Path, schedule: PipelineSchedule, summary: Summary | None = None) -> None:
    """Write a schedule with what is known of it; start times are in picoseconds, in the order of the actions."""
    document = {
        **head(PIPELINE_SCHEDULE_FORMAT, schedule.pipeline, schedule.value, summary, exclude_unset=True),
        "orders": [[text_of(action) for action in order] for order in schedule.orders],
        "starts": [[schedule.start[action] for action in order] for order in schedule.orders],
    }
    write_atomically(path, json.dumps(document) + "\n")


def read_schedule(path: Path) -> tuple[PipelineSchedule, Summary]:
    """Read a schedule and check it, and what its summary says; without start times, actions run as soon as they can.

    Raises InputError for other files, InvalidSchedule if a rule is broken.
    """
    written = read_model(path, PipelineScheduleFile, PIPELINE_SCHEDULE_FORMAT)
    pipeline = written.instance
    with errors_of(path):
        if len(written.orders) != pipeline.stages:
            raise InputError(f"must be {pipeline.stages} lists, one for each stage", field="orders")
        orders = tuple(
            tuple(_action(pipeline, stage, cell, f"orders[{stage}][{place}]") for place, cell in enumerate(row))
            for stage, row in enumerate(written.orders)
        )
        schedule = simulate(pipeline, orders) if written.starts is None else _at(pipeline, orders, written.starts)
        validate(schedule)
        check_envelope(written, schedule.value)
    return schedule, written.summary


def _at(pipeline: Pipeline, orders: StageOrders, starts: Sequence[Sequence[int]]) -> PipelineSchedule:
    """The schedule of start times in the order of the actions."""
    if list(map(len, starts)) != list(map(len, orders)):
        raise InputError("must have a time for each action of orders", field="starts")
    return PipelineSchedule(pipeline, orders, dict(zip(chain(*orders), chain(*starts), strict=True)))


def _action(pipeline: Pipeline, stage: int, cell: str, field: str) -> Action:
    match = ACTION.fullmatch(cell)
    if match is None:
        raise InputError("must be part, kind and microbatch, such as 2F0", field=field, value=cell)
    action = Action(ActionKind(match[2]), int(match[1]), int(match[3]))
    if action.part not in pipeline.parts_of[stage] or action.microbatch >= pipeline.microbatches:
        raise InputError(f"must be a part of stage {stage} and one of its microbatches", field=field, value=cell)
    return action


def text_of(action: Action) -> str:
    """An action as PyTorch writes it, such as ``2F0``."""
    return f"{action.part}{action.kind}{action.microbatch}"
