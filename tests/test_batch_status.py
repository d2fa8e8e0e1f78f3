"""How far a batch is, told while it runs and after."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from themis_opt.batches.estimate import Estimate
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.output import finished_rows
from themis_opt.batches.runner import RunnerParams, run_batch
from themis_opt.batches.status import Status, status_of
from themis_opt.batches.store import RunStore

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


def run(path, runs, committed=lambda: None):
    params = RunnerParams(commit_seconds=0.0, largest_group=1)
    with RunStore(path.with_name("runs.sqlite")) as store, ThreadPoolExecutor(2) as pool:
        return run_batch(runs, store, Site(2, pool.submit), committed=committed, params=params)


def test_a_batch_that_never_ran_is_all_to_do(path):
    assert status_of(path) == Status(8)
    assert not path.with_name("runs.sqlite").exists()


def test_a_finished_batch_has_nothing_left(path):
    run(path, expand(read_experiment(path), path))
    assert status_of(path) == Status(8, 8, seconds_left=0.0)


def test_a_stopped_batch_has_the_rest_left_with_the_time_that_it_takes(path):
    run(path, expand(read_experiment(path), path)[:5])
    status = status_of(path, jobs=1)
    assert (status.done, status.running, status.remaining, status.is_running) == (5, 0, 3, False)
    assert status.seconds_left > 0


def test_readers_see_rows_while_the_batch_writes(path):
    seen = []
    run(path, expand(read_experiment(path), path), lambda: seen.append(status_of(path)))
    assert seen[0].done >= 1
    assert all(status.is_running and status.done + status.running + status.remaining == 8 for status in seen)
    assert max(status.running for status in seen) >= 1


def test_the_rest_takes_no_less_than_its_longest_run(path):
    runs = expand(read_experiment(path), path)
    rows = [{"policy": name, "kind": "all_reduce", "seconds": 8.0} for name in ("baseline+fifo", "themis+scf")]
    assert Estimate(runs, 2, rows).seconds_left() == 8 * 8.0 / 2
    assert Estimate(runs[:1], 2, rows).seconds_left() == 8.0


def test_kinds_that_nobody_tried_take_as_long_as_the_others(path):
    runs = expand(read_experiment(path), path)
    rows = [{"policy": "baseline+fifo", "kind": "all_reduce", "seconds": 2.0}]
    assert Estimate(runs, 1, rows).seconds_left() == 8 * 2.0
    assert Estimate(runs, 1).seconds_left() is None


def test_a_store_is_read_while_it_is_written_and_leaves_nothing_but_itself(path):
    place, runs = path.with_name("runs.sqlite"), expand(read_experiment(path), path)
    run(path, runs)
    with RunStore(place) as writer, RunStore(place, reading=True) as reader:
        assert reader.is_written()
        assert finished_rows(runs, reader) == finished_rows(runs, writer)
    with RunStore(place, reading=True) as reader:
        assert not reader.is_written()
    assert sorted(file.name for file in path.parent.iterdir()) == ["experiment.toml", "runs.sqlite"]
