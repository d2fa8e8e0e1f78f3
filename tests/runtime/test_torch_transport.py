"""Messages of PyTorch between GPUs, as far as they can be tested without any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from background import PATIENCE

torch = pytest.importorskip("torch", reason="needs the extra torch")
pytest.importorskip("torch.distributed", reason="needs the extra torch")


@pytest.mark.parametrize(("gpus", "ranks", "chosen"), [(0, 2, "gloo"), (1, 2, "gloo"), (2, 2, "nccl"), (8, 4, "nccl")])
def test_nccl_is_chosen_where_every_rank_has_a_gpu(monkeypatch, gpus, ranks, chosen):
    from themis_opt.runtime.transports.torch import backend

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    assert backend(ranks) == chosen


def test_batches_of_messages_arrive_in_order(tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("device_link.py"), tmp_path / "store"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[10], [11, 11], [12, 12, 12]]
