"""A policy at the pace of Themis and near the optimum: long stages at both ends, short ones in between."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.candidates import RULES, aims_of, empty_state, plan_of, run
from themis_opt.policies.hourglass.paths import PathParams, empty_pool
from themis_opt.policies.hourglass.tables import tables_of
from themis_opt.policies.themis import Themis
from themis_opt.problem.cost import check_clock
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import makespans, simulate
from themis_opt.solving.lowering import chunk_overhead

COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18)
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
        loads alone.  Half and double of 0.2 lengthen the mean makespan by 0.16 %, of the others they are chance.
    trials_per_stage : int
        Changes of a path to try for each stage of the plan, as long as that is not too much work: half lengthens the
        mean makespan by 0.3 %, double shortens it by 0.3 %.
    most_work : int
        Stages to simulate in all trials, and in all candidates but the first: what bounds the time.  Half saves a sixth
        of it and lengthens the mean makespan by 0.05 %, double shortens that by 0.02 % for a sixth more time.
    free_chunks, fewest_free_chunks : int
        Chunks of free sizes, of all collectives together, and of each one at least.  Half takes 0.7 of the time and
        double 1.5 times as much, for makespans up to 19 % shorter or longer where messages are small.
    count_margin : float
        Where chunks cost something, how much longer than the best a schedule is after which no more, or no fewer,
        chunks are tried: half lengthens one makespan of 24 by 8 %, double takes a sixth more time.
    rebalanced, rebalancing_rounds : int
        Of how many of these schedules the paths are dealt out again for the sizes that suit them, and how often.  One
        of each lengthens the mean makespan by 0.3 and 0.6 %, twice as many shorten it by 0.1 and 0.2 % for a third and
        a half more time.
    paths : PathParams
        How chunks are dealt out to paths.
    """

    weights: tuple[float, ...] = (0.3, 0.0, 0.1, 0.5, 0.03, 0.2)
    trials_per_stage: int = 8
    most_work: int = 160_000
    free_chunks: int = 18
    fewest_free_chunks: int = 4
    count_margin: float = 0.15
    rebalanced: int = 3
    rebalancing_rounds: int = 2
    paths: PathParams = field(default_factory=PathParams)


USUAL = HourglassParams()


