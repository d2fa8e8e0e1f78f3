"""The hook for DDP: the same weights as plain DDP, on CPU ranks over gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from background import PATIENCE
from programs import schedule

from themis_opt.base.errors import InputError

pytest.importorskip("torch.distributed", reason="needs the extra torch")


def test_hooked_training_ends_with_the_weights_of_plain_ddp():
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("ddp_training.py")],
        capture_output=True, text=True, timeout=PATIENCE, check=False, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["apart"] < 1e-6
    assert answer["moved"] > 0.1
    assert answer["exact"]


@pytest.mark.parametrize("kind", ["all_gather", "broadcast"])
def test_other_collectives_are_refused(kind):
    from themis_opt.torch import ScheduledAllReduce

    with pytest.raises(InputError, match="schedule: must be one all-reduce over all dimensions"):
        ScheduledAllReduce(schedule("s2 r2", kind))
