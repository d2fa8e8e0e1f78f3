"""As many dimensions as an instance may have."""

import json

import pytest

from themis_opt.problem.fields import MAX_DIMENSIONS


def twelve_dimensions(chunks):
    """An all-reduce on as many uneven switches as there may be, as JSON values."""
    dimensions = [
        {"kind": "switch", "size": 2, "bandwidth": f"{100 + 10 * k} GB/s", "latency": "1 us"}
        for k in range(MAX_DIMENSIONS)
    ]
    collective = {"kind": "all_reduce", "size": "64 MiB", "chunks": chunks}
    return {"format": "themis-opt/instance/1", "network": {"dimensions": dimensions}, "collectives": [collective]}


@pytest.fixture
def twelve(save):
    return save(twelve_dimensions(chunks=2))


@pytest.fixture
def simulated(succeed, twelve, tmp_path):
    succeed("simulate", twelve, "--policies", "themis+scf", "-o", tmp_path / "out")
    (path,) = (tmp_path / "out").rglob("schedule.json")
    return path


@pytest.mark.benchmarks
def test_bound_has_every_bound(succeed, twelve):
    assert all(row["bound_ns"] > 0 for row in json.loads(succeed("bound", twelve, "--json")))


@pytest.mark.benchmarks
def test_simulated_schedule_is_explained(succeed, simulated):
    assert len(json.loads(succeed("explain", simulated, "--json"))["resources"]) == MAX_DIMENSIONS
