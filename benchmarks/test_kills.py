"""Batches and solves that are killed in the middle: nothing is lost, nothing is done twice.

``python -m pytest -m benchmarks benchmarks/test_kills.py -s``; THEMIS_OPT_KILLS says how many kills there are,
a third of them of each.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from background import PATIENCE

import themis_opt
from themis_opt.batches import runner
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.store import RunStore
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.schedules.validation import validate
from themis_opt.study.comparison import solve, write_comparison

pytestmark = pytest.mark.benchmarks

KILLS = int(os.environ.get("THEMIS_OPT_KILLS", "100"))
EACH = -(-KILLS // 3)
CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = [
    "pytest",
    "themis_opt.batches.experiment_run",
    "themis_opt.search.exact",
]

EXPERIMENT = """name = "killed"
[[runs]]
instances = ["fig5.all_reduce.256MB"]
chunks = [32]
policies = ["search:evaluations=300"]
seeds = {seeds}
"""


def kill_in_the_middle(work: Callable[..., None], arguments: tuple[Any, ...], moments: random.Random, most: int) -> int:
    """Kill a process after some steps of its work; returns how many it had made, as far as it could tell."""
    steps = CONTEXT.RawValue("i", 0)  # without a lock, which the killed process might hold
    process = CONTEXT.Process(target=work, args=(*arguments, steps))
    process.start()
    last, end = moments.randint(1, most), time.monotonic() + PATIENCE
    while process.is_alive() and steps.value < last and time.monotonic() < end:
        time.sleep(0.001)
    process.join(moments.uniform(0.0, 0.02))  # somewhere in the next step
    process.kill()
    process.join()
    assert steps.value, "it was killed before it had begun"
    return int(steps.value)


def to_completion(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    steps = CONTEXT.RawValue("i", 0)
    process = CONTEXT.Process(target=work, args=(*arguments, steps))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


@pytest.fixture(scope="module", autouse=True)
def forks() -> None:
    CONTEXT.set_forkserver_preload(PRELOADED)


def run_batch(path: Path, steps: Any) -> None:
    """A batch with many small commits, in a thread of this process."""

    def report(state: runner.BatchState) -> None:
        steps.value = state.done - done

    runs = expand(read_experiment(path), path)
    with RunStore(path.with_name("runs.sqlite")) as store, ThreadPoolExecutor(1) as pool:
        done = len(runs) - len(runner.unfinished(runs, store))
        runner.run_batch(runs, store, Site(1, pool.submit), report=report, commit_seconds=0.0)


def rows_of(path: Path) -> dict[str, str]:
    with RunStore(path.with_name("runs.sqlite")) as store:
        return dict(store.connection.execute("SELECT key, row FROM runs").fetchall())


def test_batches(tmp_path: Path) -> None:
    path, moments, lost = tmp_path / "experiment.toml", random.Random(0), 0
    path.write_text(EXPERIMENT.format(seeds=list(range(6 * EACH))), encoding="utf-8")
    before: dict[str, str] = {}
    for _ in range(EACH):
        kill_in_the_middle(run_batch, (path,), moments, 5)
        after = rows_of(path)
        assert before.items() <= after.items()  # with the times at which they ran: none is lost, none ran again
        lost += len(after) == len(before)
        before = after
    to_completion(run_batch, (path,))
    assert before.items() <= rows_of(path).items()
    assert rows_of(path).keys() == {run.key for run in expand(read_experiment(path), path)}
    print(f"\nbatches: {EACH} kills, {len(before)} rows survived, {lost} in vain")


def run_solve(folder: Path, seconds: float, steps: Any) -> None:
    def report(policy: str, makespan: float, bound: float) -> None:
        steps.value += 1

    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=8)
    comparison = solve(instance, progress=report, time_limit=seconds, workers=1, sizes="equal")
    steps.value += 1
    write_comparison(folder / "solved", comparison, {})


def test_solves(tmp_path: Path) -> None:
    moments, written = random.Random(2), 0
    (tmp_path / "solved").mkdir()
    schedule = tmp_path / "solved" / "schedule.json"
    for _ in range(EACH):
        kill_in_the_middle(run_solve, (tmp_path, 2.0), moments, 40)
        if schedule.exists():  # whole, or not there
            validate(read_schedule(schedule))
            written += 1
    to_completion(run_solve, (tmp_path, 5.0))
    validate(read_schedule(schedule))
    assert read_schedule(schedule).makespan > 0
    print(f"\nsolves: {EACH} kills, {written} with a schedule on disk, all valid")
