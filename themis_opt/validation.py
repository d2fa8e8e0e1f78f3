"""Validation: whether a schedule obeys the model, from its times and the rules alone.

Nothing here comes from the simulator; only the cost model, which defines how long a stage takes, is shared.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from themis_opt.cost import PHASES, IntArray
from themis_opt.errors import InvalidSchedule
from themis_opt.instance import CollectiveKind
from themis_opt.schedule import Schedule

BoolArray = NDArray[np.bool_]

Rule = Callable[[Schedule], str | None]
"""What is wrong with a schedule, or None."""


def validate(schedule: Schedule) -> None:
    """Check every rule.

    Raises
    ------
    InvalidSchedule
        For the first broken rule, in the order of :data:`RULES`.
    """
    for name, rule in RULES.items():
        broken = rule(schedule)
        if broken is not None:
            raise InvalidSchedule(name, broken)


def shape(schedule: Schedule) -> str | None:
    """One group of chunks per collective, one path per chunk, one time per stage."""
    instance, plan = schedule.instance, schedule.plan
    if len(plan.chunks) != len(instance.collectives):
        return f"{len(plan.chunks)} groups of chunks for {len(instance.collectives)} collectives"
    for label, chunks in zip(instance.labels, plan.chunks, strict=True):
        if chunks.sizes.ndim != 1 or chunks.paths.ndim != 2 or len(chunks.sizes) != len(chunks.paths):
            return f"{label} has {len(chunks.sizes)} chunk sizes for {len(chunks.paths)} paths"
    for name in ("start", "end", "ready"):
        times = getattr(schedule, name)
        if times.shape != (plan.num_stages,):
            return f"{len(times)} {name} times for {plan.num_stages} stages"
    return None


def stages(schedule: Schedule) -> str | None:
    """Every chunk visits each dimension of its collective exactly once in each phase."""
    instance = schedule.instance
    for collective, label, span, chunks in zip(
        instance.collectives, instance.labels, instance.spans, schedule.plan.chunks, strict=True
    ):
        num_phases = len(PHASES[collective.kind])
        if chunks.paths.shape[1] != num_phases * len(span):
            return f"chunks of {label} have {chunks.paths.shape[1]} stages, must have {num_phases * len(span)}"
        for leg in np.split(chunks.paths, num_phases, axis=1):
            wrong = np.flatnonzero((np.sort(leg, axis=1) != np.array(span)).any(axis=1))
            if len(wrong):
                return f"chunk {wrong[0]} of {label} visits dimensions {leg[wrong[0]].tolist()}, must visit {span}"
    return None


def ag_order(schedule: Schedule) -> str | None:
    """Where the instance asks for it, an all-reduce chunk gathers in the reverse of its scatter order."""
    instance = schedule.instance
    if instance.ag_order == "free":
        return None
    for collective, label, chunks in zip(instance.collectives, instance.labels, schedule.plan.chunks, strict=True):
        if collective.kind is CollectiveKind.ALL_REDUCE:
            wrong = np.flatnonzero((chunks.paths != chunks.paths[:, ::-1]).any(axis=1))
            if len(wrong):
                return f"chunk {wrong[0]} of {label} does not gather in the reverse of its scatter order"
    return None


def sizes(schedule: Schedule) -> str | None:
    """Chunks are not too many, hold whole elements, at least one, and together all bytes of their collective."""
    instance = schedule.instance
    for collective, label, chunks in zip(instance.collectives, instance.labels, schedule.plan.chunks, strict=True):
        wrong = np.flatnonzero(
            (chunks.sizes <= 0) | (chunks.sizes > collective.size) | (chunks.sizes % collective.element_bytes != 0)
        )
        if len(wrong):
            size = chunks.sizes[wrong[0]]
            rule = f"must be a multiple of {collective.element_bytes}, more than 0 and at most {collective.size}"
            return f"chunk {wrong[0]} of {label} has {size} bytes, {rule}"
        if len(chunks.sizes) > collective.chunks:
            return f"{label} is cut in {len(chunks.sizes)} chunks, the instance allows {collective.chunks}"
        if chunks.sizes.sum() != collective.size:
            return f"chunks of {label} have {chunks.sizes.sum()} bytes together, the collective {collective.size}"
    return None


def duration(schedule: Schedule) -> str | None:
    """A stage holds its dimension for the time its bytes take."""
    held, needed = schedule.end - schedule.start, schedule.costs.occupancy
    return _first_wrong(schedule, held != needed, "holds its dimension for {} ps, must be {}", held, needed)


def lag(schedule: Schedule) -> str | None:
    """The result of a stage is ready one lag after it gives the dimension back."""
    waited, needed = schedule.ready - schedule.end, schedule.costs.lag
    return _first_wrong(schedule, waited != needed, "has its result after {} ps, must be {}", waited, needed)


def release(schedule: Schedule) -> str | None:
    """No stage starts before its collective is released."""
    start, released = schedule.start, schedule.plan.releases(schedule.instance)
    return _first_wrong(schedule, start < released, "starts at {} ps, is released at {}", start, released)


def precedence(schedule: Schedule) -> str | None:
    """A chunk starts a stage only when the stage before it on the path has its result."""
    plan, start = schedule.plan, schedule.start
    continues = np.ones(plan.num_stages, dtype=np.bool_)
    for first, chunks in zip(plan.offsets, plan.chunks, strict=False):
        continues[first : first + chunks.paths.size : chunks.paths.shape[1]] = False
    available = np.concatenate([[0], schedule.ready[:-1]])
    wrong = continues & (start < available)
    return _first_wrong(schedule, wrong, "starts at {} ps, its data are ready at {}", start, available)


def no_overlap(schedule: Schedule) -> str | None:
    """A dimension serves one stage at a time."""
    for k in range(len(schedule.instance.network.dimensions)):
        order = schedule.sequence(k)
        early = np.flatnonzero(schedule.start[order[1:]] < schedule.end[order[:-1]])
        if len(early):
            one, other = order[early[0]], order[early[0] + 1]
            label = schedule.plan.label
            return f"{label(schedule.instance, other)} starts before {label(schedule.instance, one)} ends"
    return None


def sequence(schedule: Schedule) -> str | None:
    """Where the plan enforces a sequence, the dimension serves its stages in that order."""
    for k, enforced in enumerate(schedule.plan.sequences):
        if enforced is None:
            continue
        name = schedule.instance.network.dimension_names[k]
        if not np.array_equal(np.sort(enforced), np.flatnonzero(schedule.plan.stage_dimensions == k)):
            return f"the sequence of {name} does not list each of its stages once"
        if (np.diff(schedule.start[enforced]) < 0).any():
            return f"{name} does not serve its stages in the enforced sequence"
    return None


def _first_wrong(schedule: Schedule, wrong: BoolArray, what: str, found: IntArray, required: IntArray) -> str | None:
    """The first wrong stage, with what was found there and what the rule requires."""
    if not wrong.any():
        return None
    stage = int(np.flatnonzero(wrong)[0])
    return f"{schedule.plan.label(schedule.instance, stage)} {what.format(found[stage], required[stage])}"


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "shape": shape,
        "stages": stages,
        "ag_order": ag_order,
        "sizes": sizes,
        "duration": duration,
        "lag": lag,
        "release": release,
        "precedence": precedence,
        "no_overlap": no_overlap,
        "sequence": sequence,
    }
)
"""The rules by name, in the order they are checked: later ones rely on earlier ones."""
