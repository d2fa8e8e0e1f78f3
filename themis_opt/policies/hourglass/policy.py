"""A policy at the pace of Themis and near the optimum: long stages at both ends, short ones in between."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.candidates import RULES, aims_of, empty_state, plan_of, run
from themis_opt.policies.hourglass.paths import PathParams, empty_pool
from themis_opt.policies.hourglass.tables import tables_of
from themis_opt.policies.themis import Themis
from themis_opt.problem.cost import check_clock, fixed_occupancy
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import Phase
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import makespans, simulate

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
    paths : PathParams
        How chunks are dealt out to paths.
    """

    weights: tuple[float, ...] = (0.3, 0.0, 0.1, 0.5, 0.03, 0.2)
    trials_per_stage: int = 8
    most_work: int = 160_000
    free_chunks: int = 18
    fewest_free_chunks: int = 4
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
        programme (:func:`themis_opt.solving.sizing.resized`).  With very many collectives they stay equal.
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

    The few are as many as the linear programme can do with in time; fewer still are tried where stages hold their
    dimension for some time whatever they send.  The instance of the schedule allows no more chunks than it has.
    """
    most = max(params.fewest_free_chunks, params.free_chunks // len(instance.exchanges))
    counts = (most, most // 2, most // 4) if _has_fixed_costs(instance) else (most,)
    largest = max(c.chunks for c in instance.exchanges)
    different = dict.fromkeys(min(count, largest) for count in counts)
    tried = [_of_few_chunks(instance, count, params) for count in different]
    schedules = [schedule for schedule in tried if schedule is not None]
    if not schedules:
        return balanced(instance, params)
    if schedules[0].instance.exchanges != instance.exchanges:
        schedules.append(balanced(instance, replace(params, trials_per_stage=0)))
    return min(schedules, key=lambda schedule: schedule.makespan)


def _has_fixed_costs(instance: Instance) -> bool:
    """Whether every stage costs a dimension some time, whatever it sends."""
    phases, dimensions = np.array(Phase), np.arange(len(instance.fabric.dimensions))
    return bool(fixed_occupancy(instance, phases[:, None], dimensions).any())


def _of_few_chunks(instance: Instance, count: int, params: HourglassParams) -> Schedule | None:
    """At most so many chunks of each collective, of free sizes; None if these are too many for one programme."""
    from themis_opt.solving.sizing import resized  # loads a solver, which equal chunks do not need

    few = instance.at_most(count)
    if sum(own.chunks for own in few.exchanges) > MOST_RESIZED_CHUNKS:
        return None
    return resized(balanced(few, params))
