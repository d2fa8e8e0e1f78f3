"""Measured times of a log, beside the best schedules and the bound of any algorithm."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_short_size
from themis_opt.cli.answers.answer import Listing, Reply, columns
from themis_opt.problem.instance import Instance

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.study.measured import Beside

MEASURED_TITLES: "ShownColumns" = {
    "collective": ("", "text"),
    "measured_ns": ("takes", "time"),
    "best_ns": ("best schedule", "time"),
    "bound_ns": ("any algorithm", "time"),
    "over": ("over it", "text"),
    "won_by_order": ("won by order", "share"),
}
MEASURED_COLUMNS = (
    "size", "collective", "part", "measured", "measured_ns", "busbw_bytes_per_s", "best_ns", "policy", "bound_ns",
    "over", "won_by_order",
)  # fmt: skip


def compare_measured(
    instance: "Instance | GraphInstance",
    files: list[Path],
    policies: tuple[str, ...] | None,
    folder: Path | None,
    part: str | None,
) -> Reply:
    """What was measured beside what is proven; not met where it is below the bound."""
    if isinstance(instance, Instance):
        return _beside(instance, files, policies, folder, part)
    return _beside_graph(instance, files, policies, folder, part)


def _beside(
    instance: Instance, files: list[Path], policies: tuple[str, ...] | None, folder: Path | None, part: str | None
) -> Reply:
    from themis_opt.cli.printing import tell_note
    from themis_opt.formats.measured_times import read_steps, read_times
    from themis_opt.study.measured import beside_steps, beside_times, verdict
    from themis_opt.study.parts import parse_part

    if instance.tasks:
        rows = beside_steps(instance, [step for file in files for step in read_steps(file)], policies)
    else:
        times = [time for file in files for time in read_times(file, tell_note)]
        stated = parse_part(part, instance.network) if part else None
        rows = beside_times(instance, times, policies, stated)
    shown = [
        row.row()
        | {"size": format_short_size(row.size), "over": f"{row.time / row.needed:.3f}x" if row.is_telling else "-"}
        for row in rows
    ]
    written = [] if folder is None else _write(folder, rows, instance.name)
    is_met = not any(row.too_slow() for row in rows)
    return _reply(instance.name or "instance", verdict(rows), [row.row() for row in rows], shown, written, is_met)


def _beside_graph(
    instance: "GraphInstance",
    files: list[Path],
    policies: tuple[str, ...] | None,
    folder: Path | None,
    part: str | None,
) -> Reply:
    from themis_opt.cli.printing import tell_note
    from themis_opt.formats.measured_times import read_times
    from themis_opt.study.measured import beside_graph

    for option, value in (("--part", part), ("--output", folder)):
        if value is not None:
            raise InputError("is for networks of dimensions", field=option, value=str(value))
    rows, sentences = beside_graph(instance, [t for file in files for t in read_times(file, tell_note)], policies)
    shown = [
        row | {"size": format_short_size(row["size_bytes"]), "over": f"{row['above_bound'] + 1:.3f}x"} for row in rows
    ]
    is_met = not any(row["above_bound"] < 0 for row in rows)
    return _reply(instance.name or "graph", sentences, rows, shown, (), is_met)


def _reply(
    name: str,
    sentences: Sequence[str],
    rows: Sequence[dict[str, Any]],
    shown: Sequence[dict[str, Any]],
    written: Sequence[Path],
    is_met: bool,
) -> Reply:
    names = [name for name in MEASURED_COLUMNS if any(row.get(name, "") != "" for row in shown)]
    table = Listing(f"{name}: measured beside proven", shown, columns(*names, **MEASURED_TITLES))
    return Reply({"verdict": sentences, "rows": rows}, sentences, [table], files=written, is_met=is_met)


def _write(folder: Path, rows: "Sequence[Beside]", title: str) -> list[Path]:
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.formats.tables import to_csv
    from themis_opt.reports.rendering.charts import save
    from themis_opt.reports.study_charts import measured_curves

    make_folder(folder)
    write_atomically(folder / "measured.csv", to_csv([row.row() for row in rows]))
    if rows[0].instance.tasks:
        return [folder / "measured.csv"]
    save(measured_curves(rows), folder / "busbw.svg", title)
    return [folder / "measured.csv", folder / "busbw.svg"]
