"""A policy at the pace of Themis and near the optimum: long stages at both ends, short ones in between."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.candidates import MAKESPAN, RULES, State, aims_of, empty_state, plan_of, run
from themis_opt.policies.hourglass.paths import PathParams, empty_pool
from themis_opt.policies.hourglass.tables import Portion, Tables, equal_portions, tables_of
from themis_opt.policies.themis import Themis
from themis_opt.problem.cost import check_clock, fixed_occupancy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import makespans, simulate
from themis_opt.solving.lowering import chunk_overhead

COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
"""Numbers of chunks that are tried where each costs something: every one where one more changes much."""

MOST_RESIZED_CHUNKS = 64
"""Most chunks whose sizes are optimised together: the time rises with the square.  Twice as many change nothing."""


@dataclass(frozen=True)
class HourglassParams:
    """What the policy tries.  Effects of half and double are those of ``reports/parameters``.

    Attributes
    ----------
    weights : tuple of float
        Weights of the time in middle stages for which paths are chosen, each with every kind of tail; 0.0 balances
        loads alone.  Half and double are chance.
    mirrored : int
        Of the candidates of these weights, those that are tried with mirrored paths too, where any are allowed.  Half
        and double are chance.
    trials_per_stage : int
        Changes of a path to try for each stage of the plan, as long as that is not too much work: half lengthens the
        mean makespan by 0.11 %, double shortens it by 0.05 %.
    most_work : int
        Stages to simulate in all trials, and in all candidates but the first: what bounds the time.  Half saves a fifth
        of it and lengthens the mean makespan by 0.07 %, double shortens that by 0.02 % for a fifth more time.
    free_chunks, fewest_free_chunks : int
        Chunks of free sizes, of all collectives together, and of each one at least.  Half takes 0.8 of the time and
        double 1.4 times as much, for makespans up to 1 % longer or shorter.
    count_margin : float
        Where chunks cost something, how much longer than the best a schedule is after which no more, or no fewer,
        chunks are tried: half and double change the time by some percent.
    count_work : int
        The same as `most_work` for each number of chunks then: half saves a sixth of the time and lengthens the mean
        makespan by 0.08 %, double shortens it by 0.07 % for a seventh more.
    resized, rebalanced : int
        Of how many of these schedules the sizes are optimised, and how often the paths of the best one are dealt out
        again for the sizes that suit them.  Half saves a fifth and a quarter of the time and lengthens the mean
        makespan by 0.6 and 0.3 %, double takes a seventh and 0.4 more and shortens it by 0.1 and 0.4 %.
    paths : PathParams
        How chunks are dealt out to paths.
    """

    weights: tuple[float, ...] = (0.3, 0.0, 0.1, 0.5, 0.03, 0.2)
    mirrored: int = 4
    trials_per_stage: int = 24
    most_work: int = 160_000
    free_chunks: int = 18
    fewest_free_chunks: int = 4
    count_margin: float = 0.1
    count_work: int = 30_000
    resized: int = 3
    rebalanced: int = 4
    paths: PathParams = field(default_factory=PathParams)


USUAL = HourglassParams()


@dataclass(frozen=True)
class Hourglass:
    """Balance whole chunks over paths, then serve long scatters first, long gathers last and the rest at once.

    A chunk has its most bytes in its first scatter and its last gather.  Stages in the middle are served first, because
    they are short and others wait for them; then first scatters, which the dimensions thus begin with; then last
    gathers, of which every dimension has some in stock at the end.  So no dimension runs dry, and what remains is to
    choose for how many chunks a dimension is the first and the last one: paths are dealt out by least load, middle
    stages weighing more or less, and changed in single positions while that balances better.  Some candidates have
    mirrored paths, as many chunks ending on a dimension as begin there: with many last gathers and few first scatters a
    dimension runs dry in the middle, where lags are long.  The candidates are simulated, and the best are improved by a
    bounded number of changes.

    The fixed order, and Themis with both dispatch rules, are simulated too, and returned if they are better.  Nothing
    is random, and all sequences are enforced.  Time, for C chunks, D dimensions and n stages: O(D 2^D) for each of at
    most 256 batches of chunks in each of 16 candidates, and O(n (D + log n)) for each of O(C D) simulations, whose
    number falls where n is large.

    Parameters
    ----------
    sizes : {"equal", "free"}
        Whether the chunks are equal, or may be fewer and of the sizes that suit the schedule best, from one linear
        programme (:func:`themis_opt.solving.sizing.resized`).  Where each costs something, several numbers of them are
        tried, and paths and sizes are suited to each other.  With very many collectives the chunks stay equal.
    """

    sizes: Literal["equal", "free"] = "equal"

    def __call__(self, instance: Instance, params: HourglassParams = USUAL) -> Plan:
        """Plan `instance`.

        Raises
        ------
        InputError
            If the clock is too small for it.
        """
        check_clock(instance)
        found = balanced(instance, params) if self.sizes == "equal" else with_free_sizes(instance, params)
        return _or_usual(instance, found).enforced_plan()


def _or_usual(instance: Instance, found: Schedule) -> Schedule:
    """The schedule found, or that of Themis or of the fixed order where it is better.

    These have all chunks, so they cannot be better where that many cost more than the schedule takes.
    """
    if found.makespan <= _fixed_load(instance):
        return found
    themis = Themis("scf")(instance)
    plans = (themis, replace(themis, dispatch="fifo"), Baseline()(instance))
    times = makespans(instance, plans)
    best = int(times.argmin())
    return simulate(instance, plans[best]) if times[best] < found.makespan else found


def _fixed_load(instance: Instance) -> float:
    """Picoseconds for which all chunks hold the busiest dimension without sending anything."""
    loads = np.zeros(len(instance.fabric.dimensions))
    for own in instance.exchanges:
        span = np.array(own.span)
        loads[span] += own.chunks * sum(fixed_occupancy(instance, phase, span) for phase in own.kind.rule.phases)
    return float(loads.max())


@dataclass(frozen=True)
class Balanced:
    """The best that the rules find of some portions, which is simulated only where it is wanted."""

    instance: Instance
    portions: Sequence[Portion]
    tables: Tables
    state: State

    @property
    def makespan(self) -> int:
        """In picoseconds."""
        return int(self.state.best[MAKESPAN])

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule, simulated."""
        return simulate(self.instance, plan_of(self.instance, self.portions, self.tables, self.state))


