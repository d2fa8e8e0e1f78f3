"""A step of a search: waves of simulated annealing, one annealing on each thread."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from formulations.interruption import POLL_SECONDS, TimeUp
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.annealing import Annealing, can_anneal, is_ready
from themis_opt.search.annealing_state import COSTLY_MOVES, USUAL_MOVES
from themis_opt.search.incumbent import MIN_GAIN, Incumbent
from themis_opt.solving.lowering import chunk_overhead, num_arcs
from themis_opt.solving.sizing import resized

WORK_PER_SECOND = 20_000_000
"""Stages and tasks that a core simulates in a second of annealing, for limits that count work."""

MAX_ARCS = 200_000  # lattice arcs of all chunks above which the tables of an annealing take too much memory and time
FIRST_STEPS, GROWTH = 20_000, 4
"""Steps of the first annealing, and by how much each wave is longer than the one before: few long ones find more."""

PATIENCE = 3  # waves without gain after which nothing more is to be expected
HOT, COOLING = 1e-2, 300
"""Temperature at which an annealing begins, as a fraction of the makespan, and by how much colder it ends."""

SLICES_PER_SECOND = 10  # after which an annealing may be told to stop
PREPARED_PER_SECOND = 100_000  # stages whose annealing is begun and ended in a second, which nothing can cut off
Stop = Callable[[float], bool]  # told the best makespan of a thread, in picoseconds, says whether to stop
Task = Callable[[float, Stop], tuple[Schedule, float]]
"""An annealing that may simulate so many stages; its best schedule, and how many it simulated."""


@dataclass(frozen=True)
class Anneal:
    """Waves that improve the incumbent; equal seeds, workers and work give equal results.

    Every thread of a wave anneals the incumbent with a different seed.  Where chunk sizes are free, orders and sizes
    change together; a chunk that hurts may end with no bytes.  A linear programme makes the sizes exact in the end.

    `hot`: temperature at the start of an annealing of given sizes, as a fraction of the makespan.
    `patience`: waves without gain after which the step ends.
    `most_work`: stages that each thread may simulate.
    """

    hot: float = HOT
    patience: float = PATIENCE
    most_work: float = math.inf
    engine: ClassVar[str] = "annealing"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether the tables of the annealing are small enough, and where iterations repeat, few of them tell all."""
        return can_anneal(incumbent.best) and num_arcs(incumbent.best) <= MAX_ARCS

    def run(self, incumbent: Incumbent) -> None:
        """Run waves until the turn is over, or some in a row gain nothing; none if it is over before one begins."""
        is_late = incumbent.best.plan.num_stages > PREPARED_PER_SECOND * incumbent.left
        if not is_ready(None) or (is_late and not incumbent.allowance.counts_work):
            return
        waves = self._waves(incumbent)
        idle, rate, work_left = 0, float(WORK_PER_SECOND), self.most_work
        while idle < self.patience and work_left > 0 and not incumbent.done:
            before, begin = incumbent.best.makespan, incumbent.left
            work = run_wave(incumbent, next(waves), min(begin * rate, work_left))
            work_left -= work
            incumbent.allowance.charge(work / WORK_PER_SECOND)
            if not incumbent.allowance.counts_work:  # or the last wave would be cut off while it is hot
                rate = 0.9 * work / max(begin - incumbent.left, 0.02)
            idle = idle + 1 if incumbent.best.makespan > before * (1 - MIN_GAIN) else 0

    def _waves(self, incumbent: Incumbent) -> Iterator[list[Task]]:
        """Annealings of the incumbent, each wave longer than the one before."""
        resizes = incumbent.free_sizes
        work = float(FIRST_STEPS * (GROWTH if resizes else 1) * incumbent.best.plan.num_stages)
        while True:
            yield [partial(_anneal, incumbent.best, seed, self.hot, work, resizes) for seed in _seeds(incumbent)]
            work *= GROWTH


def run_wave(incumbent: Incumbent, tasks: list[Task], most_work: float) -> float:
    """Run a task on each thread and offer what they find; the stages that the busiest one simulated.

    Ctrl-C stops them all and keeps what they have.
    """
    allowance = incumbent.allowance

    def stops(makespan: float) -> bool:
        is_over = allowance.left <= 0 and not allowance.counts_work
        return allowance.interrupted or is_over or makespan <= incumbent.enough

    running: list[Future[tuple[Schedule, float]]] = []
    with ThreadPoolExecutor(len(tasks)) as threads:
        while len(running) < len(tasks) or not all(future.done() for future in running):
            try:
                running.extend(threads.submit(task, most_work, stops) for task in tasks[len(running) :])
                wait(running, timeout=POLL_SECONDS)
            except KeyboardInterrupt:
                allowance.interrupt()
            except TimeUp:  # which the tasks see for themselves
                continue
    for schedule, _ in (future.result() for future in running):
        incumbent.offer(schedule)
    return max(future.result()[1] for future in running)


def _seeds(incumbent: Incumbent) -> list[int]:
    """A seed for each thread of the next wave."""
    seeds = np.random.SeedSequence(incumbent.next_seed()).generate_state(incumbent.limits.workers)
    return [int(seed) for seed in seeds]


def _anneal(
    start: Schedule, seed: int, hot: float, work: float, resizes: bool, most_work: float, stop: Stop
) -> tuple[Schedule, float]:
    """Cool a plan down, in slices between which it may be told to stop: its best, and the stages simulated.

    An annealing that would be followed by too short a one takes all that is left.
    """
    annealing = Annealing(start, seed, COSTLY_MOVES if chunk_overhead(start.instance) else USUAL_MOVES, resizes=resizes)
    work = work if most_work > 2 * work else most_work
    num_slices = max(1, round(SLICES_PER_SECOND * work / WORK_PER_SECOND))
    steps = max(1, int(work / num_slices / annealing.step_work))
    temperatures = np.geomspace(hot, hot / COOLING, num_slices + 1)
    for number in range(num_slices):
        annealing.run(steps, temperatures[number], temperatures[number + 1])
        if stop(annealing.makespan):
            break
    best = annealing.best()
    return resized(best) if resizes else best, float((number + 1) * steps * annealing.step_work)
