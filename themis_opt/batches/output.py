"""What a batch leaves besides its store: the rows as CSV or Parquet, and where they come from."""

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import Run
from themis_opt.batches.measured_run import RECORDED, code_version
from themis_opt.batches.store import RunStore
from themis_opt.formats.tables import load_pyarrow, to_parquet
from themis_opt.problem.cost_terms import COST_TERMS

CellType = type[str] | type[int] | type[float]

_CELL_TYPES: Mapping[str, CellType] = {"text": str, "count": int}

ROW_COLUMNS: Mapping[str, CellType] = {
    "experiment": str,
    "block": str,
    "instance": str,
    "fingerprint": str,
    "network": str,
    "dimensions": int,
    "npus": int,
    "kind": str,
    "size_bytes": int,
    "chunks": int,
    "latency": str,
    "ag_order": str,
    **{term.column: float if term.column.endswith("_ns") else str for term in COST_TERMS.values()},
    "policy": str,
    "seed": int,
    "time_limit": float,
    "workers": int,
    "gap_asked": float,
    "sizes": str,
    "status": str,
    "error": str,
    **{name: _CELL_TYPES.get(column.form, float) for name, column in RECORDED.items()},
    "bound_ns": float,
    "bound_equal_ns": float,
    "seconds": float,
    "simulate_seconds": float,
    "extra": str,
    "code_version": str,
    "started": str,
    "host": str,
}
"""Columns of the rows, in order, and what they hold; any of them may be empty."""

PACKAGES = ("numpy", "numba", "ortools", "pydantic", "distributed")  # packages whose versions are told


def finished_rows(runs: Sequence[Run], store: RunStore) -> list[dict[str, Any]]:
    """The rows of an experiment that the store has, in the order of its runs."""
    keys = {run.key for run in runs}
    rows = {row["key"]: row for row in store.rows(code_version()) if row["key"] in keys}
    for key, row in rows.items():
        _check_types(row, f"{store.path}: row {key}")
    return [run.row(rows[run.key]) for run in runs if run.key in rows]


def _check_types(row: Mapping[str, Any], source: str) -> None:
    """Refuse a row of which a cell is not what its column holds."""
    for name, kind in ROW_COLUMNS.items():
        value = row.get(name)
        kinds = (int, float) if kind is float else (kind,)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            rule = f"must be {_WORDS[kind]}: the row is damaged; restore a copy, or run without it"
            raise InputError(rule, field=name, value=value, source=source)


_WORDS: Mapping[CellType, str] = {str: "a text", int: "a whole number", float: "a number"}


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet, at once or not at all. Raises InputError if pyarrow is not installed."""
    pyarrow, _ = load_pyarrow("--parquet")
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in ROW_COLUMNS.items()])
    write_atomically(path, to_parquet(rows, schema))


def provenance(rows: Sequence[Mapping[str, Any]], num_runs: int, command: str, seconds: float) -> dict[str, Any]:
    """Where rows come from: versions, commit, machine, limits, command, counts and times.

    `rows`: the finished ones.
    `num_runs`: how many the experiment has.
    `command`: what was called.
    `seconds`: what this call took; `seconds_of_runs` sums what all runs took, whenever they ran.
    """
    limits = ("time_limit", "workers", "seed", "gap_asked", "sizes")
    return {
        "versions": dict(_versions()),
        "code_version": code_version(),
        "commit": _commit(),
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
        },
        "limits": {name: sorted({row[name] for row in rows if row[name] is not None}) for name in limits},
        "command": command,
        "runs": num_runs,
        "rows": len(rows),
        "failed": sum(row["status"] == "failed" for row in rows),
        "started": min((row["started"] for row in rows if row.get("started")), default=None),
        "seconds": round(seconds, 3),
        "seconds_of_runs": round(sum(row.get("seconds") or 0.0 for row in rows), 3),
    }


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for name in ("themis-opt", *PACKAGES):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


@cache
def _commit() -> str | None:
    """The commit of the source tree, with a plus sign if files differ from it; None outside of one."""
    folder = Path(__file__).parent.parent
    tracked = ("git", "-C", folder, "ls-files", "--error-unmatch", "__init__.py")  # not so in another project's .venv
    try:
        subprocess.run(tracked, capture_output=True, check=True, timeout=10)
        commit, changes = (
            subprocess.run(["git", "-C", folder, *call], capture_output=True, text=True, check=True, timeout=10).stdout
            for call in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "--", folder))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.strip() + ("+" if changes.strip() else "")
