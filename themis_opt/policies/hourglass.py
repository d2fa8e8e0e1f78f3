"""A policy at the pace of Themis and near the optimum: long stages at both ends, short ones in between."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from themis_opt.cost import Phase, check_clock, fixed_occupancy
from themis_opt.instance import Instance
from themis_opt.plan import Plan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass_dispatch import empty_state, plan_of
from themis_opt.policies.hourglass_paths import empty_pool
from themis_opt.policies.hourglass_search import RULES, WEIGHTS, run
from themis_opt.policies.hourglass_tables import least_lags, tables_of
from themis_opt.policies.themis import Themis
from themis_opt.schedule import Schedule
from themis_opt.simulator import makespans, simulate

TRIALS_PER_STAGE = 8
"""Changes of a path to try for each stage of the plan, as long as that is not too much work."""

MOST_WORK = 160_000
"""Stages to simulate in all trials, and in all candidates but the first."""

FREE_CHUNKS, FEWEST_FREE_CHUNKS = 18, 4
"""Chunks of free sizes, of all collectives together, and of each one at least."""

LARGEST_PROGRAMME = 64
"""Most chunks whose sizes are optimised together; the time rises with the square."""


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
        programme (:func:`themis_opt.sizing.resized`).  With very many collectives they stay equal.
    """

    sizes: Literal["equal", "free"] = "equal"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`.

        Raises
        ------
        InputError
            If the clock is too small for it.
        """
        check_clock(instance)
        found = balanced(instance) if self.sizes == "equal" else with_free_sizes(instance)
        return _or_usual(instance, found).enforced_plan()


def _or_usual(instance: Instance, found: Schedule) -> Schedule:
    """The schedule found, or that of Themis or of the fixed order where it is better."""
    themis = Themis("scf")(instance)
    plans = (themis, replace(themis, dispatch="fifo"), Baseline()(instance))
    times = makespans(instance, plans)
    best = int(times.argmin())
    return simulate(instance, plans[best]) if times[best] < found.makespan else found


def balanced(instance: Instance, trials_per_stage: int = TRIALS_PER_STAGE) -> Schedule:
    """The best schedule of equal chunks that the rules find, without the comparison with the usual policies."""
    tables, num_dimensions = tables_of(instance), len(instance.network.dimensions)
    num_stages = int((tables.chunks * tables.legs * tables.width).sum())
    trials = min(trials_per_stage * num_stages, MOST_WORK // num_stages)
    num_candidates = min(2 * len(WEIGHTS), max(1, MOST_WORK // (RULES * num_stages)))
    state = empty_state(tables, num_dimensions, num_candidates + 1, RULES)
    release = np.repeat(tables.threshold[:, None], num_dimensions, axis=1).astype(np.float64)
    tails = np.stack([release + least_lags(tables, num_dimensions), release])
    run(tables, empty_pool(tables, num_dimensions), state, tails, trials, num_candidates)
    return simulate(instance, plan_of(instance, tables, state))


def with_free_sizes(instance: Instance) -> Schedule:
    """Few chunks whose sizes are free, or the equal chunks of the instance, as they are dealt out, if these are better.

    The few are as many as the linear programme can do with in time; fewer still are tried where stages hold their
    dimension for some time whatever they send.  The instance of the schedule allows no more chunks than it has.
    """
    most = max(FEWEST_FREE_CHUNKS, FREE_CHUNKS // len(instance.collectives))
    counts = (most, most // 2, most // 4) if _is_dear(instance) else (most,)
    largest = max(c.chunks for c in instance.collectives)
    different = dict.fromkeys(min(count, largest) for count in counts)
    found = [schedule for count in different if (schedule := _of_few_chunks(instance, count))]
    if not found:
        return balanced(instance)
    if found[0].instance.collectives != instance.collectives:
        found.append(balanced(instance, trials_per_stage=0))
    return min(found, key=lambda schedule: schedule.makespan)


def _is_dear(instance: Instance) -> bool:
    """Whether every stage costs a dimension some time."""
    phases, dimensions = np.array(Phase), np.arange(len(instance.network.dimensions))
    return bool(fixed_occupancy(instance, phases[:, None], dimensions).any())


def _of_few_chunks(instance: Instance, count: int) -> Schedule | None:
    """At most so many chunks of each collective, of free sizes; None if these are too many for one programme."""
    from themis_opt.sizing import resized  # loads a solver, which equal chunks do not need

    few = tuple(c.replace(chunks=min(c.chunks, count)) for c in instance.collectives)
    if sum(c.chunks for c in few) > LARGEST_PROGRAMME:
        return None
    return resized(balanced(instance.replace(collectives=few)))
