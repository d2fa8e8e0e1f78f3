"""Commands that import and compile all that others need."""

import tempfile

from limited_command import run_command

COSTS = ("--launch-overhead", "1us", "--workers", "1", "--time-limit", "20")


def run_all() -> None:
    """Solve a collective, an iteration and a collective on a graph, and tune the first."""
    solved = "v100-64.vgg-16", "cluster:h100:npus=64"
    with tempfile.TemporaryDirectory() as folder:
        for name, *options in (("3d-fc_ring_sw.all_reduce.100MiB", *COSTS), *((name, *COSTS[2:]) for name in solved)):
            run_command(["solve", name, *options, "-o", f"{folder}/solved"])
        run_command(["tune", "3d-fc_ring_sw.all_reduce.100MiB", "--trials", "2", "-o", f"{folder}/tuned"])