def balanced(instance: Instance, params: HourglassParams = USUAL) -> Schedule:
    """The best schedule that the rules find of equal chunks, without the usual policies."""
    return balance(instance, params, equal_portions(instance)).schedule


def balance(instance: Instance, params: HourglassParams, portions: Sequence[Portion]) -> Balanced:
    """The best that the rules find of portions of collectives."""
    tables, num_dimensions = tables_of(instance, portions), len(instance.fabric.dimensions)
    num_stages = int((tables.chunks * tables.legs * tables.width).sum())
    trials = min(params.trials_per_stage * num_stages, params.most_work // num_stages)
    most = max(1, params.most_work // (RULES * num_stages))
    aims = aims_of(tables, num_dimensions, params.weights, params.mirrored, most)
    state = empty_state(tables, num_dimensions, len(aims.weight) + 1)
    pool = empty_pool(tables, num_dimensions, params.paths)
    run(tables, pool, state, aims, trials, params.paths)
    return Balanced(instance, portions, tables, state)


def with_free_sizes(instance: Instance, params: HourglassParams = USUAL) -> Schedule:
    """Few chunks whose sizes are free, or the equal chunks of the instance, as they are dealt out, if these are better.

    The few are as many as the linear programme can do with in time, or as suits where every chunk costs something.
    """
    allowed = max(own.chunks for own in instance.exchanges)
    most = min(allowed, max(params.fewest_free_chunks, params.free_chunks // len(instance.exchanges)))
    if sum(min(own.chunks, most) for own in instance.exchanges) > MOST_RESIZED_CHUNKS:
        return balanced(instance, params)
    if chunk_overhead(instance) > 0:
        quick = replace(params, most_work=min(params.most_work, params.count_work))
        schedules = _of_suitable_counts(instance, most, quick)
    else:
        schedules = [_of_few_chunks(instance, most, params)]
    if most < allowed and min(own.makespan for own in schedules) > _fixed_load(instance):
        schedules.append(balanced(instance, replace(params, trials_per_stage=0)))
    return min(schedules, key=lambda schedule: schedule.makespan)


def _of_suitable_counts(instance: Instance, most: int, params: HourglassParams) -> list[Schedule]:
    """Schedules of the numbers of chunks that suit best, once their paths suit their sizes too."""
    from themis_opt.solving.sizing import resized  # loads a solver, which equal chunks do not need

    suitable = [resized(own.schedule) for own in _best(_of_counts(instance, most, params), params.resized)]
    tried = set[int]()
    for _ in range(params.rebalanced):
        fresh = [own for own in suitable if own.makespan not in tried]
        if not fresh:
            break
        best = min(fresh, key=lambda schedule: schedule.makespan)
        tried.add(best.makespan)
        suitable.append(resized(_rebalanced(best, params)))
    return suitable


def _of_counts(instance: Instance, most: int, params: HourglassParams) -> list[Balanced]:
    """Several numbers of equal chunks.

    From a middling number on, more and fewer are tried until they are clearly worse than the best so far.
    """
    counts = sorted({min(count, most) for count in COUNTS})
    middle = len(counts) // 2
    tried: list[Balanced] = []
    for direction in (counts[middle:], counts[:middle][::-1]):
        for count in direction:
            tried.append(balance(instance, params, equal_portions(instance, count)))
            if tried[-1].makespan > (1 + params.count_margin) * min(own.makespan for own in tried):
                break
    return tried


def _best(tried: Sequence[Balanced], most: int) -> list[Balanced]:
    """The best of different makespans, at most so many."""
    different = {own.makespan: own for own in tried}
    return [different[makespan] for makespan in sorted(different)[:most]]


def _rebalanced(schedule: Schedule, params: HourglassParams) -> Schedule:
    """Paths and sequences for the chunks of a schedule, each of which is dealt out on its own."""
    sizes = [(number, size) for number, own in enumerate(schedule.plan.chunks) for size in own.sizes.tolist()]
    portions = [Portion(number, np.array([size])) for number, size in sizes]
    return balance(schedule.instance, params, portions).schedule


def _of_few_chunks(instance: Instance, count: int, params: HourglassParams) -> Schedule:
    """At most so many chunks of each collective, of free sizes."""
    from themis_opt.solving.sizing import resized

    return resized(balance(instance, params, equal_portions(instance, count)).schedule)
