"""Runs on training iterations, with what their rows record besides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from themis_opt.errors import InputError
from themis_opt.reports.document import Section
from themis_opt.reports.results import Result, policy_head
from themis_opt.reports.rows import BOUND, Row

ITERATION = "iteration"
"""The kind of rows of training iterations."""


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


@dataclass(frozen=True)
class IterationRun:
    """A schedule of an iteration.

    Parameters
    ----------
    result : Result
        Its iteration time and bound.
    extra : Extra
        How that time is made up.
    """

    result: Result
    extra: Extra

    @property
    def row(self) -> Row:
        """Its row."""
        return self.result.row

    @property
    def policy(self) -> str:
        """Its policy; blocks do not run it with several limits."""
        return self.row.policy

    @property
    def time_ns(self) -> float:
        """Iteration time."""
        return self.result.makespan_ns

    @property
    def exposed_gap(self) -> float | None:
        """Exposed communication over the least that the bound leaves, minus 1; None where it leaves none."""
        least = None if self.result.bound_ns is None else self.result.bound_ns - self.extra.compute_ns
        return None if not least or least <= 0 else self.extra.exposed_ns / least - 1


def iteration_runs(found: Sequence[Result]) -> tuple[IterationRun, ...]:
    """The results that are iterations.

    Raises
    ------
    InputError
        If one does not say how its time is made up.
    """
    return tuple(IterationRun(run, _extra(run.row)) for run in found if run.row.kind == ITERATION)


def _extra(row: Row) -> Extra:
    try:
        return Extra.model_validate(row.extra)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        rule = f"{place} of {row.instance} with {row.policy}: {first['msg']}"
        raise InputError(rule, field="column extra") from None


def ideal_times(rows: Sequence[Row]) -> dict[str, float]:
    """Nanoseconds of an iteration whose collectives use all bandwidth, by fingerprint, from runs of bounds."""
    times = {}
    for row in rows:
        bounds = row.extra.get("bounds_ns")
        ideal = bounds.get("ideal") if row.policy == BOUND and isinstance(bounds, dict) else None
        if row.kind == ITERATION and isinstance(ideal, int | float):
            times[row.fingerprint] = float(ideal)
    return times


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


@dataclass(frozen=True)
class Finding:
    """A section on iterations, with sentences for the summary."""

    section: Section
    said: tuple[str, ...] = ()


def of_block(runs: Sequence[IterationRun], block: str) -> list[IterationRun]:
    """The runs of one block of the experiment."""
    return [run for run in runs if run.row.block == block]


def model_of(run: IterationRun) -> str:
    """The model that is trained: as recorded, else the last part of the instance's name."""
    recorded = run.extra.workload.get("model")
    return recorded if isinstance(recorded, str) else run.row.instance.rpartition(".")[2]
