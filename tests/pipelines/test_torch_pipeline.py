"""PyTorch runs the plans of pipelines on CPUs: losses and gradients of the whole model, actions in their order."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline_samples import pipeline

from themis_opt.pipelines.steps import best_policy
from themis_opt.pipelines.torch_csv import write_torch_csv

STAGES, MICROBATCHES = 2, 4


@pytest.mark.parametrize(("parts", "placement"), [(1, "interleaved"), (2, "interleaved"), (2, "v")])
def test_plans_run_in_torch(tmp_path, parts, placement):
    pytest.importorskip("torch.distributed.pipelining", reason="needs PyTorch")
    problem = pipeline(STAGES, MICROBATCHES, 2, 3, 2, parts=parts, placement=placement, memory=3 * parts)
    schedule = best_policy(problem)
    path = tmp_path / "plan.csv"
    write_torch_csv(path, schedule)
    script = str(Path(__file__).with_name("torch_ranks.py"))
    words = [sys.executable, script, str(path), str(STAGES * parts), str(STAGES), str(MICROBATCHES)]
    shared = {"THEMIS_OPT_MEETING": f"file://{tmp_path / 'meeting'}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(words, env=os.environ | shared | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(STAGES)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * STAGES
    answers = json.loads(said[0])
    assert all(answer["same"] for answer in answers)
    planned = [row.split(",") for row in path.read_text().split()]
    assert [answer["ran"] for answer in answers] == planned
