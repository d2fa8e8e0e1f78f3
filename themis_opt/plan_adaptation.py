"""Adaptation: a plan found for one instance as a plan of another that differs in sizes and chunk counts alone.

Paths and sequences stay.  Chunks become several where there may be more of them and they must be equal; where sizes
are free they are scaled.
"""

from collections.abc import Callable

import numpy as np

from themis_opt.cost import IntArray
from themis_opt.errors import InvalidSchedule
from themis_opt.instance import Instance
from themis_opt.plan import Plan
from themis_opt.plan_entry import Entry, Sizes
from themis_opt.refinement import even_counts, refined
from themis_opt.schedule import Schedule
from themis_opt.sizing import granule, rounded, with_sizes
from themis_opt.validation import ag_order, sequence, shape, stages

_TIMELESS: tuple[Callable[[Schedule], str | None], ...] = (shape, stages, ag_order, sequence)
"""Rules of validation that say something about a plan before it is timed."""


def adapted(entry: Entry, instance: Instance, sizes: Sizes) -> Plan:
    """The plan of an entry with chunks of the asked kind of sizes.

    Parameters
    ----------
    entry : Entry
        With the key of `instance`.
    instance : Instance
        Where the plan shall run.
    sizes : {"equal", "free"}
        Equal sizes are those that the instance states; free ones are multiples of
        :func:`themis_opt.sizing.granule`, and chunks that get nothing are dropped.

    Raises
    ------
    InvalidSchedule
        If the plan does not fit, or has more chunks than the instance allows.
    """
    untimed = _untimed(entry.plan, instance)
    if sizes == "free":
        return _scaled(entry.plan, instance)
    if untimed.has_equal_sizes:
        return entry.plan
    if entry.found_as == "equal":
        return refined(entry.plan, instance, even_counts(untimed, instance))
    return refined(entry.plan, instance, _shares(entry.plan, instance))


def num_stages(entry: Entry, instance: Instance, sizes: Sizes) -> int:
    """Stages that the adapted plan has at most."""
    pairs = zip(entry.collectives, instance.collectives, strict=False)
    return sum(len(own.paths[0]) * (c.chunks if sizes == "equal" else len(own.sizes)) for own, c in pairs)


def _untimed(plan: Plan, instance: Instance) -> Schedule:
    """The plan as a schedule in which nothing takes time, once it is known to fit the instance."""
    untimed = Schedule(instance, plan, *np.zeros((3, plan.num_stages), dtype=np.int64))
    if len(plan.sequences) != len(instance.network.dimensions):
        raise InvalidSchedule("sequence", f"{len(plan.sequences)} sequences")
    for rule in _TIMELESS:
        broken = rule(untimed)
        if broken is not None:
            raise InvalidSchedule(rule.__name__, broken)
    for own, collective in zip(plan.chunks, instance.collectives, strict=True):
        if len(own.sizes) > collective.chunks:
            raise InvalidSchedule("sizes", f"{len(own.sizes)} chunks, the instance allows {collective.chunks}")
    return untimed


def _shares(plan: Plan, instance: Instance) -> list[IntArray]:
    """Equal chunks in the place of each chunk, in proportion to its size."""
    pairs = zip(plan.chunks, instance.collectives, strict=True)
    return [rounded(own.sizes.astype(np.float64), collective.chunks, 1) for own, collective in pairs]


def _scaled(plan: Plan, instance: Instance) -> Plan:
    sizes = [
        rounded(own.sizes.astype(np.float64), collective.size, granule(instance, number))
        for number, (own, collective) in enumerate(zip(plan.chunks, instance.collectives, strict=True))
    ]
    return with_sizes(plan, sizes)
