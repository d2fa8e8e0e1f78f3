"""How far a batch is, told from its store alone, while another process may be writing it."""

from collections.abc import Mapping
from pathlib import Path
from time import time
from types import MappingProxyType
from typing import Any

from themis_opt.batches.estimate import RunEstimate
from themis_opt.batches.executors import cores
from themis_opt.batches.expansion import Run, expand
from themis_opt.batches.experiment import STORE, read_experiment
from themis_opt.batches.measured_run import code_version
from themis_opt.batches.runner import BatchState
from themis_opt.batches.store import RunStore


def status_of(
    path: str | Path,
    *,
    store: Path | None = None,
    jobs: int | None = None,
    quick: bool = False,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> BatchState:
    """How far the batch of an experiment is.

    Raises InputError if the experiment breaks a rule, or the store cannot be read.

    `store`: store of finished runs, by default beside the experiment.
    `jobs`: threads that a batch that goes on would keep busy, by default one per core.
    `quick`: whether to count only what ``[quick]`` leaves.
    `overrides`: as of :func:`themis_opt.batches.experiment_run.run_experiment`.
    """
    path = Path(path)
    experiment = read_experiment(path).overridden(overrides)
    runs = list({run.key: run for run in expand(experiment, path, quick=quick)}.values())
    place = store or path.parent / STORE
    if not place.exists():
        return BatchState(len(runs), is_running=False)
    with RunStore(place, reading=True) as kept:
        return _status(runs, kept, jobs or cores())


def _status(runs: list[Run], store: RunStore, slots: int) -> BatchState:
    is_running, progress = store.is_written(), store.progress()
    rows = [row for row in store.rows(code_version()) if row.get("status") in ("ok", "failed")]
    states = {row["key"]: row["status"] for row in rows}
    missing = [run for run in runs if run.key not in states]
    left = RunEstimate(missing, slots, (row for row in rows if row["status"] == "ok")).seconds_left()
    running = 0
    if is_running and progress:
        running = min(int(progress.get("running") or 0), len(missing))
        if progress.get("seconds_left") is not None:
            left = max(progress["seconds_left"] - max(time() - progress["at"], 0.0), 0.0)
    failed = sum(states.get(run.key) == "failed" for run in runs)
    return BatchState(len(runs), len(runs) - len(missing), failed, running, is_running, left)
