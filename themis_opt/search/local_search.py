"""Local search on the simulator: waves of annealing on several threads, chunk sizes equal or free."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.annealing import pair_counts
from themis_opt.search.annealing_state import MoveParams
from themis_opt.search.limits import Allowance
from themis_opt.search.population import Population, Stop
from themis_opt.solving.lowering import chunk_overhead
from themis_opt.solving.sizing import resized

WORK_PER_SECOND = 20_000_000
"""Stages and tasks that a core simulates in a second of annealing, for limits that count work."""

MEASURED = 0.9
"""Share of the measured work per second that the next wave counts on: a machine may become slower."""

LEAST_SECONDS = 0.02
"""Shortest time of a wave that says how fast the machine is: some clocks tick no oftener."""

MAX_ARCS = 200_000
"""Lattice arcs of all chunks above which neither local search nor CP-SAT lays out its tables, for memory and time."""

MOST_WORK = 2**28
"""Stages simulated in the longest annealing for free sizes, 10 or 20 seconds: then other starts have their turn."""

LARGEST_POPULATION = 8
"""Most annealings that a thread cools together, a minute or two: then other starts have their turn."""

MELTING_EVERY = 3
"""Of the later starts of many chunks of free sizes, every third one lets sizes change from the start, as if few.

Without, the gap of ``random:143`` is 12.4 and not 8.7 % after 15 s.
"""

PROMISING = 1.02
"""Makespan that the best start of one of these two kinds in a wave may reach, as a multiple of the best one so far, for
others of its kind to follow.

On six dimensions those that let sizes change from the start reach 1.05 to 1.1, on ``random:143`` the others 1.028.
"""

ALL_LEFT, ALL_LEFT_ALONE = 2.0, 8.0
"""Multiples of its work up to which a later start takes all that is left, and the same where only sizes that thaw have
a turn: what is left is no use to another start.

On six dimensions 2 for both leaves 5.0 % after 60 s, and 8 for both 4.8 (four runs each); 8 for both leaves
``random:143`` and ``random:533`` 0.25 % more after 15 s (three runs), which may be chance.
"""

DEAR = 0.01
"""Share of the makespan that the most chunks cost, whatever their sizes, from which their number is searched.

Half and double change nothing.
"""

ROUNDS = 5
"""Turns of each start where chunks are dear, each with twice the work of the one before; half and double as many change
nothing in a second."""

COUNTS, NEAR = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64), (0.6, 2.1)
"""Chunks per collective from which to start then: those between these multiples of the number in the first schedule.

