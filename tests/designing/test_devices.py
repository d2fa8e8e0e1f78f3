"""Shares of parameters and bandwidth for devices at the edge."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formulations.device_shares import share
from themis_opt.base.errors import InputError
from themis_opt.designing.devices import DeviceProblem, design_devices, read_devices

DOCUMENTED = Path(__file__).parents[2] / "docs" / "design.md"


def problem(**changes: Any) -> dict[str, Any]:
    text = re.search(r'\{ "format": "themis-opt/devices/1".*?\] \}\n', DOCUMENTED.read_text(encoding="utf-8"), re.S)
    assert text
    return json.loads(text[0]) | changes


def test_equal_devices_have_equal_shares() -> None:
    device = {"name": "a", "count": 4, "speed": "2 MB/s"}
    answer = design_devices(
        DeviceProblem.model_validate(problem(devices=[device], parameters="8 MB", bandwidth="50 MB/s"))
    )
    (row,) = answer.rows()
    assert (row["parameters"], row["bandwidth"]) == pytest.approx((2e6, 12.5e6))
    assert answer.shares.time == pytest.approx(2 / 2 + 2 / 12.5) == pytest.approx(answer.equal_seconds)


def test_without_compute_the_best_channel_takes_all() -> None:
    fast = np.full(2, 1e15)
    answer = share(fast, np.array([0.5, 1.0]), np.full(2, np.inf), 1e6, 1e6)
    assert answer.time == pytest.approx(1.0, rel=1e-4)
    assert answer.work[1] > 0.999e6


@pytest.mark.parametrize("seed", range(6))
def test_no_random_shares_are_faster_and_the_bound_is_near(seed: int) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, 6))
    speeds, channels = generator.uniform(1, 10, count), generator.uniform(0.2, 2, count)
    limits = np.where(generator.random(count) < 0.4, generator.uniform(0.5, 3, count), np.inf)
    work, bandwidth = min(5.0, 0.9 * float(limits.sum())), float(generator.uniform(1, 10))
    answer = share(speeds, channels, limits, work, bandwidth)
    used = answer.bandwidth > 0
    times = (answer.work / speeds)[used] + answer.work[used] / (channels * answer.bandwidth)[used]
    assert not answer.work[~used].any()
    assert times.max() == pytest.approx(answer.time)
    assert answer.bandwidth.sum() <= bandwidth * (1 + 1e-9)
    assert (answer.work <= limits * (1 + 1e-9)).all()
    assert answer.bound <= answer.time <= answer.bound * (1 + 1e-9)
    others = generator.dirichlet(np.ones(count), 5000) * bandwidth
    rates = speeds * channels * others / (channels * others + speeds)
    assert (np.minimum(limits, answer.bound * rates).sum(axis=1) < work).all()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"parameters": "1 TB", "devices": [{"name": "a", "speed": 1e6, "memory": "1 GB"}]}, "memory for all"),
        ({"devices": [{"name": "a", "speed": 1e6}] * 2}, "names must differ"),
        ({"devices": [{"name": "a", "speed": 0}]}, "speed"),
        ({"bandwith": "1 MB/s"}, "bandwith"),
    ],
)
def test_problems_that_break_a_rule_are_refused(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    file = tmp_path / "edge.json"
    file.write_text(json.dumps(problem(**changes)), encoding="utf-8")
    with pytest.raises(InputError, match=rule):
        read_devices(file)
