"""The time that the rest of a batch takes, and the lock of its store."""

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.runner import RunEstimate
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
