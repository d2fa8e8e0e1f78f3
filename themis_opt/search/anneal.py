"""A step of a search: waves of simulated annealing, one annealing on each thread."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import ClassVar

import numpy as np

from formulations.interruption import POLL_SECONDS, TimeUp
from themis_opt.problem.instance import Instance
from themis_opt.schedules.refinement import even_counts, mirrored, refined
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.annealing import Annealing, can_anneal, is_ready
from themis_opt.search.incumbent import MIN_GAIN, Incumbent
from themis_opt.search.start import starting_schedule
from themis_opt.solving.lowering import chunk_overhead, num_arcs
from themis_opt.solving.sizing import resized

WORK_PER_SECOND = 20_000_000
"""Stages and tasks that a core simulates in a second of annealing, for limits that count work."""

SLICE_WORK = 2**21
"""Stages simulated between two looks at whether to stop: a fifth of a second."""

MAX_ARCS = 200_000
"""Lattice arcs of all chunks above which the tables of an annealing take too much memory and time."""

FIRST_STEPS, MOST_STEPS = 20_000, 4_000
"""Steps of the first annealing, and of the longest one for each stage of the plan."""

HEATS = (1.0, 4.0, 0.2)
"""By how much hotter annealings of given sizes start, in turn: what suits one network is far from suiting another."""

GROWTH = 4.0
"""By how much each wave is longer than the one before: a few long ones find better plans than many short ones."""

PATIENCE = 5
"""Waves without gain after which nothing more is to be expected."""

HOT_IF_FREE, COLD_IF_FREE = 2e-2, 2e-4
"""Temperatures at the start and the end of an annealing of orders and sizes together."""

COSTLY = 0.01
"""Share of the makespan that the fixed costs of all chunks take, from which their number is searched."""

COUNTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)
"""Chunks per collective from which annealings of free sizes start."""

NEAR = (0.6, 2.1)
"""Where chunks are costly: the least and the largest count to start from, as multiples of that of the best schedule."""

COARSE_CHUNKS = 64
"""Chunks per collective that stand for more: their schedules are within a per mille of the bounds."""

Stop = Callable[[float], bool]
"""Told the best makespan of a thread, in picoseconds, says whether to stop."""

Task = Callable[[float, Stop], tuple[Schedule, float]]
"""An annealing that may simulate so many stages; its best schedule, and how many it simulated."""


@dataclass(frozen=True)
class Anneal:
    """Waves that improve the incumbent; equal seeds, workers and work give equal results.

    Where chunk sizes stay, every thread of a wave anneals the incumbent with a different seed.  Where they are free,
    every thread starts from equal chunks, whose number differs from one start to the next, and anneals orders and
    sizes together; a chunk that hurts ends with no bytes.  A linear programme makes the sizes exact in the end.

    Parameters
    ----------
    hot, cold : float
        Temperatures at the start and the end of an annealing of given sizes, as fractions of the makespan.
    patience : float
        Waves without gain after which the step ends.
    most_work : float
        Stages that each thread may simulate.
    when : callable, optional
        Restricts the step to some incumbents.
    """

    hot: float = 5e-3
    cold: float = 2e-5
    patience: float = PATIENCE
    most_work: float = math.inf
    when: Callable[[Incumbent], bool] | None = None
    engine: ClassVar[str] = "annealing"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether the tables of the annealing are small enough, and where iterations repeat, few of them tell all."""
        if self.when is not None and not self.when(incumbent):
            return False
        return can_anneal(incumbent.best) and num_arcs(incumbent.best) <= MAX_ARCS

    def run(self, incumbent: Incumbent) -> None:
        """Run waves until the turn is over, or some in a row gain nothing."""
        enough = incumbent.launch_bound * (1 + incumbent.limits.gap)
        if incumbent.best.makespan <= enough:
            return  # the best of its launches and sizes
        if not is_ready(None if incumbent.allowance.counts_work else incumbent.left):
            return
        waves = self._free_waves(incumbent) if incumbent.free_sizes else self._waves(incumbent)
        idle, rate, work_left = 0, float(WORK_PER_SECOND), self.most_work
        while idle < self.patience and work_left > 0 and not incumbent.done:
            before, begin = incumbent.best.makespan, incumbent.left
            work = run_wave(incumbent, next(waves), min(begin * rate, work_left))
            work_left -= work
            incumbent.charge(work / WORK_PER_SECOND)
            if not incumbent.allowance.counts_work:  # or the last wave would be cut off while it is hot
                rate = 0.9 * work / max(begin - incumbent.left, 0.02)
            idle = idle + 1 if incumbent.best.makespan > before * (1 - MIN_GAIN) else 0

    def _waves(self, incumbent: Incumbent) -> Iterator[list[Task]]:
        """Annealings of the incumbent, each wave longer than the one before, from one temperature after the other."""
        stages, heats = incumbent.best.plan.num_stages, cycle(HEATS)
        work, most = float(FIRST_STEPS * stages), float(MOST_STEPS * stages**2)
        while True:
            yield [
                partial(_anneal, incumbent.best, seed, (self.hot * heat, self.cold), min(work, most))
                for seed, heat in zip(_seeds(incumbent), heats, strict=False)
            ]
            work *= GROWTH

    def _free_waves(self, incumbent: Incumbent) -> Iterator[list[Task]]:
        """Annealings of orders and sizes together from equal chunks, whose number is another one each time."""
        counts, number = free_counts(incumbent.best), 0
        starts = dict[int, Schedule]()
        while True:
            tasks: list[Task] = []
            for seed in _seeds(incumbent):
                rounds, place = divmod(number, len(counts))
                count = counts[place]
                start = starts.get(count) or starting_schedule(incumbent.instance.at_most(count))
                starts[count] = start
                work = FIRST_STEPS * GROWTH ** (rounds + 1) * start.plan.num_stages
                tasks.append(partial(_anneal_sizes, start, seed, work))
                number += 1
            yield tasks


