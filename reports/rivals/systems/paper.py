"""The first version of Themis: speed-ups on networks of three dimensions."""

from collections.abc import Iterator
from statistics import geometric_mean

from common import Row, run

from themis_opt import load
from themis_opt.problem.instance import Instance

NETWORKS = ("3d-fc_ring_sw", "3d-sw_sw_sw_hetero", "3d-sw_sw_sw_homo")

FIRST_VERSION = {
    "all_reduce.100MiB": (1.88, 2.92),
    "resnet-50": (1.49, 1.96),
    "gnmt": (1.41, 1.81),
    "dlrm": (1.42, 1.80),
    "transformer-1t": (1.35, 1.78),
}
"""Published mean and largest speed-up of https://arxiv.org/abs/2110.04478v1."""

SIZES = range(100, 1001, 50)
"""MiB of the all-reduces."""


def themis() -> Iterator[Row]:
    """Themis over the fixed order, beside the first version of the paper; the networks behind its means are unknown."""
    for workload, (mean, most) in FIRST_VERSION.items():
        instances = [load(f"{network}.{workload}") for network in NETWORKS]
        if workload.startswith("all_reduce"):
            instances = [each.overridden(size=f"{size} MiB", chunks=64) for each in instances for size in SIZES]
        gains = [_gain(instance) for instance in instances]
        yield {
            "workload": workload,
            "points": len(gains),
            "mean": geometric_mean(gains),
            "published": mean,
            "largest": max(gains),
            "published largest": most,
        }


def _gain(instance: Instance) -> float:
    fixed, greedy = ("baseline+fifo", "themis+scf") if not instance.tasks else FUSED
    return run(instance, fixed).makespan / run(instance, greedy).makespan


FUSED = ("fused:order=newest/baseline+fifo", "fused/themis+scf")
"""The policies of iterations, as in the reproduction of Fig. 12."""