@dataclass(frozen=True)
class Hourglass:
    """Balance whole chunks over paths, then serve long scatters first, long gathers last and the rest at once.

    A chunk has its most bytes in its first scatter and its last gather.  Stages in the middle are served first, because
    they are short and others wait for them; then first scatters, which the dimensions thus begin with; then last
    gathers, of which every dimension has some in stock at the end.  So no dimension runs dry, and what remains is to
    choose for how many chunks a dimension is the first and the last one: paths are dealt out by least load, middle
    stages weighing more or less, and changed in single positions while that balances better.  The candidates are
    simulated, and the best are improved by a bounded number of changes.

    The fixed order, and Themis with both dispatch rules, are simulated too, and returned if they are better.  Nothing
    is random, and all sequences are enforced.  Time, for C chunks, D dimensions and n stages: O(D 2^D) for each of at
    most 256 batches of chunks in each of 12 candidates, and O(n (D + log n)) for each of O(C D) simulations, whose
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
    """The schedule found, or that of Themis or of the fixed order where it is better."""
    themis = Themis("scf")(instance)
    plans = (themis, replace(themis, dispatch="fifo"), Baseline()(instance))
    times = makespans(instance, plans)
    best = int(times.argmin())
    return simulate(instance, plans[best]) if times[best] < found.makespan else found


def balanced(instance: Instance, params: HourglassParams = USUAL) -> Schedule:
    """The best schedule of equal chunks that the rules find, without the comparison with the usual policies."""
    tables, num_dimensions = tables_of(instance), len(instance.fabric.dimensions)
    num_stages = int((tables.chunks * tables.legs * tables.width).sum())
    trials = min(params.trials_per_stage * num_stages, params.most_work // num_stages)
    aims = aims_of(tables, num_dimensions, params.weights, max(1, params.most_work // (RULES * num_stages)))
    state = empty_state(tables, num_dimensions, len(aims.weight) + 1)
    pool = empty_pool(tables, num_dimensions, params.paths)
    run(tables, pool, state, aims, trials, params.paths)
    return simulate(instance, plan_of(instance, tables, state))


def with_free_sizes(instance: Instance, params: HourglassParams = USUAL) -> Schedule:
    """Few chunks whose sizes are free, or the equal chunks of the instance, as they are dealt out, if these are better.

    The few are as many as the linear programme can do with in time, or as suits where every chunk costs something.  The
    instance of the schedule allows no more chunks than it has.
    """
    most = max(params.fewest_free_chunks, params.free_chunks // len(instance.exchanges))
    most = min(most, max(own.chunks for own in instance.exchanges))
    dear = chunk_overhead(instance) > 0
    schedules = _of_suitable_counts(instance, most, params) if dear else _of_few_chunks(instance, most, params)
    if not schedules:
        return balanced(instance, params)
    if dear or schedules[0].instance.exchanges != instance.exchanges:
        schedules.append(balanced(instance, replace(params, trials_per_stage=0)))
    return min(schedules, key=lambda schedule: schedule.makespan)


def _of_suitable_counts(instance: Instance, most: int, params: HourglassParams) -> list[Schedule]:
    """Schedules of the numbers of chunks that suit best, once their paths suit their sizes too.

    From a middling number on, more and fewer are tried until they are clearly worse than the best so far.
    """
    counts = sorted({min(count, most) for count in COUNTS})
    middle = len(counts) // 2
    schedules: list[Schedule] = []
    for direction in (counts[middle:], counts[:middle][::-1]):
        for count in direction:
            found = _of_few_chunks(instance, count, params)
            schedules += found
            if not found or found[0].makespan > (1 + params.count_margin) * min(own.makespan for own in schedules):
                break
    different = {own.makespan: own for own in schedules}
    promising = [different[makespan] for makespan in sorted(different)[: params.rebalanced]]
    return schedules + [again for own in promising for again in _rebalanced(own, params)]


def _rebalanced(schedule: Schedule, params: HourglassParams) -> Iterator[Schedule]:
    """Paths dealt out for the sizes of a schedule, and sizes for those paths, in turn."""
    from themis_opt.solving.sizing import resized

    for _ in range(params.rebalancing_rounds):
        schedule = resized(_with_balanced_paths(schedule, params))
        yield schedule


def _with_balanced_paths(schedule: Schedule, params: HourglassParams) -> Schedule:
    """Paths and sequences for chunks of given sizes, each of which is balanced as a collective of its own."""
    instance, chunks = schedule.instance, schedule.plan.chunks
    alone = [
        replace(exchange, name=f"{exchange.name}.{number}", size=size, max_chunks=1)
        for exchange, own in zip(instance.exchanges, chunks, strict=True)
        for number, size in enumerate(own.sizes.tolist())
    ]
    found = balanced(instance.group(alone), params)
    paths = np.split(np.arange(len(alone)), np.cumsum([len(own.sizes) for own in chunks])[:-1])
    plan = Plan(
        tuple(
            Chunks(own.sizes, np.concatenate([found.plan.chunks[number].paths for number in numbers.tolist()]))
            for own, numbers in zip(chunks, paths, strict=True)
        )
    )
    return simulate(instance, plan.in_order_of(instance, found.start))


def _of_few_chunks(instance: Instance, count: int, params: HourglassParams) -> list[Schedule]:
    """At most so many chunks of each collective, of free sizes; nothing if these are too many for one programme."""
    from themis_opt.solving.sizing import resized  # loads a solver, which equal chunks do not need

    few = instance.at_most(count)
    if sum(own.chunks for own in few.exchanges) > MOST_RESIZED_CHUNKS:
        return []
    return [resized(balanced(few, params))]
