"""Allowances of chunks one inside the next, so that more chunks allowed are never worse.

A search that counts work looks at the allowances of :data:`COUNTS` in turn, up to that of the instance.  By when each
has to end does not depend on the largest, and each begins with what was found for the one before; so a search for more
chunks does all that a search for fewer does, in the same way, and goes on.  A search for few chunks leaves the work of
the others unused.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.local_search import NEAR, is_dear
from themis_opt.search.starts import MOST_CHOSEN, starting_schedule, unlimited_schedule
from themis_opt.solving.lowering import chunk_overhead

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
"""Allowances that are looked at: an instance that allows a number in between has the schedule of the one below."""

WEIGHT_OF_FEW = 0.25
"""Work for an allowance of clearly fewer chunks than hourglass chooses, where others have 1: few chunks need little."""

MAX_STAGES = 20_000
"""Stages of as many chunks as are ever good, above which nothing is divided: hourglass would take seconds for them."""

Search = Callable[[Schedule, int, float], Schedule]
"""Improves a schedule of an allowance of so many chunks per collective, until a share of all work is done."""


def shares_by_count(instance: Instance) -> dict[int, float]:
    """The share of all work at which each allowance ends; none where chunks are not dear.

    The last allowance is about twice as many chunks as hourglass chooses if it may choose any number, and ends at 1.
    """
    if chunk_overhead(instance) == 0 or count_stages(instance.at_most(1)) * MOST_CHOSEN > MAX_STAGES:
        return {}
    suitable = unlimited_schedule(instance)
    if not is_dear(suitable):
        return {}
    few = max(len(own.sizes) for own in suitable.plan.chunks)
    counts = [count for count in COUNTS if count <= NEAR[1] * few]
    ends = list(accumulate(1.0 if count >= NEAR[0] * few else WEIGHT_OF_FEW for count in counts))
    most = _most_chunks(instance)
    return {count: end / ends[-1] for count, end in zip(counts, ends, strict=True) if count <= most}


def growing(instance: Instance, shares: Mapping[int, float], search: Search) -> Iterator[Schedule]:
    """The best schedules with one allowance after the other, as those of the instance."""
    best: Schedule | None = None
    for count, share in shares.items():
        few = instance.at_most(count)
        start = starting_schedule(few, free_sizes=True)
        if best is not None:
            start = min(start, _adopted(best, few), key=lambda schedule: schedule.makespan)
        best = search(start, count, share)
        yield _adopted(best, instance)


def start_of_all_counts(instance: Instance) -> Schedule:
    """The best of the starts with each number of chunks that is allowed, so that more allowed are never worse."""
    counts = [count for count in COUNTS if count <= _most_chunks(instance)]
    starts = (starting_schedule(instance.at_most(count), free_sizes=True) for count in counts)
    return _adopted(min(starts, key=lambda schedule: schedule.makespan), instance)


def _adopted(schedule: Schedule, instance: Instance) -> Schedule:
    """A schedule as one of an instance that allows more chunks."""
    return simulate(instance, schedule.enforced_plan())


def _most_chunks(instance: Instance) -> int:
    return max(own.chunks for own in instance.exchanges)
