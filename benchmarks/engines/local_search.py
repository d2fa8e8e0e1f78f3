"""The local search of the reference alone."""

from typing import Any

from themis_opt.problem.instance import Instance
from themis_opt.search.exact import Exact


def solve(instance: Instance, sizes: Any, seconds: float, watch: Any) -> None:
    """Search as long as there is time."""
    exact = Exact(seconds=seconds, workers=1, deterministic=True, sizes=sizes, cp_sat=False)
    watch(exact.solve(instance, progress=watch.progress).schedule)
