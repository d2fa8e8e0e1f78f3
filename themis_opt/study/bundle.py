"""Everything written about a comparison, in one folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv
from themis_opt.schedules.envelope import summary_of
from themis_opt.study.comparison import Comparison


def write_comparison(folder: Path, comparison: Comparison, settings: Mapping[str, Any]) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written.

    `settings`: what the comparison was allowed to spend, by name.  Where no policy chose sizes, those are equal.
    """
    rows, best = [result.row() for result in comparison.results], comparison.best
    files = {folder / "comparison.json": json.dumps(rows, indent=2) + "\n", folder / "comparison.csv": to_csv(rows)}
    for path, content in files.items():
        write_atomically(path, content)
    sizes = "equal" if comparison.equal_sizes else "free"
    summary = summary_of(best, comparison.bounds, {**settings, "sizes": sizes})
    return [*files, *write_schedule(folder, best.schedule, summary)]
