"""A batch on a real Dask scheduler with two workers, one of which is killed."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("distributed", reason="needs the package distributed")

ROOT = Path(__file__).parent.parent
TEXT = """name = "cluster"
[[runs]]
instances = ["fig5.all_reduce.256MB"]
policies = ["search:evaluations=20000"]
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""


def started(command, folder, name):
    """A process with its errors in a file, because a pipe that nobody reads fills up."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__ADMIN__LOG_LENGTH": "100"}
    with (folder / f"{name}.log").open("w") as log:
        return psutil.Popen(
            [sys.executable, "-m", *map(str, command)], cwd=folder, stdout=subprocess.PIPE, stderr=log, env=environment
        )


def waited(find, seconds=30):
    end = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def stopped(processes):
    """Kill processes that this test started, with their children."""
    for process in processes:
        if process.is_running():
            for child in [*process.children(recursive=True), process]:
                child.kill()
        process.wait()


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler, and its two workers."""
    scheduler = started(
        ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard"), tmp_path, "scheduler"
    )
    log = tmp_path / "scheduler.log"
    address = waited(lambda: re.search(r"tcp://127\.0\.0\.1:\d+", log.read_text()))[0]
    options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
    workers = [
        started(("distributed.cli.dask_worker", address, *options), tmp_path, f"worker{number}") for number in range(2)
    ]
    for number in range(2):
        waited(lambda number=number: "Registered to" in (tmp_path / f"worker{number}.log").read_text())
    yield address, workers
    stopped([*workers, scheduler])


def test_all_rows_arrive_although_a_worker_is_killed(cluster, tmp_path):
    address, workers = cluster
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT, encoding="utf-8")
    batch = started(("themis_opt", "batch", path, "--cluster", address, "--json"), tmp_path, "batch")
    try:
        waited(lambda: re.search(r"[1-9] of 10 runs", (tmp_path / "batch.log").read_text()) or _has_rows(tmp_path))
        workers[0].kill()
        printed, _ = batch.communicate(timeout=60)
    finally:
        stopped([batch])
    assert batch.returncode == 0, (tmp_path / "batch.log").read_text()
    summary = json.loads(printed)
    assert (summary["rows"], summary["failed"], summary["executed"]) == (10, 0, 10)
    assert "Traceback" not in (tmp_path / "batch.log").read_text()


def _has_rows(folder):
    """Whether the store has committed anything beyond its layout."""
    journal = folder / "runs.sqlite-wal"
    return journal.exists() and journal.stat().st_size > 30_000
