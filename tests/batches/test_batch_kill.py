"""Batches whose processes are killed: no row that was committed is lost, changed or made twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor

import psutil
import pytest
from background import LISTENING, PATIENCE, has_rows, kill, wait_until

from themis_opt.batches.executors import processes
from themis_opt.batches.store import RunStore
from themis_opt.reports.making import make_report

RUNS = 5_000  # more than are executed before a test looks
COMMAND = (sys.executable, "-c", LISTENING, "batch", "--jobs", "2", "--json")


def experiment(folder, num_seeds, policy="random+fifo"):
    path = folder / "experiment.toml"
    lines = (
        'name = "killed"',
        "[[runs]]",
        'instances = ["fig5.all_reduce.256MB"]',
        "chunks = [32]",
        f'policies = ["{policy}"]',
    )
    path.write_text("\n".join((*lines, f"seeds = {list(range(num_seeds))}")), encoding="utf-8")
    return path


def committed(path):
    with RunStore(path.with_name("runs.sqlite")) as store:
        texts = store.connection.execute("SELECT key, row FROM runs").fetchall()
    return dict(texts)


def test_a_process_that_dies_takes_no_other_along_and_is_replaced():
    with processes(2) as site:
        slow, deadly = site.submit(time.sleep, 1), site.submit(os._exit, 1)
        with pytest.raises(BrokenExecutor):
            deadly.result(PATIENCE)
        assert slow.result(PATIENCE) is None
        assert site.submit(divmod, 7, 2).result(PATIENCE) == (3, 1)


def test_processes_are_ended_with_what_they_do():
    before = set(multiprocessing.active_children())  # of other tests, killed and not gone yet
    with processes(1) as site:
        endless = site.submit(time.sleep, 10 * PATIENCE)
        (child,) = wait_until(lambda: set(multiprocessing.active_children()) - before)
    wait_until(lambda: child.exitcode is not None)  # a thread of the pool may be the one that learns it
    assert child.exitcode == -signal.SIGKILL
    assert isinstance(endless.exception(PATIENCE), BrokenExecutor)


def test_more_processes_can_be_started_than_files_may_be_open():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 20, before[1]))
    try:
        with processes(4) as site:
            results = [site.submit(divmod, 7, 2) for _ in range(4)]
            assert [result.result(PATIENCE) for result in results] == 4 * [(3, 1)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def started():
    """Start the command; what is left of it in the end is killed."""
    processes = []

    def start(path, *options):
        command = [*COMMAND, str(path), *options]
        process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    kill(*processes)


def is_worker(process):
    """Whether a process executes runs; others come and go."""
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def rows_begin(process, path):
    wait_until(lambda: has_rows(path.with_name("runs.sqlite")), process)


@pytest.mark.benchmarks
def test_a_killed_command_takes_its_workers_along_and_goes_on(tmp_path, started):
    path = experiment(tmp_path, RUNS)
    process = started(path)
    rows_begin(process, path)
    workers = process.children(recursive=True)
    process.kill()
    psutil.wait_procs(workers, timeout=PATIENCE)
    assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)
    before = committed(path)
    experiment(tmp_path, 100)
    finished = subprocess.run([*COMMAND, str(path)], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert 0 < len(before) < RUNS
    assert before.items() <= committed(path).items()
    assert json.loads(finished.stdout)["rows"] == 100


@pytest.mark.benchmarks
def test_a_killed_worker_loses_no_run(tmp_path, started):
    path = experiment(tmp_path, 8, "search:evaluations=200000")
    process = started(path)
    rows_begin(process, path)
    workers = [child for child in process.children(recursive=True) if is_worker(child)]
    workers[0].kill()
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    summary = json.loads(printed)
    assert (summary["rows"], summary["failed"]) == (8, 0)


def test_a_batch_at_work_is_reported_and_ctrl_c_keeps_what_is_finished(tmp_path, started):
    path = experiment(tmp_path, RUNS)
    process = started(path, "--jobs", "1")
    rows_begin(process, path)
    wait_until(path.with_name("rows.csv").exists, process)
    assert 0 < make_report(tmp_path, output=tmp_path / "report", html=False).num_rows < RUNS
    assert process.poll() is None
    process.send_signal(2)
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in errors
    rows = json.loads(printed)["rows"]
    assert 0 < rows < RUNS
    assert len(path.with_name("rows.csv").read_text().splitlines()) == rows + 1
