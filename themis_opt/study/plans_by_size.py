"""One plan for each range of message sizes, for runtimes that choose among plans by the size of a message.

What is best for a megabyte has too many chunks for a kilobyte.  So policies run for every size and several chunk
counts; the best plan of each size, and the plan at hand, are timed for all sizes, and as few of them as possible serve
the sizes.  A plan keeps its paths, its order and the shares of its chunks whatever the size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_size, parse_size
from themis_opt.formats.exports import SizedExporter
from themis_opt.formats.size_ranges import SIZE_TOLERANCE, SizeRange, fewest_ranges
from themis_opt.policies.registry import make_policy, specify, usual_policies
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import scaled

GIVEN = "as given"  # name of the plan at hand, in the place of a policy


@dataclass(frozen=True)
class PlanBySize:
    """A plan and the messages that it serves.

    `min_bytes`, `max_bytes`: size of the smallest and of the largest message.
    `policy`: what made the plan.
    `schedule`: the plan at the largest of the sizes it was timed for, simulated and validated.
    `excess`: by how much of the time of the fastest plan it is slower, at the worst of these sizes.
    """

    min_bytes: int
    max_bytes: int
    policy: str
    schedule: Schedule
    excess: float

    @property
    def num_chunks(self) -> int:
        """Chunks of the plan."""
        return len(self.schedule.plan.chunks[0].sizes)


class _Candidate(NamedTuple):
    """A plan with every sequence enforced, and what a message must divide by to be served by it, in bytes."""

    policy: str
    plan: Plan
    multiple: int


def plans_by_size(
    schedule: Schedule,
    sizes: Sequence[Any],
    exporter: SizedExporter,
    *,
    chunks: Sequence[int] = (),
    policies: Sequence[str] = (),
    tolerance: float = SIZE_TOLERANCE,
) -> list[PlanBySize]:
    """Choose as few plans as keep every size within a tolerance of its best.

    Raises InputError if there is compute or not one collective, or a size that no plan serves.

    `schedule`: of one collective; its plan is one of those to choose from.
    `sizes`: message sizes, with units or in bytes.
    `exporter`: what will write the plans: it says what a message must divide by to be served.
    `chunks`: chunk counts to choose from; a few down from that of the instance by default.
    `policies`: specifications to choose from; the usual ones by default.
    `tolerance`: by how much of the time of the best plan another may be slower.
    Returns plans with ranges that follow each other from the smallest to the largest size.
    """
    instance = schedule.instance
    if schedule.has_period or len(instance.exchanges) != 1:
        raise InputError("ranges of sizes are for one collective without compute", field="--sizes", value=instance.name)
    ordered = sorted({parse_size(size) for size in sizes})
    counts = sorted(set(chunks)) or _fewer(instance.exchanges[0].chunks)
    pairs = list(product([specify(policy, instance) for policy in policies or usual_policies(instance)], counts))
    given = _candidate(GIVEN, schedule, exporter)
    best = [_best(instance.overridden(size=size), pairs, exporter, given) for size in ordered]
    candidates = [plan for number, plan in enumerate(best) if plan not in best[:number]]
    timed = [[_timed(instance.overridden(size=size), candidate) for candidate in candidates] for size in ordered]
    times = np.array([[np.inf if made is None else made.makespan for made in row] for row in timed], dtype=np.float64)
    return [_chosen(chosen, ordered, candidates, timed, times) for chosen in fewest_ranges(times, tolerance)]


def _fewer(chunks: int) -> list[int]:
    """Chunk counts up to a given one."""
    counts = []
    while chunks:
        counts.append(chunks)
        chunks //= 4
    return counts if counts[-1] == 1 else [*counts, 1]


def _candidate(policy: str, schedule: Schedule, exporter: SizedExporter) -> _Candidate:
    return _Candidate(policy, schedule.enforced_plan(), exporter.multiple(schedule))


def _best(
    instance: Instance, pairs: Sequence[tuple[str, int]], exporter: SizedExporter, given: _Candidate
) -> _Candidate:
    """The fastest plan at the size of the instance that serves it and that the exporter can express.

    Raises InputError if there is none.
    """
    made = [(given, _timed(instance, given))]
    for policy, count in pairs:
        cut = instance.overridden(chunks=count)
        schedule = simulate(cut, make_policy(policy)(cut))
        made.append((_candidate(policy, schedule, exporter), schedule))
    size = instance.exchanges[0].size
    serving = [(candidate, timed) for candidate, timed in made if timed is not None and size % candidate.multiple == 0]
    if not serving:
        least = min(candidate.multiple for candidate, _ in made)
        raise InputError(f"no plan serves it: must be a multiple of {least:,} bytes", field="--sizes", value=size)
    refusal = InputError("cannot be expressed", field="--to")
    for candidate, timed in sorted(serving, key=lambda pair: pair[1].makespan):
        try:
            next(iter(exporter.files(timed)))
        except InputError as error:
            refusal = error
        else:
            return candidate
    raise refusal


def _timed(instance: Instance, candidate: _Candidate) -> Schedule | None:
    """The plan at the size of an instance; None if it does not serve that."""
    (exchange,) = instance.exchanges
    if exchange.size % candidate.multiple:
        return None
    enough = instance.overridden(chunks=max(exchange.chunks, len(candidate.plan.chunks[0].sizes)))
    return simulate(enough, scaled(candidate.plan, enough))


def _chosen(
    size_range: SizeRange,
    sizes: Sequence[int],
    candidates: Sequence[_Candidate],
    timed: Sequence[Sequence[Schedule | None]],
    times: FloatArray,
) -> PlanBySize:
    """The plan of a range: as it is at the largest of its sizes, where the shares of chunks are least rounded."""
    schedule = timed[size_range.last][size_range.choice]
    if schedule is None:
        raise ValueError("a range holds a size that its plan does not serve")
    low, high = size_range.bytes(sizes)
    instance = schedule.instance
    end = sizes[min(size_range.last + 1, len(sizes) - 1)]
    text = f"{format_size(low)}-{format_size(end)}".replace(" ", "")
    named = simulate(instance.replace(name=f"{text}.{instance.name}".rstrip(".")), schedule.plan)
    validate(named)
    rows = times[size_range.first : size_range.last + 1]
    excess = float((rows[:, size_range.choice] / rows.min(axis=1)).max()) - 1
    return PlanBySize(low, high, candidates[size_range.choice].policy, named, excess)
