"""The columns of results: what tables, CSV and JSON say of a schedule, each stated once.

A new column is one entry of :data:`RESULT_COLUMNS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from themis_opt.base.units import Form as Form
from themis_opt.base.units import cells, nanoseconds
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches
from themis_opt.schedules.results import PolicyResult
from themis_opt.schedules.schedule import Schedule

Value = str | int | float | bool


@dataclass(frozen=True)
class ResultColumn:
    """One column.

    `name`: in CSV and JSON; times are in nanoseconds, bandwidths in bytes per second, shares 0..1.
    `value`: from a schedule to the value, or, where `judged`, from a result.
    `title`: in tables; those without one are left out there.
    `judged`: whether it needs the bound of the comparison or its baseline.
    `of_stages`: whether it is for pipelines alone.
    `of_period`: whether it is for schedules with a period, for those without, or for both.
    `note`: from a schedule to what tables note behind the value, if there is anything to note.
    """

    name: str
    value: Callable[[Any], Value]
    form: Form
    title: str = ""
    judged: bool = False
    of_period: bool | None = None
    of_stages: bool = False
    note: Callable[[Schedule], str] = lambda schedule: ""


def busy_in_words(schedule: Schedule) -> str:
    """Share of the time in which each dimension is held, innermost first, with blanks between."""
    return " ".join(f"{share:.4f}" for share in schedule.busy.values())


RESULT_COLUMNS: tuple[ResultColumn, ...] = (
    ResultColumn("makespan_ns", lambda s: nanoseconds(s.makespan), "time", "makespan", of_period=False),
    ResultColumn(
        "makespan_ns",
        lambda s: nanoseconds(s.makespan),
        "time",
        "iteration",
        of_period=True,
        note=lambda s: "" if s.period.is_steady else "varies",
    ),
    ResultColumn("compute_ns", lambda s: nanoseconds(s.instance.compute), "time", of_period=True),
    ResultColumn("bubble_ns", lambda s: nanoseconds(s.period.bubble), "time", "bubble", of_period=True, of_stages=True),
    ResultColumn("exposed_ns", lambda s: nanoseconds(s.period.exposed), "time", "exposed", of_period=True),
    ResultColumn("exposed_share", lambda s: s.period.exposed / s.makespan, "share", "of step", of_period=True),
    ResultColumn("exposed_data_ns", lambda s: nanoseconds(s.period.exposed_by("data")), "time", "data", of_period=True),
    ResultColumn(
        "exposed_model_ns", lambda s: nanoseconds(s.period.exposed_by("model")), "time", "model", of_period=True
    ),
    ResultColumn("communicating_ns", lambda s: nanoseconds(s.period.communicating), "time", of_period=True),
    ResultColumn("overlap", lambda s: s.period.overlap, "share", "overlap", of_period=True),
    ResultColumn("utilisation", lambda s: s.utilisation, "share"),
    ResultColumn("busy", busy_in_words, "shares", "busy"),
    ResultColumn("algbw_bytes_per_s", lambda s: s.algorithm_bandwidth, "bandwidth", "algbw", of_period=False),
    ResultColumn("busbw_bytes_per_s", lambda s: s.bus_bandwidth, "bandwidth", "busbw", of_period=False),
    ResultColumn("idle", lambda s: s.idle, "share"),
    ResultColumn("launches", lambda s: len(s.launched), "count", "launches", of_period=True),
    ResultColumn("steady", lambda s: s.period.is_steady, "text", of_period=True),
    ResultColumn("speedup", lambda r: r.speedup, "ratio", "speedup", judged=True),
    ResultColumn("bound_ns", lambda r: nanoseconds(r.bound), "time", judged=True),
    ResultColumn("gap", lambda r: r.gap, "share", "gap", judged=True),
    ResultColumn("exposed_gap", lambda r: r.exposed_gap, "share", judged=True, of_period=True),
    ResultColumn("status", lambda r: r.status, "text", "status", judged=True),
)
"""The columns after the policy, in the order of tables."""


def objective(instance: Instance) -> ResultColumn:
    """What is minimised on an instance: the makespan or, with compute, the iteration time."""
    return next(column for column in RESULT_COLUMNS if column.of_period == has_launches(instance))


def columns_of(schedules: Sequence[Schedule], *, judged: bool) -> list[ResultColumn]:
    """The columns for schedules; those of a comparison where they are `judged`, else those that need none."""
    offered = (column for column in RESULT_COLUMNS if judged or not column.judged)
    has_stages = any(schedule.instance.num_stages > 1 for schedule in schedules)
    return [
        column
        for column in offered
        if all(column.of_period in (None, s.has_period) for s in schedules) and (has_stages or not column.of_stages)
    ]


def schedule_row(schedule: Schedule) -> dict[str, Value]:
    """What a schedule says without others, as plain values by the names of columns."""
    return {column.name: column.value(schedule) for column in columns_of([schedule], judged=False)}


def result_row(result: PolicyResult) -> dict[str, Value]:
    """What is known of a result, as plain values by the names of columns."""
    columns = columns_of([result.schedule], judged=True)
    values = {column.name: column.value(result if column.judged else result.schedule) for column in columns}
    return {"policy": result.policy} | values


ShownTable = tuple[Sequence[str], Sequence[Sequence[str]]]  # headings, and the cells of rows, as people read them


def result_table(rows: Sequence[Mapping[str, Any]], schedules: Sequence[Schedule]) -> ShownTable:
    """Rows of schedules by policy as a table: the columns that have a title and that all rows have."""
    shown = [column for column in columns_of(schedules, judged=True) if column.title]
    columns = [column for column in shown if all(column.name in row for row in rows)]
    texts = [_noted(column, [row[column.name] for row in rows], schedules) for column in columns]
    policies = [str(row["policy"]) for row in rows]
    return ["policy", *(column.title for column in columns)], list(zip(policies, *texts, strict=True))


def _noted(column: ResultColumn, values: Sequence[Any], schedules: Sequence[Schedule]) -> list[str]:
    """The cells of a column with what is to be noted about them."""
    notes = [column.note(schedule) for schedule in schedules]
    return [f"{cell} ({note})" if note else cell for cell, note in zip(cells(column.form, values), notes, strict=True)]
