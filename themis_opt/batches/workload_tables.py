"""Workloads of an experiment: the options of ``themis-opt workload`` as a table, in which lists are cross products."""

import math
from itertools import product
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, StrictBool, StrictStr

from themis_opt.instance import MAX_CHUNKS, MAX_NPUS, Count, Model
from themis_opt.iteration import MAX_TASKS
from themis_opt.units import parse_time

MAX_WORKLOADS = 10**5
"""Most workloads of one table."""


def _time(text: str) -> str:
    parse_time(text)
    return text


Name = Annotated[StrictStr, Field(min_length=1)]


class Workload(Model):
    """The choices that make a training iteration; what they mean is said in :class:`themis_opt.workloads.setup.Setup`.

    Attributes
    ----------
    model : str
        One of :data:`themis_opt.workloads.models.MODELS`.
    network : str
        An instance, shipped or beside the experiment, whose network is taken.
    npus : tuple of int, optional
        NPUs along its dimensions, instead of its own; a dimension with one is left out.
    flops, efficiency, times : str, float, str
        Rate of an NPU and the fraction that is reached, or a file with the times of each layer beside the experiment.
    group : int, optional
        NPUs that share the model.
    separate : bool
        Whether both parts of a dimension that is split have its bandwidth.
    """

    model: Name
    network: Name
    npus: tuple[Annotated[Count, Field(ge=1, le=MAX_NPUS)], ...] | None = None
    parallelism: StrictStr = "data"
    batch: Count = 32
    sequence: Count | None = None
    dtype: StrictStr = "fp16"
    flops: StrictStr = "120 TFLOP/s"
    efficiency: Annotated[float, Field(strict=True)] = 1.0
    times: Name | None = None
    group: Count | None = None
    accumulate: Annotated[Count, Field(gt=0, le=MAX_TASKS)] = 1
    zero: Count = 0
    granularity: StrictStr = "layer"
    weights_only: StrictBool = False
    recompute: StrictBool = False
    update: Annotated[StrictStr, AfterValidator(_time)] = "0 s"
    separate: StrictBool = False
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64


def expanded(table: object) -> tuple[Workload, ...]:
    """All workloads of a table, in the order of its fields, the last one varied first.

    Raises
    ------
    ValueError
        If it is no table, a list is empty or repeats itself, or there are more than :data:`MAX_WORKLOADS`; a
        ``pydantic.ValidationError`` that names the field if a value breaks a rule.
    """
    if not isinstance(table, dict):
        raise ValueError("must be a table of options")
    lists = {name: _values(name, given) for name, given in table.items()}
    if math.prod(map(len, lists.values())) > MAX_WORKLOADS:
        raise ValueError(f"must stand for at most {MAX_WORKLOADS} workloads")
    return tuple(Workload.model_validate(dict(zip(lists, values, strict=True))) for values in product(*lists.values()))


def _values(name: str, given: Any) -> list[Any]:
    """The values of a field that are asked for; `npus` are several if they are lists in a list."""
    if not isinstance(given, list) or (name == "npus" and not (given and isinstance(given[0], list))):
        return [given]
    if not given:
        raise ValueError(f"{name} must have one value or more")
    if any(value in given[:number] for number, value in enumerate(given)):
        raise ValueError(f"{name} must name each value once")
    return given


WorkloadTable = Annotated[tuple[Workload, ...], PlainValidator(expanded)]
"""A table as the workloads that it stands for."""