Half and double of all change one makespan of nine: annealing sheds chunks.
"""

MIN_GAIN = 1e-5
"""Relative gain below which a schedule counts as no better, a tenth of a gap that counts as proven."""


@dataclass(frozen=True)
class LocalSearchParams:
    """How long and how hot to anneal.

    Half and double are those of ``reports/parameters``: equal chunks after half a second, free sizes after three.

    Attributes
    ----------
    hot, cold : float
        Temperatures at the start and the end of an annealing, as fractions of the makespan.  Half and double of either
        change the mean makespan of equal chunks by 0.3 % or less, which may be chance.
    heats : tuple of float
        By how much hotter annealings of equal chunks start, in turn: plans of few stages gain from a hot start.
    warm, cool : float
        The same after the sizes have changed: half and double change makespans by less than 0.01 %.
    slice_work : int
        Stages simulated between two looks at whether to stop: a fifth of a second.
    first_work, first_steps : int
        Stages each thread simulates in the first wave, and steps in which it may.  Half and double of either change
        the mean makespan by 0.1 % or less, which may be chance.
    growth : float
        By how much each wave is longer than the one before: a few long ones find better plans than many short ones.
    steps_per_stage : int
        Steps of the longest annealing for each stage, when every other wave begins anew.  Without, the gap of 16 chunks
        on four dimensions is 10.2 and not 9.5 % (medians of four runs of 40 s); with 2000 or 6000 it is 9.7 or 9.4 %.
    start_work, start_steps : int
        Stages and steps of the first annealings for free sizes, at most.  Those of few chunks double when all counts
        had a turn, those of many grow from wave to wave.  Half and double change makespans by less than 0.01 %.
    free_counts : tuple of int
        Chunks per collective from which free sizes start, in turn; as far as so many are allowed, and the most allowed.
        Half and double of all change makespans by less than 0.01 %.
    max_turns : int
        Most turns of orders and sizes from one start: half and double change makespans by less than 0.01 %.
    few_chunks : int
        Chunks up to which orders and sizes are always annealed together from the start.  Half and double change the
        mean makespan after a second by less than 0.1 %.
    melting, freezing : float
        Temperatures at the start and the end of an annealing of orders and sizes together.  Half and double of either
        change the mean makespan after a second by less than 0.6 %, which may be chance.
    mirrored_share : float
        Share of that annealing in which the second half of a schedule is the first one backwards, where that may be.
        Half and all change the mean makespan after a second by less than 0.1 %.
    solid_share, thawing, hardening, largest_thawed : float
        Where chunks are many and of free sizes: share of an annealing in which sizes stay, temperature below which they
        change too, that at the end, and the largest chunk as a multiple of the mean.  On six dimensions (32 chunks,
        8 s) gaps are 6.0 % in the mean, and 6.2 with a share of 0.25, from there 6.3 with 6e-4 for `thawing` and 6.4
        with 3e-4 for `hardening`, of which 1e-4 leaves 5.8 % where 2e-4 leaves 5.5 (20 s).  Before ends had a price, a
        largest chunk of 1.25 left 6.0 where 1.5 left 5.4 (40 s), 1.8 5.9 where that left 5.5 (28 s), and sizes that
        change, and grow, from the start on 8.2 (40 s).  The cases of ``reports/parameters`` end before they matter.
    work_each : int
        Stages that each annealing of a population then simulates, about.  On six dimensions (32 chunks) populations of
        4 leave 5.0 % after 30 s on one core, of 7 5.1, of 14 5.4, and 8 plans that do not replace each other 5.7 %.
    moves : MoveParams
        What one step of annealing changes.
    """

    hot: float = 5e-3
    cold: float = 2e-5
    heats: tuple[float, ...] = (1.0, 4.0, 0.2)
    warm: float = 2e-3
    cool: float = 1e-4
    slice_work: int = 2**21
    first_work: int = 2**22
    first_steps: int = 20_000
    growth: float = 4.0
    steps_per_stage: int = 4000
    start_work: int = 2**23
    start_steps: int = 100_000
    free_counts: tuple[int, ...] = (16, 24, 32, 64)
    max_turns: int = 6
    few_chunks: int = 12
    melting: float = 2e-2
    freezing: float = 5e-4
    mirrored_share: float = 0.5
    solid_share: float = 0.12
    thawing: float = 8e-4
    hardening: float = 2e-4
    largest_thawed: float = 1.5
    work_each: int = 2**27
    moves: MoveParams = field(default_factory=MoveParams)


USUAL = LocalSearchParams()


def is_dear(schedule: Schedule) -> bool:
    """Whether the most chunks cost so much that their number is searched."""
    overhead = chunk_overhead(schedule.instance)
    return overhead > 0 and overhead >= DEAR * schedule.makespan


_Task = Callable[[Stop], tuple[Schedule, float]]


class LocalSearch:
    """Waves that improve a schedule; equal seeds, workers and waves give equal results.

    Where chunk sizes stay, every thread of a wave anneals the best schedule so far with a seed of its own, and from a
    temperature that differs from one to the next; each wave is several times as long as the one before, up to the
    longest, when every other one begins anew from the first schedule: the best one may have no better ones near.
    With free sizes every thread starts anew from equal chunks.  Orders and sizes of few are annealed together.  Of many
    orders are annealed and sizes optimised (:mod:`formulations.chunk_sizes`) by turns in the first starts.  In most of
    the later ones sizes stay until the annealing is cold, and about equal then: hot, they would drift to a few large
    chunks, which never part again; the longest of these cool several plans together, of which good ones replace bad
    ones (:mod:`~themis_opt.search.population`).  Good schedules of few are often the same backwards, so that a share of
    the work is given to those that are.  A chunk that hurts ends with no bytes.  Where chunks are dear the starts have
    about as many as the first schedule, and shed what they do not need.

    Parameters
    ----------
    best : Schedule
        The schedule to improve.
    free_start : callable, optional
        Where chunks may be of any sizes, and fewer than the instance says: makes the schedule of equal chunks of an
        instance from which they start.
    count : int, optional
        Chunks per collective of all starts, as where chunks are dear, in the place of those that suit `best`.
    workers : int
        Threads.
    seed : int or tuple of int
        Seed of all random choices.
    params : LocalSearchParams
        How long and how hot to anneal.
    """

    def __init__(
        self,
        best: Schedule,
        *,
        free_start: Callable[[Instance], Schedule] | None = None,
        count: int | None = None,
        workers: int = 1,
        seed: int | tuple[int, ...] = 0,
        params: LocalSearchParams = USUAL,
    ) -> None:
        self.best = self._first = best
        self.interrupted = False
        self._params, self._free_start, self._workers = params, free_start, workers
        self._seeds = np.random.SeedSequence(seed)
        self._seed = seed if isinstance(seed, tuple) else (seed,)
        self._next_work = float(min(params.first_work, params.first_steps * best.plan.num_stages))
        self._num_starts, self._is_anew = 0, False
        near = self._near_counts() if count is None else [count]
        self._is_dear = bool(near)  # sizes are free and the number of chunks is searched
        self._counts = near or self._many_counts()
        is_many = free_start is not None and not near and self._counts[-1] > params.few_chunks
        self._melting: bool | None = None if is_many else False  # later starts melt all, none, or (None) some

    def run(
        self, allowance: Allowance, seconds: float, patience: int, enough: float, offer: Callable[[Schedule], None]
    ) -> None:
        """Run waves for so many seconds of an allowance, or until some in a row gain nothing or the best is enough.

        Parameters
        ----------
        patience : int
            Waves in a row without gain after which to stop.
        enough : float
            Makespan at which to stop, in picoseconds.
        offer : callable
            Hears of the best schedule after every wave.
        """
        last, idle, rate = allowance.left - seconds, 0, float(WORK_PER_SECOND)

        def stops(makespan: float) -> bool:
            return makespan <= enough or (not allowance.counts_work and allowance.left <= last)

        while not self._is_over(idle, patience) and allowance.left > last and not self.interrupted:
            before, begin = self.best.makespan, allowance.left
            work = self.wave((begin - last) * rate, stops)
            allowance.charge(work / WORK_PER_SECOND)
            if not allowance.counts_work:  # or the last wave would be cut off while it is hot
                rate = MEASURED * work / max(begin - allowance.left, LEAST_SECONDS)
            idle = idle + 1 if self.best.makespan > before * (1 - MIN_GAIN) else 0
            offer(self.best)
            if self.best.makespan <= enough:
                return

    def _is_over(self, idle: int, patience: int) -> bool:
        """Whether nothing more is to be expected.

        Where chunks are dear every start has its turns whether others gain or not.
        """
        if self._is_dear:
            return self._num_starts >= ROUNDS * len(self._counts)
        return idle >= patience

    def _work_of(self, count: int, multiple: float, most: int = MOST_WORK) -> float:
        """Stages simulated in an annealing from so many chunks per collective, a multiple of those of the first one."""
        exchanges = self.best.instance.exchanges
        num_stages = sum(count * len(own.kind.rule.phases) * len(own.span) for own in exchanges)
        first = min(self._params.start_work, self._params.start_steps * num_stages)
        return min(first * multiple, float(most))

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
        params, tasks = self._params, list[_Task]()
        if self._free_start is not None:
            last = self._num_starts + self._workers - 1
            tasks += [self._free_task(self._free_start, seed, most_work, last) for seed in seeds]
        else:
            start, work = self._next_start()
            work = work if most_work > 2 * work else most_work
            tasks += [
                partial(_anneal, start, work, seed, params.hot * heat, params.cold, params)
                for seed, heat in zip(seeds, self._heats(), strict=True)
            ]
        first = self._num_starts - len(tasks)
        ends = self._together(tasks, stop)
        found = [self._adopted(schedule) for schedule, _ in ends]
        self.best = min(self.best, *found, key=lambda schedule: schedule.makespan)
        if self._melting is None:
            self._drop_a_kind({number: own.makespan for number, (own, _) in enumerate(ends, first)})
        return max(work for _, work in ends)

    def _melts(self, number: int) -> bool:
        """Whether a later start of many chunks of free sizes lets sizes change from the start."""
        return number % MELTING_EVERY == 1 if self._melting is None else self._melting

    def _drop_a_kind(self, found: dict[int, int]) -> None:
        """Leave later starts to one of their two kinds where the other one found nothing promising in a wave.

        Parameters
        ----------
        found : dict
            Makespan found by each start of the wave, picoseconds.
        """
        for melts in (False, True):
            later = [number for number in found if number >= len(self._counts) and self._melts(number) == melts]
            if later and min(found[number] for number in later) > PROMISING * self.best.makespan:
                self._melting = not melts
                return

    def _next_start(self) -> tuple[Schedule, float]:
        """Where the next wave begins if sizes stay, and the stages that each thread simulates."""
        longest = float(self._params.steps_per_stage * self.best.plan.num_stages**2)
        work = min(self._next_work, longest)
        self._next_work *= self._params.growth
        self._is_anew = work == longest and not self._is_anew
        return (self._first if self._is_anew else self.best), work

    def _heats(self) -> list[float]:
        """By how much hotter the annealings of the next wave start."""
        first, heats = self._num_starts, self._params.heats
        self._num_starts += self._workers
        return [heats[number % len(heats)] for number in range(first, self._num_starts)]

    def _near_counts(self) -> list[int]:
        """Chunks per collective from which to start where they are dear; none where they are not."""
        if self._free_start is None or not is_dear(self.best):
            return []
        limit = max(own.chunks for own in self.best.instance.exchanges)
        few = max(len(own.sizes) for own in self.best.plan.chunks)
        near = [min(count, limit) for count in COUNTS if NEAR[0] * few <= count <= NEAR[1] * few]
        return sorted(set(near)) or [limit]

    def _many_counts(self) -> list[int]:
        """Chunks per collective of the starts with free sizes where they are cheap."""
        limit = max(own.chunks for own in self.best.instance.exchanges)
        return sorted({min(count, limit) for count in self._params.free_counts})

    def _free_task(
        self, starting_schedule: Callable[[Instance], Schedule], seed: int, most_work: float, last: int
    ) -> _Task:
        """The next start with free sizes, from equal chunks.

        `seed` is that of its thread; `last` is the last start of its wave, whose threads wait for each other.
        """
        number, params = self._num_starts, self._params
        doublings, place = divmod(number, len(self._counts))
        self._num_starts += 1
        is_many = not self._is_dear and self._counts[-1] > params.few_chunks
        is_later = is_many and doublings > 0
        thaws = is_later and not self._melts(number)
        if is_later:
            place = -1 if thaws else doublings % len(self._counts)
        count = self._counts[place]
        start = starting_schedule(self.best.instance.at_most(count))
        if is_later:  # all threads of a wave take equally long, and wait for each other
            most = LARGEST_POPULATION * params.work_each if thaws else MOST_WORK
            work = self._work_of(count, params.growth ** ((last - len(self._counts)) // self._workers), most)
            all_left = ALL_LEFT_ALONE if thaws and self._melting is False else ALL_LEFT
            work = work if most_work > all_left * work else most_work
        else:
            work = min(self._work_of(count, 2.0**doublings), most_work)
        if self._is_dear:  # equal starts are equal whatever other counts have their turns
            (seed,) = np.random.SeedSequence([*self._seed, count, doublings]).generate_state(1).tolist()
        if thaws:
            return partial(_thaw_sizes, start, work, seed, params)
        if is_later or not is_many:
            return partial(_anneal_sizes, start, work, seed, params)
        return partial(_improve_sizes, start, min(work, most_work / (1 + params.max_turns)), seed, params)

    def _adopted(self, schedule: Schedule) -> Schedule:
        """The schedule as one of the instance in question, which may allow more chunks."""
        if schedule.instance is self.best.instance:
            return schedule
        return simulate(self.best.instance, schedule.enforced_plan())

    def _together(self, tasks: list[_Task], stop: Stop) -> list[tuple[Schedule, float]]:
        """Run one task per thread; Ctrl-C stops them all and keeps what they have."""

        def stops(makespan: float) -> bool:
            return self.interrupted or stop(makespan)

        running: list[Future[tuple[Schedule, float]]] = []
        with ThreadPoolExecutor(len(tasks)) as threads:
            while len(running) < len(tasks) or not all(future.done() for future in running):
                try:
                    running.extend(threads.submit(task, stops) for task in tasks[len(running) :])
                    wait(running)
                except KeyboardInterrupt:
                    self.interrupted = True
            return [future.result() for future in running]


def _anneal(
    start: Schedule,
    work: float,
    seed: int,
    hot: float,
    cold: float,
    params: LocalSearchParams,
    stop: Stop,
    *,
    resizes: bool = False,
    pairs: int | None = None,
) -> tuple[Schedule, float]:
    """The best schedule of one annealing, and the stages simulated."""
    annealing = Population(start, seed, params.moves, params.slice_work, resizes=resizes, pairs=pairs)
    done = annealing.cool(work, hot, cold, stop)
    return annealing.best(), done


def _anneal_sizes(
    start: Schedule, work: float, seed: int, params: LocalSearchParams, stop: Stop
) -> tuple[Schedule, float]:
    """Orders and sizes improved together, the sizes to the last byte at the end.

    The better of two schedules, of which one is the same backwards, where that may be.
    """
    counts = pair_counts(start)
    share = params.mirrored_share if counts else 0.0
    hot, cold = params.melting, params.freezing
    annealed, done = _anneal(start, (1 - share) * work, seed, hot, cold, params, stop, resizes=True)
    best = resized(annealed)
    if not counts or stop(best.makespan):
        return best, done
    # No and only pairs are left to plans of more chunks, of which some go.
    pairs = int(np.random.default_rng(seed).choice(counts[1:-1] or counts))
    annealed, more = _anneal(start, share * work, seed, hot, cold, params, stop, resizes=True, pairs=pairs)
    return min(best, resized(annealed), key=lambda schedule: schedule.makespan), done + more


def _thaw_sizes(
    start: Schedule, work: float, seed: int, params: LocalSearchParams, stop: Stop
) -> tuple[Schedule, float]:
    """Orders of many chunks improved, then sizes too, which stay about equal; the same backwards where that may be."""
    counts, share = pair_counts(start), params.solid_share
    plans = Population(
        start,
        seed,
        params.moves._replace(largest=params.largest_thawed),
        params.slice_work,
        resizes=True,
        pairs=counts[-1] if counts else None,
        count=min(max(1, round(work / params.work_each)), LARGEST_POPULATION),
    )
    done = plans.cool(share * work, params.hot, params.thawing, stop, keeps_sizes=True)
    done += plans.cool((1 - share) * work, params.thawing, params.hardening, stop)
    return resized(plans.best()), done


def _improve_sizes(
    start: Schedule, work: float, seed: int, params: LocalSearchParams, stop: Stop
) -> tuple[Schedule, float]:
    """Orders and sizes improved in turn while that pays."""
    annealed, done = _anneal(start, work, seed, params.hot, params.cold, params, stop)
    best = resized(annealed)
    for turn in range(1, params.max_turns + 1):
        if stop(best.makespan):
            break
        annealed, more = _anneal(best, work, seed + turn, params.warm, params.cool, params, stop)
        improved, done = resized(annealed), done + more
        if improved.makespan > best.makespan * (1 - MIN_GAIN):
            break
        best = improved
    return best, done
