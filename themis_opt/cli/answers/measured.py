"""Measured times of a log, beside the best schedules, the ceilings of libraries and the bound of any algorithm."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, format_rate, format_short_size
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, write_files
from themis_opt.cli.process import remaining
from themis_opt.problem.instance import Instance

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.reports.rendering.charts import Chart
    from themis_opt.study.measured import Beside, Measured

MEASURED_TITLES: "ShownColumns" = {
    "collective": ("", "text"),
    "measured_ns": ("takes", "time"),
    "best_ns": ("best schedule", "time"),
    "bound_ns": ("any algorithm", "time"),
    "over": ("over it", "text"),
    "won_by_order": ("won by order", "share"),
    "ceiling": ("at the largest size", "text"),
    "least_ns": ("takes at least", "time"),
}
MEASURED_COLUMNS = (
    "size", "collective", "part", "measured", "measured_ns", "busbw_bytes_per_s", "best_ns", "policy", "bound_ns",
    "over", "won_by_order",
)  # fmt: skip


def compare_measured(
    healthy: "Instance | GraphInstance",
    sources: Sequence[str],
    policies: tuple[str, ...] | None,
    search: options.SearchOptions,
    folder: Path | None,
    *,
    part: str | None = None,
    size: str | None = None,
    time_limit: float | None = None,
    lost: str | None = None,
    slow: str | None = None,
) -> Reply:
    """What was measured beside what is proven; not met below the bound, or farther above it than the gap."""
    from themis_opt.cli.printing import tell_note
    from themis_opt.study.measured import measured

    instance, limits = healthy, search.settings()
    limits["time_limit"] = time_limit
    if time_limit is not None and not search.deterministic:
        limits["time_limit"] = remaining(time_limit)
    if not isinstance(healthy, Instance):
        from themis_opt.graphs.degraded import degraded

        instance = degraded(healthy, lost, slow)
        if folder is not None:
            raise InputError("is for networks of dimensions", field="--output", value=str(folder))
        del limits["sizes"]
    limits |= {"policies": policies, "part": part, "gap": search.gap, "size": size}
    answer = measured(instance, *sources, note=cache(tell_note), **limits)
    name = instance.name or instance.family
    tables = [_by_size(name, answer, len(sources) > 1)]
    if ceilings := answer.at_largest:
        tables.append(_ceilings(name, ceilings))
    rows = [row.row() for row in answer.rows]
    document = {"verdict": answer.verdict, "rows": rows, "ceilings": ceilings}
    files = [] if folder is None else _write(folder, answer.rows, name)
    return Reply(document, answer.verdict, tables, files=files, is_met=answer.is_met, interrupted=answer.interrupted)


def _by_size(name: str, answer: "Measured", several: bool) -> Listing:
    """A row for each time; of several files one for each size, with a column for what each file reached."""
    if several and not answer.rows[0].is_step:
        rows: dict[tuple[str, str, int], dict[str, Any]] = {}
        for row in answer.rows:
            known = {"size": format_short_size(row.size), "collective": row.kind.value, "part": row.part}
            known["any algorithm"] = format_rate(row.bus_bandwidth(row.needed))
            line = rows.setdefault((row.kind.value, row.part, row.size), known)
            line[row.by] = format_rate(row.bus_bandwidth(row.time))
        names = dict.fromkeys(one for row in rows.values() for one, text in row.items() if text)
        texts = [{one: row.get(one, "") for one in names} for _, row in sorted(rows.items())]
        return Listing.of_texts(f"{name}: busbw measured beside proven", texts)
    shown = [
        row.row()
        | {"size": format_short_size(row.size), "over": f"{row.time / row.needed:.3f}x" if row.is_telling else "-"}
        for row in answer.rows
    ]
    names = {one: None for one in MEASURED_COLUMNS if any(row.get(one, "") != "" for row in shown)}
    return Listing(f"{name}: measured beside proven", shown, columns(*names, **MEASURED_TITLES))


def _ceilings(name: str, rows: Sequence[dict[str, Any]]) -> Listing:
    known = ("collective", "size_bytes", "ceiling", "least_ns", "busbw_bytes_per_s")
    series = dict.fromkeys(one for row in rows for one in row if one not in known)
    shares = [{one: format_percent(row[one]) if one in row else "" for one in series} for row in rows]
    titles: ShownColumns = {**MEASURED_TITLES, **{one: (one, "text") for one in series}}
    shown = columns("ceiling", "collective", "least_ns", "busbw_bytes_per_s", *series, **titles)
    reached = [{**row, **share} for row, share in zip(rows, shares, strict=True)]
    return Listing(f"{name}: what can be reached", reached, shown)


def _write(folder: Path, rows: "Sequence[Beside]", title: str) -> list[Path]:
    from themis_opt.formats.tables import to_csv

    def charts() -> "Mapping[str, Chart]":
        from themis_opt.reports.study_charts import measured_curves

        return {"busbw": measured_curves(rows)}

    texts = {"measured.csv": to_csv([row.row() for row in rows])}
    return write_files(folder, texts, title, None if rows[0].is_step else charts)
