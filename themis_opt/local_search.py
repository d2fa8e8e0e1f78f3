"""Local search on the simulator: waves of annealing on several threads, chunk sizes equal or free."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from themis_opt.annealing import Annealing
from themis_opt.instance import Instance
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import resized

HOT, COLD = 5e-3, 2e-4
"""Temperatures at the start and the end of an annealing, as fractions of the makespan."""

WARM, COOL = 2e-3, 1e-4
"""The same after the sizes have changed."""

SLICE_WORK = 2**21
"""Stages simulated between two looks at whether to stop."""

FIRST_WORK, FIRST_STEPS, MOST_WORK = 2**22, 20_000, 2**27
"""Stages each thread simulates in the first wave, steps in which it may, and stages in the longest; waves double."""

START_WORK, START_STEPS = 2**23, 100_000
"""Stages and steps of each annealing for free sizes, at most; they double when all counts had a turn."""

FREE_COUNTS = (16, 24, 32, 64)
"""Chunks per collective from which free sizes start, in turn; as far as so many are allowed, and the most allowed."""

MAX_TURNS = 6
"""Most turns of orders and sizes from one start."""

WORK_PER_SECOND = 10_000_000
"""Stages that a core simulates in a second of annealing, for limits that count work."""

MIN_GAIN = 1e-5
"""Relative gain below which a schedule counts as no better."""

Stop = Callable[[], bool]
_Task = tuple[Callable[[Schedule, float, int, Stop], tuple[Schedule, float]], Schedule, float, int]


class LocalSearch:
    """Waves that improve a schedule; equal seeds, workers and waves give equal results.

    With equal chunks every thread of a wave anneals the best schedule so far with a seed of its own.  With free
    sizes every thread starts anew from equal chunks, whose orders are annealed and whose sizes are optimised
    (:mod:`formulations.chunk_sizes`) in turn; a chunk that hurts ends with no bytes.

    Parameters
    ----------
    best : Schedule
        The schedule to improve.
    starting_schedule : callable
        Makes the schedule of equal chunks of an instance from which free sizes start.
    free_sizes : bool
        Whether chunks may be of any sizes, and fewer than the instance says.
    workers : int
        Threads.
    seed : int or tuple of int
        Seed of all random choices.
    """

    def __init__(
        self,
        best: Schedule,
        starting_schedule: Callable[[Instance], Schedule],
        *,
        free_sizes: bool = False,
        workers: int = 1,
        seed: int | tuple[int, ...] = 0,
    ) -> None:
        self.best = best
        self.interrupted = False
        self._starting_schedule = starting_schedule
        self._free_sizes, self._workers = free_sizes, workers
        self._seeds = np.random.SeedSequence(seed)
        self._next_work, self._num_starts = min(FIRST_WORK, FIRST_STEPS * best.plan.num_stages), 0
        limit = max(c.chunks for c in best.instance.collectives)
        self._counts = sorted({min(count, limit) for count in FREE_COUNTS})

    def wave(self, most_work: float, stop: Stop) -> float:
        """Run one wave, or until `stop` says so.

        Parameters
        ----------
        most_work : float
            Stages that each thread may simulate.

        Returns
        -------
        float
            Stages that the busiest thread simulated.
        """
        seeds = [int(child.generate_state(1)[0]) for child in self._seeds.spawn(self._workers)]
        tasks: list[_Task]
        if self._free_sizes:
            doublings = self._num_starts // len(self._counts)
            starts = [(self._equal_start(doublings), seed) for seed in seeds]
            tasks = [
                (_with_free_sizes, start, min(work, most_work / (1 + MAX_TURNS)), seed)
                for (start, work), seed in starts
            ]
        else:
            work = min(self._next_work, most_work)
            self._next_work = min(2 * self._next_work, MOST_WORK)
            tasks = [(_annealed, self.best, work, seed) for seed in seeds]
        ends = self._together(tasks, stop)
        found = [self._adopted(schedule) for schedule, _ in ends]
        self.best = min(self.best, *found, key=lambda schedule: schedule.makespan)
        return max(work for _, work in ends)

    def _equal_start(self, doublings: int) -> tuple[Schedule, float]:
        """Equal chunks for the next start, and the stages to simulate."""
        count = self._counts[self._num_starts % len(self._counts)]
        self._num_starts += 1
        start = self._starting_schedule(with_at_most(self.best.instance, count))
        work = min(START_WORK, START_STEPS * start.plan.num_stages)
        return start, float(min(work << doublings, MOST_WORK))

    def _adopted(self, schedule: Schedule) -> Schedule:
        """The schedule as one of the instance in question, which may allow more chunks."""
        if schedule.instance is self.best.instance:
            return schedule
        return simulate(self.best.instance, schedule.enforced_plan())

    def _together(self, tasks: list[_Task], stop: Stop) -> list[tuple[Schedule, float]]:
        """Run one task per thread; Ctrl-C stops them all and keeps what they have."""

        def stops() -> bool:
            return self.interrupted or stop()

        running: list[Future[tuple[Schedule, float]]] = []
        with ThreadPoolExecutor(len(tasks)) as threads:
            while len(running) < len(tasks) or not all(future.done() for future in running):
                try:
                    for task, start, work, seed in tasks[len(running) :]:
                        running.append(threads.submit(task, start, work, seed, stops))
                    wait(running)
                except KeyboardInterrupt:
                    self.interrupted = True
            return [future.result() for future in running]


def with_at_most(instance: Instance, count: int) -> Instance:
    """The instance with at most `count` chunks per collective."""
    return instance.replace(collectives=[c.replace(chunks=min(c.chunks, count)) for c in instance.collectives])


def _annealed(
    start: Schedule, work: float, seed: int, stop: Stop, hot: float = HOT, cold: float = COLD
) -> tuple[Schedule, float]:
    """The best schedule of one annealing, and the stages simulated."""
    annealing = Annealing(start, seed)
    num_stages = start.plan.num_stages
    num_slices = max(1, round(work / SLICE_WORK))
    steps = max(1, int(work / num_slices / num_stages))
    temperatures = np.geomspace(hot, cold, num_slices + 1)
    for number in range(num_slices):
        annealing.run(steps, temperatures[number], temperatures[number + 1])
        if stop():
            break
    return annealing.best(), steps * num_slices * num_stages


def _with_free_sizes(start: Schedule, work: float, seed: int, stop: Stop) -> tuple[Schedule, float]:
    """Orders and sizes improved in turn while that pays."""
    found, done = _annealed(start, work, seed, stop)
    best = resized(found)
    for turn in range(1, MAX_TURNS + 1):
        if stop():
            break
        found, more = _annealed(best, work, seed + turn, stop, WARM, COOL)
        found, done = resized(found), done + more
        if found.makespan > best.makespan * (1 - MIN_GAIN):
            break
        best = found
    return best, done
