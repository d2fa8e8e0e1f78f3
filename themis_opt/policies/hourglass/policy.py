"""A policy at the pace of Themis and near the optimum: long stages at both ends, short ones in between."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.candidates import Candidates, aims_of, empty_candidates, plan_of, run
from themis_opt.policies.hourglass.paths import empty_pool
from themis_opt.policies.hourglass.tables import Portion, Tables, equal_portions, tables_of
from themis_opt.policies.planning import fastest
from themis_opt.policies.themis import Themis
from themis_opt.problem.cost import check_clock, fixed_occupancy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.lowering import chunk_overhead

TRIED_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
"""Numbers of chunks that are tried where each costs something: every one where one more changes much."""


@dataclass(frozen=True)
class HourglassParams:
    """What the policy tries.

    `weights`: weights of the time in middle stages for which paths are chosen; 0.0 balances loads alone.
    `trials_per_stage`: changes of a path to try for each stage of the plan, as long as that is not too much work.
    `most_work`: stages to simulate in all trials, and in all candidates but the first: what bounds the time.
    `costly_weights`, `costly_work`: the same for each number of chunks, where chunks cost something.
    `free_chunks`: most chunks of free sizes of one collective.
    `resized`, `rebalanced`: where chunks cost something, of how many schedules the sizes are optimised, and how often
      the paths of the best one are dealt out again for the sizes that suit them.
    """

    weights: tuple[float, ...] = (0.3, 0.0)
    trials_per_stage: int = 36
    most_work: int = 240_000
    costly_weights: tuple[float, ...] = (0.6, 0.0)
    costly_work: int = 16_000
    free_chunks: int = 18
    resized: int = 3
    rebalanced: int = 5


USUAL_HOURGLASS = HourglassParams()


@dataclass(frozen=True)
class Hourglass:
    """Balance whole chunks over paths, then serve long scatters first, long gathers last and the rest at once.

    A chunk has its most bytes in its first scatter and its last gather.  Stages in the middle are served first, because
    they are short and others wait for them; then first scatters, which the dimensions thus begin with; then last
    gathers, of which every dimension has some in stock at the end.  So no dimension runs dry, and what remains is to
    choose for how many chunks a dimension is the first and the last one: paths are dealt out by least load, middle
    stages weighing more or less, and changed in single positions while that balances better.  Half of the candidates
    have mirrored paths, as many chunks ending on a dimension as begin there: with many last gathers and few first
    scatters a dimension runs dry in the middle, where lags are long.  The candidates are simulated, and the best are
    improved by a bounded number of changes.

    The fixed order, and Themis with both dispatch rules, are simulated too, and returned if they are better.  Nothing
    is random, and all sequences are enforced.  Time, for C chunks, D dimensions and n stages: O(D 2^D) for each of at
    most 64 batches of chunks in each of 8 candidates, and O(n (D + log n)) for each of O(C D) simulations, whose
    number falls where n is large.

    `sizes`: whether the chunks are equal, or may be fewer and of the sizes that suit the schedule best, from one linear
      programme (:func:`themis_opt.solving.sizing.resized`).  Where each costs something, several numbers of them are
      tried, and paths and sizes are suited to each other.  With very many collectives the chunks stay equal.
    """

    sizes: Literal["equal", "free"] = "equal"

    @property
    def plans_equal_sooner(self) -> bool:
        """Whether a plan of equal chunks is there sooner."""
        return self.sizes == "free"

    def __call__(self, instance: Instance, params: HourglassParams = USUAL_HOURGLASS) -> Plan:
        """Plan `instance`. Raises InputError if the clock is too small for it."""
        check_clock(instance)
        schedule = balanced(instance, params) if self.sizes == "equal" else with_free_sizes(instance, params)
        return _or_usual(instance, schedule).enforced_plan()


def _or_usual(instance: Instance, schedule: Schedule) -> Schedule:
    """A schedule, or that of Themis or of the fixed order where it is better.

    These have all chunks, so they cannot be better where that many cost more than the schedule takes.
    """
    if schedule.makespan <= _fixed_load(instance):
        return schedule
    themis = Themis("scf")(instance)
    usual = fastest(instance, (themis, replace(themis, dispatch="fifo"), Baseline()(instance)))
    return usual if usual.makespan < schedule.makespan else schedule


def _fixed_load(instance: Instance) -> float:
    """Picoseconds for which all chunks hold the busiest dimension without sending anything."""
    loads = np.zeros(len(instance.fabric.dimensions))
    for exchange in instance.exchanges:
        span = np.array(exchange.span)
        fixed = sum(fixed_occupancy(instance, phase, span) for phase in exchange.kind.rule.phases)
        loads[span] += exchange.chunks * fixed
    return float(loads.max())


@dataclass(frozen=True)
class Balanced:
    """The best that the rules find of some portions, which is simulated only where it is wanted."""

    instance: Instance
    portions: Sequence[Portion]
    tables: Tables
    candidates: Candidates

    @property
    def makespan(self) -> int:
        """In picoseconds."""
        return int(self.candidates.best[0])

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule, simulated."""
        return simulate(self.instance, plan_of(self.instance, self.portions, self.tables, self.candidates))


