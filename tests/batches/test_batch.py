import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from time import sleep

import pytest
from background import PATIENCE

from themis_opt.base.errors import InputError, ThemisError
from themis_opt.batches import measured_run
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import Experiment, read_experiment
from themis_opt.batches.experiment_run import finished_rows
from themis_opt.batches.measured_run import run_one
from themis_opt.batches.runner import RunEstimate, run_batch
from themis_opt.batches.store import RunStore

FIG5 = "fig5.all_reduce.256MB"


def threads(slots=1, kind=ThreadPoolExecutor):
    return Site(slots, kind(slots).submit)


def runs_of(tmp_path, **block):
    block = {"instances": [FIG5], "policies": ["baseline+fifo"]} | block
    return expand(Experiment.model_validate({"name": "trial", "runs": [block]}), tmp_path / "experiment.toml")


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path / "runs.sqlite") as opened:
        yield opened


@pytest.fixture
def many(tmp_path):
    return runs_of(tmp_path, chunks=list(range(1, 31)), policies=["baseline+fifo", "themis+scf"])


@pytest.fixture
def breaking(monkeypatch):
    """Make the runs with so many chunks raise."""

    def install(*chunks):
        def run(instance, policy, knobs, record):
            if instance.collectives[0].chunks in chunks:
                raise ZeroDivisionError("no\nway")
            return run_one(instance, policy, knobs, record)

        monkeypatch.setattr(measured_run, "run_one", run)

    return install


def test_every_run_gets_its_row_and_progress_ends_with_all(many, store):
    states = []
    outcome = run_batch(many, store, threads(), report=states.append)
    rows = finished_rows(many, store)
    assert [row["key"] for row in rows] == [run.key for run in many]
    assert {row["status"] for row in rows} == {"ok"}
    assert (outcome.executed, outcome.done, outcome.interrupted) == (60, 60, False)
    assert (states[0].done, states[-1].done, states[-1].total) == (0, 60, 60)


def test_what_is_finished_is_not_run_again(many, store):
    run_batch(many[:20], store, threads())
    assert run_batch(many, store, threads()).executed == 40
    assert run_batch(many, store, threads()).executed == 0


def test_runs_with_one_key_are_run_once_and_exported_each(tmp_path, store):
    runs = runs_of(tmp_path) + runs_of(tmp_path, block="again")
    assert run_batch(runs, store, threads()).executed == 1
    assert [row["block"] for row in finished_rows(runs, store)] == ["", "again"]


def test_a_failing_run_is_a_row_and_the_others_go_on(many, store, breaking):
    breaking(7)
    outcome = run_batch(many, store, threads())
    failed = [row for row in finished_rows(many, store) if row["status"] == "failed"]
    assert [row["chunks"] for row in failed] == [7, 7]
    assert {row["error"] for row in failed} == {"ZeroDivisionError: no way"}
    assert (outcome.failed, outcome.done) == (2, 60)


class Fragile(ThreadPoolExecutor):
    """Breaks like a pool whose process died, at any run with 7 chunks, for so many times."""

    left = 10**6

    def submit(self, function, task, version):
        if task.instance.collectives[0].chunks == 7 and self.left:
            self.left -= 1
            future = Future()
            future.set_exception(BrokenProcessPool("died"))
            return future
        return super().submit(function, task, version)


class Once(Fragile):
    left = 1


@pytest.mark.parametrize(("kind", "failed"), [(Fragile, {7}), (Once, set())])
def test_a_run_that_kills_its_process_fails_alone_and_a_lost_one_is_run_again(many, store, kind, failed):
    outcome = run_batch(many, store, threads(2, kind))
    rows = finished_rows(many, store)
    assert len(rows) == outcome.done == 60
    assert {row["chunks"] for row in rows if row["status"] == "failed"} == failed


def test_a_lost_ctrl_c_ends_the_batch(many, store, loses_ctrl_c):
    outcome = run_batch(many, store, threads(1), report=loses_ctrl_c)
    assert outcome.interrupted
    assert len(finished_rows(many, store)) < len(many)


def test_runs_with_several_threads_take_several_slots(tmp_path, store, monkeypatch):
    lock, busy, most, together = threading.Lock(), [0], [0], threading.Event()

    def run(instance, policy, knobs, record):
        with lock:
            busy[0] += knobs["workers"]
            most[0] = max(most[0], busy[0])
            if busy[0] >= 4:
                together.set()
        together.wait(PATIENCE)  # the first run for a second one
        together.set()
        threading.Event().wait(0.01)  # and both for a third one, which must not come
        with lock:
            busy[0] -= knobs["workers"]
        return {"seconds": 0.01}

    monkeypatch.setattr(measured_run, "run_one", run)
    runs = runs_of(tmp_path, policies=["search"], workers=2, seeds=list(range(12)))
    run_batch(runs, store, threads(5))
    assert most[0] == 4


class AtOnce(Executor):
    def submit(self, function, *arguments):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except ThemisError as error:
            future.set_exception(error)
        return future


def test_a_worker_with_other_code_ends_the_batch(many, store):
    class Older(AtOnce):
        def submit(self, function, task, version):
            return super().submit(function, task, "0.0.9+0123456789ab")

    with pytest.raises(InputError, match=r"runs code 0\..*, the batch 0\.0\.9\+0123456789ab"):
        run_batch(many, store, Site(1, Older().submit))
    assert not list(store.rows("0.0.9+0123456789ab"))


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


def test_the_rest_takes_no_less_than_its_longest_run(path):
    runs = expand(read_experiment(path), path)
    rows = [{"policy": name, "kind": "all_reduce", "seconds": 8.0} for name in ("baseline+fifo", "themis+scf")]
    assert RunEstimate(runs, 2, rows).seconds_left() == 8 * 8.0 / 2
    assert RunEstimate(runs[:1], 2, rows).seconds_left() == 8.0
    assert RunEstimate(runs, 1, rows[:1]).seconds_left() == 8 * 8.0  # kinds that nobody tried are like the others
    assert RunEstimate(runs, 1).seconds_left() is None


def test_who_waits_for_a_store_has_it_when_it_is_closed(path):
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
