"""Everything written about a comparison, in one folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.base.units import cells, nanoseconds
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv, to_latex
from themis_opt.schedules.schedule_file import Summary
from themis_opt.study.columns import columns_of
from themis_opt.study.comparison import Comparison


def write_comparison(folder: Path, comparison: Comparison, settings: Mapping[str, Any]) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written.

    `settings`: what the comparison was allowed to spend, by name.  Where no policy chose sizes, those are equal.
    """
    rows, best = [result.row() for result in comparison.results], comparison.best
    files = {
        folder / "comparison.json": json.dumps(rows, indent=2) + "\n",
        folder / "comparison.csv": to_csv(rows),
        folder / "comparison.tex": _latex(comparison, rows),
    }
    for path, content in files.items():
        write_atomically(path, content)
    summary = Summary(
        policy=best.policy,
        bounds_ns={name: nanoseconds(value) for name, value in comparison.bounds.items()},
        status=best.status,
        settings=dict(settings) | {"sizes": "equal" if comparison.equal_sizes else "free"},
    )
    title = f"{comparison.instance.name or 'instance'}, {best.policy}"
    return [*files, *write_schedule(folder, best.schedule, title, summary)]


def _latex(comparison: Comparison, rows: Sequence[Mapping[str, Any]]) -> str:
    """The table that the command line prints, for a paper."""
    shown = [column for column in columns_of([one.schedule for one in comparison.results], judged=True) if column.title]
    texts = [cells(column.form, [row[column.name] for row in rows]) for column in shown]
    policies = [str(row["policy"]) for row in rows]
    headings = ["policy", *(column.title for column in shown)]
    return to_latex(headings, list(zip(policies, *texts, strict=True)), comparison.instance.name or "instance")
