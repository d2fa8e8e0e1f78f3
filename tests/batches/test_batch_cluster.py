"""A batch on a real Dask scheduler with two workers, one of which is killed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from background import PATIENCE, has_rows, kill, wait_until

from themis_opt.base.errors import InputError
from themis_opt.batches import executors
from themis_opt.batches.experiment_run import run_experiment

distributed = pytest.importorskip("distributed", reason="needs the package distributed")
Client, LocalCluster = distributed.Client, distributed.LocalCluster

ADDRESS = r"tcp://127\.0\.0\.1:\d+"
ROOT = Path(__file__).parent.parent
HERE = {"processes": False, "protocol": "tcp", "dashboard_address": None}
"""A cluster of threads, which takes a second less to start for each worker."""
TEXT = """name = "cluster"
[[runs]]
instances = ["fig5.all_reduce.256MB"]
policies = ["random"]
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""


def started(command, folder, name):
    """A process with its errors in a file, because a pipe that nobody reads fills up."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__ADMIN__LOG_LENGTH": "100"}
    with (folder / f"{name}.log").open("w") as log:
        return psutil.Popen(
            [sys.executable, "-m", *map(str, command)], cwd=folder, stdout=subprocess.PIPE, stderr=log, env=environment
        )


def announced(pattern, log, *processes):
    """What a process says in its log, once it does."""
    return wait_until(lambda: re.search(pattern, log.read_text()), *processes)[0]


@pytest.fixture
def start(tmp_path):
    """Start a module as a process; what is left of all of them in the end is killed."""
    processes = []

    def start_one(name, *command):
        processes.append(started(command, tmp_path, name))
        return processes[-1]

    yield start_one
    kill(*reversed(processes))


@pytest.fixture
def scheduler(start, tmp_path):
    """Address of a scheduler."""
    options = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard")
    process = start("scheduler", "distributed.cli.dask_scheduler", *options)
    return announced(ADDRESS, tmp_path / "scheduler.log", process)


def test_a_scheduler_without_workers_is_not_waited_for():
    with (
        LocalCluster(n_workers=0, **HERE) as cluster,
        pytest.raises(InputError, match="the scheduler has no worker"),
        executors.cluster(cluster.scheduler_address, patience=1),
    ):
        pass


@pytest.fixture
def workers(start, scheduler, tmp_path):
    """Two workers, which the scheduler knows."""
    options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
    processes = [start(f"worker{n}", "distributed.cli.dask_worker", scheduler, *options) for n in range(2)]
    for number, process in enumerate(processes):
        announced("Registered to", tmp_path / f"worker{number}.log", process)
    return processes


def test_all_rows_arrive(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT, encoding="utf-8")
    with LocalCluster(n_workers=2, threads_per_worker=1, **HERE) as cluster:
        outcome = run_experiment(path, address=cluster.scheduler_address).outcome
    assert (outcome.state.done, outcome.state.failed, outcome.executed) == (10, 0, 10)


@pytest.mark.benchmarks
def test_all_rows_arrive_although_a_worker_is_killed(start, scheduler, workers, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT, encoding="utf-8")
    first = announced(rf"(?<=Start worker at:)\s+{ADDRESS}", tmp_path / "worker0.log").strip()
    workers[0].suspend()  # the run that it is given cannot end
    batch = start("batch", "themis_opt", "batch", path, "--cluster", scheduler, "--json")
    with Client(scheduler, set_as_default=False) as client:
        wait_until(lambda: client.processing(workers=[first])[first], batch)
    wait_until(lambda: has_rows(tmp_path / "runs.sqlite"), batch)
    workers[0].kill()
    printed, _ = batch.communicate(timeout=PATIENCE)
    assert batch.returncode == 0, (tmp_path / "batch.log").read_text()
    summary = json.loads(printed)
    assert (summary["rows"], summary["failed"], summary["executed"]) == (10, 0, 10)
    assert "Traceback" not in (tmp_path / "batch.log").read_text()


@pytest.mark.benchmarks
def test_a_scheduler_that_was_stopped_is_noticed(start, scheduler, workers, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT.replace("random", "search:evaluations=2000000"), encoding="utf-8")
    batch = start("batch", "themis_opt", "batch", path, "--cluster", scheduler)
    with Client(scheduler, set_as_default=False) as client:
        wait_until(lambda: any(client.processing().values()), batch)
    (server,) = (process for process in psutil.Process().children() if "dask_scheduler" in " ".join(process.cmdline()))
    server.suspend()
    batch.communicate(timeout=PATIENCE)
    server.resume()
    assert batch.returncode == 2
    log = (tmp_path / "batch.log").read_text()
    assert "the scheduler has not answered" in log
    assert "Traceback" not in log
