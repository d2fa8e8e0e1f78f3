"""Experiment files: which policies run on which instances, as TOML, checked once.

An experiment has blocks, ``[[runs]]``; each is the cross product of its instances, overrides, policies, seeds and time
limits.  ``[quick]`` says what ``--quick`` leaves of them.  :mod:`themis_opt.batches.expansion` makes single runs of it.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StrictBool,
    StrictStr,
    WithJsonSchema,
    create_model,
    model_validator,
)

from themis_opt.base.documents import read_toml, schema_text
from themis_opt.base.units import Bytes
from themis_opt.problem.catalog import MAX_SEED
from themis_opt.problem.cost_terms import COST_TERMS
from themis_opt.problem.documents import errors_of
from themis_opt.problem.fields import MAX_BYTES, MAX_CHUNKS, MAX_NPUS, Count, Model
from themis_opt.problem.iteration import MAX_TASKS
from themis_opt.problem.network import cost_type

EXPERIMENT, STORE = "experiment.toml", "runs.sqlite"  # files in the folder of an experiment
MAX_WORKLOADS = 10**5  # most workloads of one table


def _differ(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must name each value once")
    return values


Some = Field(min_length=1)
Once = AfterValidator(_differ)
Several = BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
Text = Annotated[StrictStr, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], Some, Once]
SeedNumber = Annotated[Count, Field(ge=0, le=MAX_SEED)]
Seconds = Annotated[float, Field(gt=0, le=1e9, strict=True, allow_inf_nan=False)]


class Workload(Model):
    """The choices that make a training iteration; what they mean is said in :class:`themis_opt.workloads.setup.Setup`.

    `model`: one of :data:`themis_opt.workloads.models.MODELS`.
    `network`: an instance, shipped or beside the experiment, whose network is taken.
    `npus`: NPUs along its dimensions, instead of the stated ones; a dimension with one is left out.
    `flops`, `efficiency`, `times`: rate of an NPU and the fraction that is reached, or a file with the times of each
      layer beside the experiment.
    `group`: NPUs that share the model.
    """

    model: Text
    network: Text
    npus: tuple[Annotated[Count, Field(ge=1, le=MAX_NPUS)], ...] | None = None
    parallelism: StrictStr = "data"
    batch: Count = 32
    sequence: Count | None = None
    dtype: StrictStr = "fp16"
    flops: StrictStr = "120 TFLOP/s"
    efficiency: Annotated[float, Field(strict=True)] = 1.0
    times: Text | None = None
    group: Count | None = None
    accumulate: Annotated[Count, Field(gt=0, le=MAX_TASKS)] = 1
    zero: Count = 0
    gathers: StrictStr = "microbatch"
    granularity: StrictStr = "layer"
    weights_only: StrictBool = False
    recompute: StrictBool | Literal["selective"] = False
    update: StrictStr = "0 s"
    speeds: StrictStr = ""
    share: StrictStr = "equal"
    compress: StrictStr = ""
    index_bytes: Count = 4
    refresh: StrictStr = "0 s"
    adaptive: Annotated[float, Field(strict=True)] = 1.0
    tolerance: Annotated[float, Field(strict=True)] = 0.0
    local_blocks: Count = 1
    experts: Count | None = None
    data: Count | None = None
    context: Count | None = None
    stages: Count | None = None
    layers_per_stage: Text | None = None
    virtual_stages: Count = 1
    microbatches: Count = 1
    schedule: StrictStr = "1f1b"
    skip: Count = 1
    wait: Count = 0
    memory: StrictStr | None = None
    device: StrictStr = ""
    host_link: StrictStr | None = None
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64


def expand_table(table: object) -> tuple[Workload, ...]:
    """All workloads of a table, in the order of its fields, the last one varied first.

    Raises ValueError if it is no table, a list is empty or repeats itself, or there are more than
    :data:`MAX_WORKLOADS`; ModelError if a value breaks a rule.
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


WorkloadTable = Annotated[tuple[Workload, ...], PlainValidator(expand_table), WithJsonSchema({"type": "object"})]
"""A table as the workloads that it stands for."""


class InstanceSample(Model):
    """A seeded sample of the instances of a block."""

    count: Annotated[Count, Field(gt=0)]
    seed: SeedNumber = 0


INSTANCE_RULES = ("size", "chunks", "latency", "ag_order")  # what of an instance can be replaced besides cost terms

if TYPE_CHECKING:
    CostOverrides = Model
else:
    _Values: dict[str, Any] = {
        name: (Annotated[tuple[cost_type(name), ...], Some, Once] | None, None) for name in COST_TERMS
    }
    CostOverrides = create_model("CostOverrides", __base__=Model, **_Values)
"""A field for each cost term, with the values it takes in turn."""


