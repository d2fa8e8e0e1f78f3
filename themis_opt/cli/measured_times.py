"""``themis-opt compare --measured``: times of a log beside the best schedules and the bound of any algorithm."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from themis_opt.cli.process import UNMET

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance
    from themis_opt.study.measured import Beside

MEASURED_COLUMNS: "ShownColumns" = {
    "size": ("size", "text"),
    "collective": ("", "text"),
    "part": ("part", "text"),
    "measured": ("measured", "text"),
    "measured_ns": ("takes", "time"),
    "busbw_bytes_per_s": ("busbw", "bandwidth"),
    "best_ns": ("best schedule", "time"),
    "policy": ("policy", "text"),
    "bound_ns": ("any algorithm", "time"),
    "over": ("over it", "text"),
    "won_by_order": ("won by order", "share"),
}


def compare(
    instance: "Instance",
    files: list[Path],
    policies: tuple[str, ...] | None,
    folder: Path | None,
    part: str | None,
    *,
    as_json: bool,
) -> None:
    """Print what was measured beside what is proven; ends with exit code 1 where it is below the bound."""
    from themis_opt.base.units import format_short_size
    from themis_opt.cli.printing import print_json, print_rows, say_all, tell_note
    from themis_opt.formats.measured_times import read_steps, read_times
    from themis_opt.study.measured import beside_steps, beside_times, verdict
    from themis_opt.study.parts import parse_part

    if instance.tasks:
        rows = beside_steps(instance, [step for file in files for step in read_steps(file)], policies)
    else:
        times = [time for file in files for time in read_times(file, tell_note)]
        stated = parse_part(part, instance.network) if part else None
        rows = beside_times(instance, times, policies, stated)
    sentences = verdict(rows)
    if folder is not None:
        _write(folder, rows, instance.name)
    if as_json:
        print_json({"verdict": sentences, "rows": [row.row() for row in rows]})
    else:
        say_all(sentences)
        shown = [
            row.row()
            | {"size": format_short_size(row.size), "over": f"{row.time / row.needed:.3f}x" if row.is_telling else "-"}
            for row in rows
        ]
        columns = {name: how for name, how in MEASURED_COLUMNS.items() if any(row.get(name) != "" for row in shown)}
        print_rows(f"{instance.name or 'instance'}: measured beside proven", shown, columns)
    if any(row.too_slow() for row in rows):
        raise typer.Exit(UNMET)


def _write(folder: Path, rows: "Sequence[Beside]", title: str) -> None:
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.tables import to_csv
    from themis_opt.reports.rendering.charts import save
    from themis_opt.reports.study_charts import measured_curves

    make_folder(folder)
    write_atomically(folder / "measured.csv", to_csv([row.row() for row in rows]))
    files = [folder / "measured.csv"]
    if not rows[0].instance.tasks:
        save(measured_curves(rows), folder / "busbw.svg", title)
        files.append(folder / "busbw.svg")
    tell_files(files)
