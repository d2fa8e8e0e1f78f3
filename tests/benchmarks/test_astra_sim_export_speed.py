"""Exports to ASTRA-sim, size, time and replay: ``python -m pytest -s -m benchmarks`` and this file.

All-reduces of 100 MiB in 64 chunks on the networks of the paper with 64 NPUs, latency that occupies.
"""

import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.formats.exports import export, make_exporter
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

pytestmark = pytest.mark.benchmarks

SIZES = {
    "2d-sw_sw": (8, 8),
    "3d-sw_sw_sw_homo": (4, 4, 4),
    "3d-sw_sw_sw_hetero": (4, 4, 4),
    "3d-fc_ring_sw": (4, 4, 4),
    "4d-ring_sw_sw_sw": (4, 2, 4, 2),
    "4d-ring_fc_ring_sw": (4, 2, 4, 2),
}
"""NPUs along each dimension."""

POLICIES = ("themis+scf", "hourglass", "exact:sizes=equal:seconds=8", "exact:sizes=free:seconds=8")
MAX_SECONDS, MAX_BYTES = 10, 10**9


def small(name: str) -> Instance:
    """The network with 64 NPUs."""
    instance = themis_opt.load(f"{name}.all_reduce.100MiB").overridden(latency="occupy")
    pairs = zip(instance.network.dimensions, SIZES[name], strict=True)
    dimensions = tuple(dimension.replace(size=size) for dimension, size in pairs)
    return instance.replace(network=instance.network.replace(dimensions=dimensions))


def planned(instance: Instance, policy: str) -> Schedule:
    return simulate(instance, make_policy(policy)(instance))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PAPER_NETWORKS)
def test_exports_are_small_and_quick_and_replay(tmp_path: Path, name: str, policy: str) -> None:
    made = planned(small(name), policy)
    for level in ("stage", "step"):
        begin = time.perf_counter()
        files = export(made, f"astra-sim:level={level}", tmp_path / level)
        seconds, size = time.perf_counter() - begin, sum(path.stat().st_size for path in files)
        nodes, times = make_exporter(f"astra-sim:level={level}").check(made, tmp_path / level)
        memory = getrusage(RUSAGE_SELF).ru_maxrss * 1024
        written = (
            f"{seconds:.2f} s, {size / 1e6:.1f} MB, {nodes.partition(' nodes')[0]} nodes, held {memory / 1e6:.0f} MB"
        )
        print(f"\n{name} {policy} {level}: {written}; {times}")
        assert seconds < MAX_SECONDS
        assert size < MAX_BYTES
        assert memory < MAX_BYTES  # of planning, too
        assert "each stage takes its time" in times
