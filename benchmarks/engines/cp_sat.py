"""CP-SAT with the models of the reference, without its local search."""

from typing import Any

from themis_opt.problem.instance import Instance
from themis_opt.search.exact import Exact


def solve(instance: Instance, sizes: Any, seconds: float, watch: Any) -> None:
    """Search as long as there is time."""
    exact = Exact(seconds=seconds, workers=1, deterministic=True, sizes=sizes, local_search=False)
    watch(exact.solve(instance, progress=watch.progress).schedule)
