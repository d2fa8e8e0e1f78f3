"""How long stages are for the compiled loop of :mod:`themis_opt.search.annealing`.  Always compiled."""

from math import ceil

from themis_opt.search.annealing_state import Problem


def duration_of(problem: Problem, chunk: int, leg: int, visited: int, local: int, size: float) -> int:
    """Picoseconds for which a stage of a chunk of so many bytes holds its dimension.

    Parameters
    ----------
    visited : int
        Mask of the local dimensions visited in the leg before it.
    size : float
        Only where sizes are free.
    """
    if not problem.resizes:
        known: int = problem.duration[problem.size_class[chunk], leg, visited, local]
        return known
    if size <= 0:
        return 0
    launch = problem.launch[chunk]
    variable = problem.rate[launch, leg, visited, local] * size
    if problem.header[launch, local] > 0:
        variable += ceil(problem.packets[launch, leg, visited, local] * size) * problem.header[launch, local]
    duration: int = problem.fixed[launch, leg, visited, local] + ceil(variable)
    return duration
