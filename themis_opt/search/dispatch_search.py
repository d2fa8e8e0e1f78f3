"""Threads that search a dispatch tree (:mod:`formulations.dispatch_tree`) until it is refuted or a plan is found."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Event
from time import monotonic

from formulations.budget import Budget
from formulations.chunk_count import ChunkCount
from formulations.dispatch_loop import FITS, REFUTED, UNDECIDED, advance
from formulations.dispatch_tree import MAX_MACHINES, JobStates, Search
from formulations.lattice import JobClass, Leg
from formulations.sized_order import SizedOutcome
from themis_opt.base.compiled import Compilable, FirstUse

ADVANCE = Compilable(advance, nogil=True)
"""Always compiled; other threads run meanwhile."""

SLICE = 20_000
"""Nodes between two looks at the clock: a tenth of a second."""

WORK_PER_NODE = 5e-7
"""Seconds of work for a node and job."""

ENTRIES = 1 << 20
"""Nodes that each thread remembers, in 16 MiB."""


def _compile() -> None:
    """Refute a horizon."""
    leg = Leg({(0, 0): 1.0}, {0: 0.0})
    states = JobStates(JobClass((0,), (leg,)), JobClass((0,), (leg,)), [1.0])
    ADVANCE.compiled(states.tree(1.0), states.search(1, 1), 1)


is_ready = FirstUse(_compile).is_over
"""Whether the search can begin within some seconds (None: however long it takes)."""


def job_states(counts: ChunkCount) -> JobStates | None:
    """The data of all trees of the chunks of one collective; None where it has too many dimensions.

    Any weights of the loads give a bound: these are those of as many chunks as dimensions.
    """
    job, least = counts.jobs[0], counts.least[0]
    if len(job.machines) > MAX_MACHINES:
        return None
    weights = counts.machine_weights((len(job.machines),))
    return JobStates(job, least, [weights[k] for k in job.machines])


def ask(states: JobStates, count: int, horizon: float, budget: Budget) -> SizedOutcome:
    """Whether so many jobs fit into a horizon."""
    threads = 1 if budget.deterministic else budget.workers
    searches = [states.search(count, ENTRIES) for _ in range(threads)]
    stop, last = Event(), monotonic() + budget.seconds

    def run(part: int) -> int:
        tree, search, status = states.tree(horizon, part, threads), searches[part], UNDECIDED
        while status == UNDECIDED and not stop.is_set() and left(search) > 0:
            status = ADVANCE.compiled(tree, search, SLICE)
        return status

    def left(search: Search) -> float:
        return budget.seconds - work_of([search]) if budget.deterministic else last - monotonic()

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run, part) for part in range(threads)]
        interrupted = _wait(running, stop)
    statuses, work = [own.result() for own in running], work_of(searches)
    if FITS in statuses:
        jobs, shares = states.plans(searches[statuses.index(FITS)], horizon)
        return SizedOutcome("feasible", [jobs], [shares], work)
    status = "infeasible" if statuses == [REFUTED] * threads else "interrupted" if interrupted else "unknown"
    return SizedOutcome(status, None, None, work)


def work_of(searches: Sequence[Search]) -> float:
    """Seconds of work of some searches so far."""
    return sum(WORK_PER_NODE * float(own.nodes[0]) * float(own.share.shape[1]) for own in searches)


def _wait(running: Sequence[Future[int]], stop: Event) -> bool:
    """Wait until all are done, or one cannot refute its part; whether Ctrl-C came."""
    waiting, interrupted = set(running), False
    while waiting:
        try:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            if any(own.result() != REFUTED for own in done):
                stop.set()
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    return interrupted