def balanced(instance: Instance, params: HourglassParams = USUAL_HOURGLASS) -> Schedule:
    """The best schedule that the rules find of equal chunks, without the usual policies."""
    return balance(instance, params, equal_portions(instance)).schedule


def balance(instance: Instance, params: HourglassParams, portions: Sequence[Portion]) -> Balanced:
    """The best that the rules find of portions of collectives."""
    tables, num_resources = tables_of(instance, portions), instance.num_resources
    num_stages = int((tables.chunks * tables.phases * tables.width).sum())
    trials = min(params.trials_per_stage * num_stages, params.most_work // num_stages)
    most = max(1, params.most_work // num_stages)
    aims = aims_of(tables, num_resources, params.weights, most)
    candidates = empty_candidates(tables, num_resources, len(aims.weight))
    pool = empty_pool(tables, num_resources)
    run(tables, pool, candidates, aims, trials)
    return Balanced(instance, portions, tables, candidates)


def with_free_sizes(instance: Instance, params: HourglassParams = USUAL_HOURGLASS) -> Schedule:
    """Few chunks whose sizes are free, or the equal chunks of the instance, as they are dealt out, if these are better.

    The few are as many as the linear programme can do with in time, or as suits where every chunk costs something.
    """
    from themis_opt.solving.sizing import resized  # loads a solver, which equal chunks do not need

    allowed = max(exchange.chunks for exchange in instance.exchanges)
    most = min(allowed, params.free_chunks, 64 // len(instance.exchanges))  # time rises with the square of all
    if most == 0:
        return balanced(instance, params)
    if chunk_overhead(instance) > 0:
        costly = replace(params, weights=params.costly_weights, most_work=params.costly_work)
        schedules = _of_suitable_counts(instance, most, costly)
    else:
        schedules = [resized(balance(instance, params, equal_portions(instance, most)).schedule)]
    if most < allowed and min(schedule.makespan for schedule in schedules) > _fixed_load(instance):
        schedules.append(balanced(instance, replace(params, trials_per_stage=0)))
    return min(schedules, key=lambda schedule: schedule.makespan)


def _of_suitable_counts(instance: Instance, most: int, params: HourglassParams) -> list[Schedule]:
    """Schedules of the numbers of chunks that suit best, once their paths suit their sizes too."""
    from themis_opt.solving.sizing import resized

    counts = sorted({min(count, most) for count in TRIED_COUNTS})
    equal = [balance(instance, params, equal_portions(instance, count)) for count in counts]
    different = {candidate.makespan: candidate for candidate in equal}
    suitable = [resized(different[makespan].schedule) for makespan in sorted(different)[: params.resized]]
    tried = set[int]()
    for _ in range(params.rebalanced):
        untried = [schedule for schedule in suitable if schedule.makespan not in tried]
        if not untried:
            break
        best = min(untried, key=lambda schedule: schedule.makespan)
        tried.add(best.makespan)
        suitable.append(resized(_rebalanced(best, params)))
    return suitable


def _rebalanced(schedule: Schedule, params: HourglassParams) -> Schedule:
    """Paths and sequences for the chunks of a schedule, each of which is dealt out alone."""
    launches = enumerate(schedule.plan.chunks)
    portions = [Portion(number, np.array([size])) for number, chunks in launches for size in chunks.sizes]
    return balance(schedule.instance, params, portions).schedule
