"""Sweeps over figures of instances on dimensions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance

USUAL_SIZES = "size=64KiB..1GiB:4"

SWEEP_COLUMNS: "ShownColumns" = {
    "policy": ("policy", "text"),
    "makespan_ns": ("makespan", "time"),
    "iteration_ns": ("iteration", "time"),
    "algbw_bytes_per_s": ("algbw", "bandwidth"),
    "busbw_bytes_per_s": ("busbw", "bandwidth"),
    "busy": ("busy", "shares"),
    "gap": ("gap", "share"),
}


def sweep(
    instance: "Instance",
    over: Sequence[str] | None,
    *,
    policies: str | None = None,
    sizes: str = "equal",
    output: Path | None = None,
) -> Reply:
    """Policies over message sizes, chunk counts and figures of dimensions; perhaps with a table and pictures."""
    from themis_opt.study.comparison import checked_sizes
    from themis_opt.study.sweep import sweep as run
    from themis_opt.study.verdict import on_sweep

    usual = [USUAL_SIZES] if instance.iteration is None else ["chunks=4..64"]
    varied = _varied(instance, over or usual)
    rows = run(instance, varied, options.split(policies), sizes=checked_sizes(sizes))
    name = instance.name or "instance"
    files = [] if output is None else _write(output, rows, list(varied), name)
    shown: ShownColumns = {**{figure: (figure, "text") for figure in varied}, **SWEEP_COLUMNS}
    title = f"{name}: {len(rows)} runs, chunk sizes {sizes}"
    table = Listing(title, _folded(_readable(rows, list(varied))), shown)
    return Reply(rows, on_sweep(instance, rows, next(iter(varied))), [table], files=files)


def _varied(instance: "Instance", texts: Sequence[str]) -> dict[str, list[Any]]:
    from themis_opt.study.sweep import check_name, read_values

    varied: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or name.strip() in varied:
            raise InputError("must be a name, = and values, each name once", field="--over", value=text)
        check_name(instance, name.strip())
        varied[name.strip()] = read_values(name.strip(), values)
    return varied


def _readable(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    from themis_opt.study.sweep import in_words

    return [row | {name: in_words(name, row[name]) for name in names} for row in rows]


def _folded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with policies that come to the same at a place in one of them."""
    folded: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name != "policy")
        same = folded.setdefault(key, row | {"policy": ""})
        same["policy"] += f", {row['policy']}" if same["policy"] else row["policy"]
    return list(folded.values())


def _write(folder: Path, rows: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> list[Path]:
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.formats.tables import to_csv
    from themis_opt.reports.rendering.charts import save
    from themis_opt.reports.study_charts import curves

    make_folder(folder)
    write_atomically(folder / "sweep.csv", to_csv(rows))
    charts = curves(rows, names)
    for name, chart in charts.items():
        save(chart, folder / f"{name}.svg", title)
    return [folder / "sweep.csv", *(folder / f"{name}.svg" for name in charts)]