@dataclass(frozen=True)
class Coarse:
    """Few chunks in the place of very many equal ones, refined (:mod:`themis_opt.schedules.refinement`)."""

    engine: ClassVar[str] = "annealing"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether chunks are equal and very many."""
        most = max(exchange.chunks for exchange in incumbent.instance.exchanges)
        return not incumbent.free_sizes and most > COARSE_CHUNKS

    def run(self, incumbent: Incumbent) -> None:
        """Anneal a schedule of few chunks, and offer it with each of them cut."""
        few = incumbent.beside(starting_schedule(incumbent.instance.at_most(COARSE_CHUNKS)), incumbent.bound)
        if Anneal().applies(few):
            Anneal().run(few)
        counts = even_counts(few.best, incumbent.instance)
        incumbent.offer_plan(refined(few.best.enforced_plan(), incumbent.instance, counts))


def run_wave(incumbent: Incumbent, tasks: list[Task], most_work: float) -> float:
    """Run a task on each thread and offer what they find; the stages that the busiest one simulated.

    Ctrl-C stops them all and keeps what they have.
    """

    def stops(makespan: float) -> bool:
        is_over = incumbent.left <= 0 and not incumbent.allowance.counts_work
        return incumbent.interrupted or is_over or makespan <= incumbent.enough

    running: list[Future[tuple[Schedule, float]]] = []
    with ThreadPoolExecutor(len(tasks)) as threads:
        while len(running) < len(tasks) or not all(future.done() for future in running):
            try:
                running.extend(threads.submit(task, most_work, stops) for task in tasks[len(running) :])
                wait(running, timeout=POLL_SECONDS)
            except KeyboardInterrupt:
                incumbent.interrupt()
            except TimeUp:  # which the tasks see for themselves
                continue
    proven = incumbent.launch_bound
    for schedule, _ in (future.result() for future in running):
        if incumbent.offer(adopted(schedule, incumbent.instance)) and schedule.has_period:
            incumbent.launch_bound = proven  # launches and sizes are the same
    return max(future.result()[1] for future in running)


def adopted(schedule: Schedule, instance: Instance) -> Schedule:
    """A schedule as one of an instance that allows more chunks."""
    return schedule if schedule.instance is instance else simulate(instance, schedule.enforced_plan())


def is_costly(schedule: Schedule) -> bool:
    """Whether chunks have fixed costs that decide about their number."""
    overhead = chunk_overhead(schedule.instance)
    return overhead > 0 and overhead >= COSTLY * schedule.makespan


def free_counts(best: Schedule) -> list[int]:
    """Chunks per collective from which annealings of free sizes start."""
    limit = max(exchange.chunks for exchange in best.instance.exchanges)
    if not is_costly(best):
        return [min(limit, COARSE_CHUNKS)]
    chunks = max(len(launch.sizes) for launch in best.plan.chunks)
    near = {min(count, limit) for count in COUNTS if NEAR[0] * chunks <= count <= NEAR[1] * chunks}
    return sorted(near or {limit})


def _seeds(incumbent: Incumbent) -> list[int]:
    """A seed for each thread of the next wave."""
    seeds = np.random.SeedSequence(incumbent.next_seed()).generate_state(incumbent.limits.workers)
    return [int(seed) for seed in seeds]


def _cool(annealing: Annealing, temperatures: tuple[float, float], work: float, stop: Stop) -> float:
    """Cool an annealing down, in slices between which it may be told to stop; the stages simulated."""
    num_slices = max(1, round(work / SLICE_WORK))
    steps = max(1, int(work / num_slices / annealing.step_work))
    places = np.geomspace(*temperatures, num_slices + 1)
    for number in range(num_slices):
        annealing.run(steps, places[number], places[number + 1])
        if stop(annealing.makespan):
            break
    return float((number + 1) * steps * annealing.step_work)


def _anneal(
    start: Schedule, seed: int, temperatures: tuple[float, float], work: float, most_work: float, stop: Stop
) -> tuple[Schedule, float]:
    """Improve orders; sizes stay.  An annealing that would be followed by too short a one takes all that is left."""
    annealing = Annealing(start, seed)
    done = _cool(annealing, temperatures, work if most_work > 2 * work else most_work, stop)
    return annealing.best(), done


def _anneal_sizes(start: Schedule, seed: int, work: float, most_work: float, stop: Stop) -> tuple[Schedule, float]:
    """Improve orders and sizes together; the sizes to the last byte at the end."""
    annealing = Annealing(start, seed, resizes=True)
    done = _cool(annealing, (HOT_IF_FREE, COLD_IF_FREE), work if most_work > 2 * work else most_work, stop)
    best = annealing.best()
    plan = mirrored(best)
    ends = [resized(best), *([resized(simulate(best.instance, plan))] if plan else [])]
    return min(ends, key=lambda schedule: schedule.makespan), done
