"""Results on training iterations, with what their rows record besides."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import ITERATION
from themis_opt.batches.rows_file import BOUND
from themis_opt.reports.results import policy_head


class Extra(BaseModel):
    """What the row of an iteration records: times in ns, exposed by data and by model parallelism."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)

    compute_ns: float
    exposed_ns: float
    exposed_data_ns: float
    exposed_model_ns: float
    overlap: float | None = None
    launches: int | None = None
    steps: int = 1
    memory_bytes: float | None = None
    workload: Mapping[str, Any] = {}


def iteration_runs(schedules: pd.DataFrame) -> pd.DataFrame:
    """The results that are iterations, with the fields of :class:`Extra` as further columns.

    Besides there are

    policy
        Categorical, in the order of the rows.
    launching, chunk_policy
        The parts of the policy, such as ``ddp`` and ``themis+scf`` of ``ddp:cap=1MiB/themis+scf``.
    model
        The model that is trained: as recorded, else the last part of the instance's name.
    exposed_gap
        Exposed communication over the least that the bound leaves, minus 1; NaN where it leaves none.

    Raises
    ------
    InputError
        If one does not say how its time is made up.
    """
    runs = schedules[schedules["kind"] == ITERATION]
    records = [_extra(*cells) for cells in zip(runs["extra"], runs["instance"], runs["policy"], strict=True)]
    extra = pd.DataFrame([dict(record) for record in records], index=runs.index, columns=list(Extra.model_fields))
    extra = extra.astype({"overlap": float, "launches": float, "memory_bytes": float})
    least = runs["best_bound_ns"] - extra["compute_ns"]
    return runs.assign(
        **{name: extra[name] for name in extra},
        policy=pd.Categorical(runs["policy"], categories=runs["policy"].unique()),
        launching=runs["policy"].map(launching),
        chunk_policy=runs["policy"].map(chunk_policy),
        model=[_model(*cells) for cells in zip(extra["workload"], runs["instance"], strict=True)],
        exposed_gap=extra["exposed_ns"] / least.where(least > 0) - 1,
    )


def _extra(recorded: Mapping[str, Any], instance: str, policy: str) -> Extra:
    try:
        return Extra.model_validate(recorded)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place} of {instance} with {policy}: {first['msg']}", field="column extra") from None


def _model(workload: Mapping[str, Any], instance: str) -> str:
    recorded = workload.get("model")
    return recorded if isinstance(recorded, str) else instance.rpartition(".")[2]


def ideal_times(rows: pd.DataFrame) -> dict[str, float]:
    """Nanoseconds of an iteration whose collectives use all bandwidth, by fingerprint, from runs of bounds."""
    runs = rows[(rows["kind"] == ITERATION) & (rows["policy"] == BOUND)]
    bounds = ((key, extra.get("bounds_ns")) for key, extra in zip(runs["fingerprint"], runs["extra"], strict=True))
    ideals = ((key, known.get("ideal")) for key, known in bounds if isinstance(known, dict))
    return {key: float(ideal) for key, ideal in ideals if isinstance(ideal, int | float)}


def chunk_policy(policy: str) -> str:
    """The part of a specification that plans chunks, such as ``themis+scf`` of ``fused/themis+scf``."""
    return policy.rpartition("/")[2]


def launching(policy: str) -> str:
    """The name of the part of a specification that launches collectives, such as ``ddp`` of ``ddp:cap=1MiB``."""
    return policy_head(policy.partition("/")[0])


def setting(policy: str, knob: str) -> str | None:
    """The value of a knob of the launching part, such as ``1MiB``."""
    parts = policy.partition("/")[0].split(":")[1:]
    return next((part.partition("=")[2] for part in parts if part.partition("=")[0] == knob), None)
