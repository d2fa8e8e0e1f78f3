"""What schedule files of all families say alike: the problem, and a summary, which must fit the times."""

from collections.abc import Mapping
from math import isclose
from typing import Any

from pydantic import BaseModel, ConfigDict

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, nanoseconds
from themis_opt.base.version import __version__

SUMMARY_ROUNDING = 1e-6
"""By how much a bound may exceed a makespan, and a share or a gap differ from what the times say: noise of floats."""


class SchedulePart(BaseModel):
    """A part of a schedule file, which names no other field."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Summary(SchedulePart):
    """Policy, bounds, status and settings behind a schedule when it was written; not needed to read it back.

    In a file it stands beside what the times say (:func:`measures`).
    """

    policy: str = ""
    bounds_ns: dict[str, float] = {}
    status: str = ""
    settings: dict[str, str | int | float] = {}
    written_by: str = f"themis_opt {__version__}"


class MeasuredSummary(Summary):
    """The summary in a file; `makespan_ns` is that of the objective, of a period its length."""

    makespan_ns: float | None = None
    gap: float | None = None


class Envelope(SchedulePart):
    """Fields of schedule files of all families.

    `fingerprint`: that of the problem, where the file says it.
    """

    format: str
    instance: Any
    fingerprint: str = ""
    summary: MeasuredSummary = MeasuredSummary()


def summary_of(result: Any, bounds: Mapping[str, float], settings: Mapping[str, Any]) -> Summary:
    """The summary of a result of a comparison.

    `bounds`: in picoseconds, by name.  `settings`: what the comparison was allowed to spend, by name.
    """
    in_ns = {name: nanoseconds(value) for name, value in bounds.items()}
    return Summary(policy=result.policy, bounds_ns=in_ns, status=result.status, settings=dict(settings))


def measures(makespan: int, bounds_ns: Mapping[str, float]) -> dict[str, float | None]:
    """A makespan in picoseconds by the fields of its summary, and its gap to the best of some bounds, if there are."""
    in_ns, best = nanoseconds(makespan), max(bounds_ns.values(), default=0.0)
    return {"makespan_ns": in_ns, "gap": in_ns / best - 1 if best > 0 else None}


def head(form: str, problem: Any, makespan: int, summary: Summary | None, **dumped: Any) -> dict[str, Any]:
    """The fields of an :class:`Envelope`.  `dumped`: which fields of the problem are left out."""
    remarks = (summary or Summary()).model_dump()
    return {
        "format": form,
        "instance": problem.model_dump(mode="json", **dumped),
        "fingerprint": problem.fingerprint,
        "summary": remarks | measures(makespan, remarks["bounds_ns"]),
    }


def check_envelope(written: Envelope, makespan: int) -> None:
    """Refuse a file whose fingerprint is of another problem, or whose summary does not fit the makespan."""
    if written.fingerprint:
        check_fingerprint(written.fingerprint, written.instance)
    check_summary(written.summary, measures(makespan, written.summary.bounds_ns), makespan)


def check_fingerprint(fingerprint: str, problem: Any) -> None:
    """Refuse the file of another problem."""
    if fingerprint != problem.fingerprint:
        rule = f"belongs to another instance, this one has '{problem.fingerprint}'"
        raise InputError(rule, field="fingerprint", value=fingerprint)


def check_summary(summary: Summary, measured: Mapping[str, float | None], makespan: int) -> None:
    """Refuse a summary with a bound above the makespan, in picoseconds, or other figures than those `measured`."""
    in_ns = nanoseconds(makespan)
    for name, bound in summary.bounds_ns.items():
        if bound > in_ns * (1 + SUMMARY_ROUNDING):
            rule = f"a bound must be at most the makespan, {in_ns}"
            raise InputError(rule, field=f"summary.bounds_ns.{name}", value=bound)
    for field, value in measured.items():
        claimed = getattr(summary, field)
        if claimed is not None and not _fits(field, claimed, value):
            rule = "needs bounds" if value is None else f"must be {value}, as times and bounds say"
            raise InputError(rule, field=f"summary.{field}", value=claimed)


def _fits(field: str, claimed: float, value: float | None) -> bool:
    """Whether a claim is right: to the picosecond where it is a time."""
    if value is None or field.endswith("_ns"):
        return claimed == value
    return isclose(claimed, value, rel_tol=SUMMARY_ROUNDING, abs_tol=SUMMARY_ROUNDING)


def with_bounds_of(summary: Summary, proven: Mapping[str, float]) -> dict[str, float]:
    """Bounds in picoseconds, each at least that of the file, which a search may have proven."""
    written = {name: value * PICOSECONDS_PER_NANOSECOND for name, value in summary.bounds_ns.items()}
    return {name: max(proven.get(name, 0.0), written.get(name, 0.0)) for name in {**proven, **written}}
