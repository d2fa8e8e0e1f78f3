"""Every system of docs/systems.md beside others on the same instances: writes README.md and rows.csv.gz beside it.

python reports/rivals/systems/measure.py                 # all, some minutes
python reports/rivals/systems/measure.py hetseq fred     # some
"""

import csv
import sys
from inspect import getdoc
from pathlib import Path
from statistics import median
from typing import Any

from common import Row
from curves import curves, stages
from networks import bine, fred, fusionllm, oracle, pipelines, swarm
from paper import themis
from training import bottleneck, daso, dct, dear, dlcp, hetseq, karma, local, projection, sharding

from themis_opt.base.version import __version__
from themis_opt.batches.experiment_run import source_commit
from themis_opt.batches.rows_file import read_csv_text, write_csv

FOLDER = Path(__file__).parent
ROWS = FOLDER / "rows.csv.gz"
PARTS = (
    themis,
    hetseq,
    daso,
    sharding,
    dct,
    local,
    dlcp,
    karma,
    fusionllm,
    oracle,
    projection,
    pipelines,
    swarm,
    fred,
    bine,
    bottleneck,
    dear,
    curves,
    stages,
)


def measured() -> dict[str, list[Row]]:
    """Rows measured before, by part."""
    parts: dict[str, dict[str, Row]] = {}
    if ROWS.is_file():
        for cell in csv.DictReader(read_csv_text(ROWS).splitlines()):
            parts.setdefault(cell["part"], {}).setdefault(cell["row"], {})[cell["quantity"]] = number(cell["value"])
    return {part: list(rows.values()) for part, rows in parts.items()}


def number(text: str) -> Any:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text or None


def write(parts: dict[str, list[Row]]) -> None:
    """All rows as a long table, one line for each quantity, since parts measure different ones."""
    cells = (
        {"part": part, "row": place, "quantity": quantity, "value": value}
        for part, rows in parts.items()
        for place, row in enumerate(rows, 1)
        for quantity, value in row.items()
    )
    write_csv(ROWS, ("part", "row", "quantity", "value"), cells)


def contents(parts: dict[str, list[Row]]) -> str:
    """What each part measures, and how many rows it has."""
    lines = ["| part | rows | what |", "|---|---:|---|"]
    for part in PARTS:
        title = " ".join((getdoc(part) or "").partition("\n\n")[0].split())
        lines.append(f"| `{part.__name__}` | {len(parts.get(part.__name__, []))} | {title} |")
    return "\n".join(lines)


def drawn(rows: list[Row]) -> str:
    """A line for each curve: its places, what comes out there, and what is published."""
    lines = ["| over what it depends on | at | here | published |", "|---|---|---|---|"]
    series: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        series.setdefault((row["workload"], row["over"], row["published"]), []).append(row)
    for (what, over, claimed), points in series.items():
        places = ", ".join(f"{point['at']:g}" for point in points)
        ours = ", ".join(f"{point['ours']:.3g}" for point in points)
        lines.append(f"| {what} | {over} {places} | {ours} | {claimed} |")
    return "\n".join(lines)


def main(chosen: list[str]) -> None:
    """Measure the chosen parts, all by default, and write the report of all that were ever measured."""
    parts = measured()
    for part in PARTS:
        if not chosen or part.__name__ in chosen:
            parts[part.__name__] = [row | {"commit": source_commit()} for row in part()]
            print(part.__name__, *parts[part.__name__], sep="\n", flush=True)
            write(parts)
    gaps = [row["gap %"] for rows in parts.values() for row in rows if row.get("gap %") is not None]
    headline = (
        f"**{len(gaps)} schedules of these systems are {median(gaps):.2g} % above their proven bounds in the median, "
        f"{max(gaps):.0f} % at most.**"
    )
    findings = (FOLDER / "findings.md").read_text(encoding="utf-8").rstrip().replace("HEADLINE", headline)
    note = f"Every number is in [rows.csv.gz](rows.csv.gz): a line for each quantity. themis_opt {__version__}."
    tables = f"{drawn([*parts.get('curves', []), *parts.get('stages', [])])}\n\n{note}\n\n{contents(parts)}"
    (FOLDER / "README.md").write_text(f"{findings}\n\n{tables}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
