"""How far a batch is, told while it runs and after."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import sleep

import pytest
from background import PATIENCE

from themis_opt.base.errors import InputError
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.experiment_run import finished_rows, status_of
from themis_opt.batches.runner import BatchState, RunEstimate, RunnerParams, run_batch
from themis_opt.batches.store import APPLICATION, RunStore

TEXT = """name = "trial"
[[runs]]
instances = ["fig5.all_reduce.256MB"]
chunks = [2, 4, 8, 16]
policies = ["baseline+fifo", "themis+scf"]
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "experiment.toml"
    file.write_text(TEXT, encoding="utf-8")
    return file


def run(path, runs, committed=lambda: None, begin=lambda: None):
    params = RunnerParams(commit_seconds=0.0)
    with RunStore(path.with_name("runs.sqlite")) as store, ThreadPoolExecutor(2) as pool:

        def submit(function, *arguments):
            return pool.submit(lambda: (begin(), function(*arguments))[1])

        return run_batch(runs, store, Site(2, submit), committed=committed, params=params)


def test_a_batch_that_never_ran_is_all_to_do(path):
    assert status_of(path) == BatchState(8, is_running=False)
    assert not path.with_name("runs.sqlite").exists()


def test_a_finished_batch_has_nothing_left(path):
    run(path, expand(read_experiment(path), path))
    assert status_of(path) == BatchState(8, 8, is_running=False, seconds_left=0.0)


def test_a_stopped_batch_has_the_rest_left_with_the_time_that_it_takes(path):
    run(path, expand(read_experiment(path), path)[:5])
    status = status_of(path, jobs=1)
    assert (status.done, status.running, status.total, status.is_running) == (5, 0, 8, False)
    assert status.seconds_left > 0


def test_readers_see_rows_while_the_batch_writes(path):
    """All runs but the first wait for what the reader sees of it."""
    seen, has_seen, first = [], threading.Event(), iter([True])

    def read():
        seen.append(status_of(path))
        has_seen.set()

    run(path, expand(read_experiment(path), path), read, lambda: next(first, False) or has_seen.wait(PATIENCE))
    assert seen[0].done >= 1
    assert all(status.is_running and status.done + status.running <= status.total == 8 for status in seen)
    assert max(status.running for status in seen) >= 1


def test_the_rest_takes_no_less_than_its_longest_run(path):
    runs = expand(read_experiment(path), path)
    rows = [{"policy": name, "kind": "all_reduce", "seconds": 8.0} for name in ("baseline+fifo", "themis+scf")]
    assert RunEstimate(runs, 2, rows).seconds_left() == 8 * 8.0 / 2
    assert RunEstimate(runs[:1], 2, rows).seconds_left() == 8.0


def test_kinds_that_nobody_tried_take_as_long_as_the_others(path):
    runs = expand(read_experiment(path), path)
    rows = [{"policy": "baseline+fifo", "kind": "all_reduce", "seconds": 2.0}]
    assert RunEstimate(runs, 1, rows).seconds_left() == 8 * 2.0
    assert RunEstimate(runs, 1).seconds_left() is None


def test_a_store_is_read_while_it_is_written_and_leaves_nothing_but_itself(path):
    place, runs = path.with_name("runs.sqlite"), expand(read_experiment(path), path)
    run(path, runs)
    with RunStore(place) as writer, RunStore(place, reading=True) as reader:
        assert reader.is_written()
        assert finished_rows(runs, reader) == finished_rows(runs, writer)
    with RunStore(place, reading=True) as reader:
        assert not reader.is_written()
    assert sorted(file.name for file in path.parent.iterdir()) == ["experiment.toml", "runs.sqlite"]


@pytest.fixture
def asking(path):
    """Somebody who asks whether the batch runs, and stays at it; the lock is a file that a killed batch left."""
    left = path.with_name("runs.sqlite.lock")
    left.touch()
    with closing(sqlite3.connect(left, isolation_level=None, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT 1 FROM sqlite_schema").fetchone()
        yield reader


def test_a_batch_can_begin_while_somebody_asks_whether_it_runs(path, asking):
    leaving = threading.Timer(0.1, asking.close)
    leaving.start()
    run(path, expand(read_experiment(path), path)[:1])
    leaving.join()
    assert status_of(path).done == 1


def test_several_may_ask_at_once(path, asking):
    with closing(sqlite3.connect(path.with_name("runs.sqlite"))) as made:
        made.execute("PRAGMA user_version = 1")
        made.execute(f"PRAGMA application_id = {APPLICATION}")
    with RunStore(path.with_name("runs.sqlite"), reading=True) as reader:
        assert not reader.is_written()


def test_who_waited_for_a_lock_that_was_deleted_holds_the_new_one(path):
    place = path.with_name("runs.sqlite")
    first = RunStore(place)
    with ThreadPoolExecutor(1) as pool:  # a connection belongs to its thread
        opening = pool.submit(RunStore, place)
        sleep(0.1)
        first.close()
        second = opening.result()
        with pytest.raises(InputError, match="in use by another process"):
            RunStore(place)
        pool.submit(second.close).result()
