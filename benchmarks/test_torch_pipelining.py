"""``torch.distributed.pipelining`` runs files of pipelines on gloo: its time beside the time that was proven.

``python -m pytest -m benchmarks benchmarks/test_torch_pipelining.py -s``; THEMIS_OPT_TORCH names a Python that has
PyTorch, else pip installs it, some gigabytes, into an environment that is removed afterwards.  Actions sleep, so that a
busy machine hardly matters.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline_samples import pipeline

import themis_opt
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import ActionKind
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.torch_csv import torch_rows, write_torch_csv

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(3600)]

RANKS = Path(__file__).with_name("torch_ranks.py")
UNIT = 2 * 10**11
"""Picoseconds that stand for one: long beside the milliseconds that PyTorch takes for an action."""

TOLERANCE = 0.12
CASES = {
    "1f1b": pipeline(4, 8, UNIT, UNIT, UNIT),
    "zb1p": pipeline(4, 8, UNIT, UNIT, UNIT, objective="makespan"),
    "zb2p": pipeline(2, 8, UNIT, [3 * UNIT, 2 * UNIT], [UNIT, 4 * UNIT], activation=2, memory=8, objective="makespan"),
    "interleaved": pipeline(2, 4, UNIT, UNIT, UNIT, parts=2),
    "zbv": pipeline(4, 8, UNIT, UNIT, UNIT, parts=2, placement="v", objective="makespan"),
    "exact": pipeline(2, 8, UNIT, [3 * UNIT, 2 * UNIT], [UNIT, 4 * UNIT], activation=2, memory=2, objective="makespan"),
}
"""Problems by the policy that plans them."""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    if python := os.environ.get("THEMIS_OPT_TORCH"):
        return python
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    if subprocess.run([python, "-m", "pip", "install", "-q", "torch", "numpy"], check=False).returncode:
        pytest.skip("pip does not find PyTorch")
    return python


def planned(policy, problem):
    """The schedule of a policy; of the search, what it has after two seconds."""
    if policy == "exact":
        return themis_opt.solve(problem, time_limit=2, workers=1).best.schedule
    return simulate(problem, PIPELINE_POLICIES[policy](problem))


def run(interpreter, folder, problem, path):
    """What each rank says of the file."""
    durations = {
        kind.value: [problem.duration(kind, part) / PICOSECONDS_PER_SECOND for part in range(problem.num_parts)]
        for kind in ActionKind
    }
    shared = {"THEMIS_OPT_MEETING": f"file://{folder / 'meeting'}", "OMP_NUM_THREADS": "1"}
    shared |= {"THEMIS_OPT_SLEEP": json.dumps(durations), "PYTHONPATH": ""}
    words = [interpreter, str(RANKS), str(path), str(problem.num_parts), str(problem.stages), str(problem.microbatches)]
    ranks = [
        subprocess.Popen(words, env=os.environ | shared | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(problem.stages)
    ]
    answers = [rank.communicate(timeout=900)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * problem.stages
    return json.loads(answers[0])


@pytest.mark.parametrize("policy", CASES)
def test_pytorch_takes_the_time_that_was_proven(interpreter, tmp_path, policy):
    problem = CASES[policy]
    schedule = planned(policy, problem)
    path = tmp_path / "plan.csv"
    write_torch_csv(path, schedule)
    answers = run(interpreter, tmp_path, problem, path)
    assert all(answer["same"] for answer in answers)  # as the whole model
    assert [answer["ran"] for answer in answers] == [row.split(",") for row in path.read_text().split()]
    took = max(answer["seconds"] for answer in answers)
    rules = simulate(problem, torch_rows(schedule)).makespan / PICOSECONDS_PER_SECOND
    proven = max(map(schedule.end, schedule.start)) / PICOSECONDS_PER_SECOND
    print(f"\n| {policy} | PyTorch {took:.3f} s | its rules {rules:.3f} s | schedule {proven:.3f} s |")
    assert rules <= proven <= took
    assert took == pytest.approx(rules, rel=TOLERANCE)
