"""The search of a dispatch tree (:mod:`formulations.dispatch_tree`), compiled, within limits."""

from threading import Event
from time import monotonic

from formulations.dispatch_loop import FITS, REFUTED, UNDECIDED, advance
from formulations.dispatch_tree import JobStates
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits
from formulations.sized_order import SizedOutcome
from themis_opt.base.compiled import Compilable, FirstUse

ADVANCE = Compilable(advance, nogil=True)
"""Always compiled; other threads run meanwhile."""

SLICE = 20_000
"""Nodes between two looks at the clock: a tenth of a second."""

WORK_PER_NODE = 5e-7
"""Seconds of work for a node and job."""

ENTRIES = 1 << 20
"""Nodes that are remembered, in 16 MiB."""


def _compile() -> None:
    """Refute a horizon."""
    phase = JobPhase({(0, 0): 1.0}, {0: 0.0})
    states = JobStates(JobClass((0,), (phase,)), JobClass((0,), (phase,)), [1.0])
    ADVANCE.compiled(states.tree(1.0), states.search(1, 1), 1)


is_ready = FirstUse(_compile).is_over
"""Whether the search can begin within some seconds (None: however long it takes)."""


def search_tree(states: JobStates, count: int, horizon: float, limits: Limits, stop: Event) -> SizedOutcome:
    """Whether so many jobs fit into a horizon, as far as limits and other threads allow."""
    tree, search, status, work = states.tree(horizon), states.search(count, ENTRIES), UNDECIDED, 0.0
    last = monotonic() + limits.seconds
    while status == UNDECIDED and not stop.is_set():
        if (work >= limits.seconds) if limits.deterministic else (monotonic() >= last):
            break
        status = ADVANCE.compiled(tree, search, SLICE)
        work = WORK_PER_NODE * float(search.nodes[0]) * count
    if status == FITS:
        jobs, shares = states.plans(search, horizon)
        return SizedOutcome("feasible", [jobs], [shares], work)
    return SizedOutcome("infeasible" if status == REFUTED else "unknown", None, None, work)
