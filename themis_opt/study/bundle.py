"""Everything written about a comparison, in one folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.base.units import nanoseconds
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv
from themis_opt.schedules.schedule_file import Summary
from themis_opt.study.comparison import Comparison


def write_comparison(folder: Path, comparison: Comparison, settings: Mapping[str, Any]) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written.

    `settings`: what the comparison was allowed to spend, by name.  Where no policy chose sizes, those are equal.
    """
    rows, best = [result.row() for result in comparison.results], comparison.best
    files = {
        folder / "comparison.json": json.dumps(rows, indent=2) + "\n",
        folder / "comparison.csv": to_csv(rows),
    }
    for path, content in files.items():
        write_atomically(path, content)
    summary = Summary(
        policy=best.policy,
        bounds_ns={name: nanoseconds(value) for name, value in comparison.bounds.items()},
        status=best.status,
        settings=dict(settings) | {"sizes": "equal" if comparison.equal_sizes else "free"},
    )
    return [*files, *write_schedule(folder, best.schedule, summary)]
