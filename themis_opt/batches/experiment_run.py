"""An experiment as one call, from its file to rows, store and provenance; and how far it is, from its store alone."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

import psutil

from themis_opt.base.documents import make_folder, read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.batches import executors
from themis_opt.batches.expansion import Run, expand
from themis_opt.batches.experiment import STORE, read_experiment
from themis_opt.batches.measured_run import RECORDED, code_version
from themis_opt.batches.rows_file import num_rows, provenance_of, rows_of, write_csv
from themis_opt.batches.runner import BatchListener, BatchState, run_batch, unfinished
from themis_opt.batches.store import RunStore
from themis_opt.problem.cost_terms import COST_TERMS

ROW_COLUMNS = (
    *("experiment", "block", "instance", "fingerprint", "network", "dimensions", "npus", "kind", "size_bytes"),
    *("chunks", "latency", "ag_order", *(term.column for term in COST_TERMS.values())),
    *("policy", "seed", "time_limit", "workers", "gap_asked", "sizes", "status", "error", *RECORDED),
    *("bound_ns", "bound_equal_ns", "seconds", "simulate_seconds", "extra", "code_version", "started", "host"),
)
"""Columns of the rows, in order; any of them may be empty."""

PACKAGES = ("numpy", "numba", "ortools", "pydantic")  # packages whose versions are told


def finished_rows(runs: Sequence[Run], store: RunStore) -> list[dict[str, Any]]:
    """The rows of an experiment that the store has, in the order of its runs."""
    keys = {run.key for run in runs}
    rows = {row["key"]: row for row in store.rows(code_version()) if row["key"] in keys}
    return [run.row(rows[run.key]) for run in runs if run.key in rows]


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
        "commit": source_commit(),
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
def source_commit() -> str | None:
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


EXPORT_SECONDS, EXPORT_SHARE = 1.0, 0.05
"""While a batch runs its rows are exported no more often, and in at most this share of the time."""


@dataclass(frozen=True)
class Finished:
    """What an experiment left."""

    rows: Path  # CSV file of the rows, for make_report
    files: tuple[Path, ...]  # all files but the store
    provenance: dict[str, Any]  # where the rows come from
    state: BatchState  # how the batch ended


def run_experiment(
    path: str | Path,
    *,
    jobs: int | None = None,
    output: Path | None = None,
    store: Path | None = None,
    quick: bool = False,
    overrides: Mapping[str, Any] = MappingProxyType({}),
    command: str = "",
    report: BatchListener = lambda state: None,
    undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Finished:
    """Run an experiment; what went well is kept in the store and not run again.

    Processes are started afresh: a script that calls this needs ``if __name__ == "__main__"``.

    Parameters
    ----------
    path : path
        The experiment file (TOML).
    jobs : int, optional
        Threads to keep busy, by default one per core.
    output, store : Path, optional
        CSV file of the rows and store of finished runs, by default beside the experiment.
    quick : bool
        Whether to run only what ``[quick]`` leaves.
    overrides : mapping
        Values in the place of those that the fields of all blocks have, such as ``{"launch_overhead": "2us"}``.
    command : str
        What the provenance names as the call.
    report : callable, optional
        Hears of the state.
    undisturbed : callable, optional
        Makes a context in which files are written.

    Notes
    -----
    Rows and provenance are written as the batch goes on, and at its end.  A file of rows that holds more than are
    finished now is not replaced; `files` of the result is empty then.

    Raises
    ------
    InputError
        If the experiment breaks a rule, or rows cannot be stored or written; rows before are kept.

    Examples
    --------
    >>> run_experiment("experiment.toml", jobs=2)  # doctest: +SKIP
    """
    began, path = monotonic(), Path(path)
    checked = read_experiment(path).overridden(overrides)
    runs = expand(checked, path, quick=quick)
    rows = output or rows_of(path.parent)
    if rows.is_dir():
        raise InputError("must be a file: it is a folder", field="--output", value=str(rows))
    make_folder(rows.parent)
    with RunStore(store or path.parent / STORE) as kept:
        left, is_shown, due = len(unfinished(runs, kept)), rows.is_file() or not rows.exists(), monotonic()

        def export_now_and_then() -> None:  # so that reports of a running batch show what is finished
            nonlocal due
            if is_shown and (now := monotonic()) >= due:
                _export(runs, kept, rows, command, began)
                due = monotonic() + max(EXPORT_SECONDS, (monotonic() - now) / EXPORT_SHARE)

        try:
            with executors.processes(jobs or executors.cores()) as site:
                state = run_batch(runs, kept, site, report=report, committed=export_now_and_then)
        except BaseException:
            if len(unfinished(runs, kept)) < left:
                with undisturbed():
                    _export(runs, kept, rows, command, began)
            raise
        with undisturbed():
            files, known = _export(runs, kept, rows, command, began, is_changed=state.executed > 0)
    return Finished(rows, files, known, state)


def _export(
    runs: list[Run], store: RunStore, path: Path, command: str, began: float, *, is_changed: bool = True
) -> tuple[tuple[Path, ...], dict[str, Any]]:
    """Write rows and provenance; returns the files and the latter.

    A file that holds more rows stays as it is, because the store may be younger; so does a provenance that
    describes these rows, unless some of them are new (`is_changed`).  There is none beside a pipe or device.
    """
    rows, origin = finished_rows(runs, store), provenance_of(path)
    known = provenance(rows, len(runs), command, monotonic() - began)
    if num_rows(path) > len(rows):
        return (), known
    write_csv(path, ROW_COLUMNS, rows)
    files = [path]
    before: dict[str, Any] = {}
    with suppress(InputError):  # no provenance is there, or it is damaged
        before = read_json(origin)
    is_told = all(before.get(count) == known[count] for count in ("runs", "rows", "failed"))
    if path.is_file() and (is_changed or not is_told):
        write_atomically(origin, json.dumps(known, indent=2) + "\n")
        files.append(origin)
    return tuple(files), known