class Block(CostOverrides):
    """The cross product of instances, overrides, policies, seeds and time limits.

    Where an instance is a training iteration, policies are those of :mod:`themis_opt.policies.registry`.

    `block`: a label for its rows.
    `instances`: names or patterns of shipped problems of every family, files relative to the experiment, and
      ``random:A-B``. A policy runs on the problems whose family has it.
    `workloads`: tables of options that make training iterations, beside the instances or instead of them.
    `size`, `chunks`, `latency`, `ag_order`: values in turn, which replace those of the instances; cost terms of
      :class:`CostOverrides` replace those of every dimension.
    `policies`: specifications of policies, and ``bound`` for the lower bounds.
    `seeds`: for policies with a seed.
    `time_limit`: seconds, or several budgets of seconds, for policies that search.
    `workers`, `gap`, `chunk_sizes`: for policies that have such knobs; threads, a fraction, and ``equal`` or ``free``.
    `record`: what rows hold besides: ``activity`` of the dimensions over time, and ``trajectory`` of a search.
    `sample`: take only some of the instances.
    """

    block: StrictStr = ""
    instances: Annotated[tuple[Text, ...], Once] = ()
    workloads: tuple[WorkloadTable, ...] = ()
    size: Annotated[tuple[Annotated[Bytes, Field(gt=0, le=MAX_BYTES)], ...], Some, Once] | None = None
    chunks: Annotated[tuple[Annotated[Count, Field(gt=0, le=MAX_CHUNKS)], ...], Some, Once] | None = None
    latency: Annotated[tuple[Literal["lag", "occupy"], ...], Some, Once] | None = None
    ag_order: Annotated[tuple[Literal["free", "reverse"], ...], Some, Once] | None = None
    policies: Texts
    seeds: Annotated[tuple[SeedNumber, ...], Some, Once] = (0,)
    time_limit: Annotated[tuple[Seconds, ...], Some, Once, Several] | None = None
    workers: Annotated[Count, Field(gt=0, le=1024)] | None = None
    gap: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    chunk_sizes: Literal["equal", "free"] = "equal"
    record: Annotated[tuple[Literal["activity", "trajectory"], ...], Once] = ()
    sample: InstanceSample | None = None

    @cached_property
    def overrides(self) -> dict[str, tuple[Any, ...]]:
        """The values that are taken in turn, by what they replace."""
        values = {name: getattr(self, name) for name in (*INSTANCE_RULES, *COST_TERMS)}
        return {name: value for name, value in values.items() if value is not None}

    @cached_property
    def largest(self) -> tuple[int | None, int | None]:
        """The largest size and number of chunks that replace others, None where nothing does."""
        return max(self.size or (), default=None), max(self.chunks or (), default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.instances and not self.workloads:
            raise ValueError("must have instances or workloads")
        return self


class Quick(Model):
    """What ``--quick`` overrides: the runs left of each block, evenly spread, and the seconds of each search."""

    limit: Annotated[Count, Field(gt=0)] | None = None
    time_limit: Seconds | None = None


class Experiment(Model):
    """An experiment; `report` names how its rows are shown: a registered report, or ``module:function`` beside it."""

    name: Text
    title: StrictStr = ""
    report: Text = "table"
    description: StrictStr = ""
    runs: Annotated[tuple[Block, ...], Some]
    quick: Quick = Quick()

    def quickened(self) -> Self:
        """The experiment with the time limits of ``[quick]``."""
        return self if self.quick.time_limit is None else self._with({"time_limit": (self.quick.time_limit,)})

    def _with(self, changed: Mapping[str, Any]) -> Self:
        return self.model_copy(update={"runs": tuple(block.model_copy(update=changed) for block in self.runs)})

    def overridden(self, given: Mapping[str, Any]) -> Self:
        """The experiment with some fields of all blocks replaced, each by one value.

        Raises InputError if a value breaks the rule of its field.
        """
        if not given:
            return self
        fields = {name: value if name == "chunk_sizes" else [value] for name, value in given.items()}
        with errors_of("command line"):
            block = Block.model_validate({"instances": ["any"], "policies": ["any"], **fields})
        return self._with({name: getattr(block, name) for name in block.model_fields_set - {"instances", "policies"}})

    @model_validator(mode="after")
    def _check(self) -> Self:
        labels = [block.block for block in self.runs if block.block]
        if len(set(labels)) < len(labels):
            raise ValueError(f"blocks must have labels that differ, got {', '.join(labels)}")
        return self


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises InputError if it cannot be read or breaks a rule; the message names file, field, value and rule.
    """
    with errors_of(path):
        return Experiment.model_validate(read_toml(path))


def experiment_schema() -> str:
    """The JSON Schema of experiment files as text; editors of TOML check files against it."""
    schema, workload = Experiment.model_json_schema(), Workload.model_json_schema()
    block = schema["$defs"]["Block"]["properties"]
    several = {
        name: {"anyOf": [rule, {"type": "array", "items": rule}]} for name, rule in workload["properties"].items()
    }
    block["workloads"]["items"] = workload | {"properties": several, "title": "Workloads"}
    for term in COST_TERMS:
        (values,) = (rule for rule in block[term]["anyOf"] if rule["type"] == "array")
        values["items"] = {"anyOf": [{"type": "string"}, values["items"]]}
    (seconds,) = (rule for rule in block["time_limit"]["anyOf"] if rule["type"] == "array")
    block["time_limit"]["anyOf"].append(seconds["items"])
    return schema_text(schema)
