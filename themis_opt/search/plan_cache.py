"""The plan cache: a problem that was solved once answers at once for other message sizes and chunk counts.

A plan depends on absolute sizes only through latencies and overheads: one that was found for 100 MB is near the best
for 1 GB, and legal for every size.  Paths, launches and sequences stay.  Chunks become several where there may be more
of them and they must be equal; where sizes are free, and with compute they always are, they are scaled.

Nothing in the cache is trusted: an entry that cannot be read, belongs to another problem or does not fit is passed
over, and what is recalled was simulated and validated on the instance at hand.  Logs tell at level debug what was
passed over.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path
from pydantic import ValidationError

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InvalidSchedule, ThemisError
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import NO_SHIFTS, Plan, has_launches
from themis_opt.schedules.refinement import even_counts, refined
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import FEWEST, simulate
from themis_opt.schedules.validation import ag_order, coverage, mirrored_halves, sequence, shape, stages, validate
from themis_opt.search.plan_entry import (
    Entry,
    Sizes,
    entry_of,
    entry_path,
    nearest_entries,
    read_entry,
    write_entry,
)
from themis_opt.solving.sizing import even_plan, granule, resized, rounded, with_sizes

log = logging.getLogger(__name__)

_TIMELESS: tuple[Callable[[Schedule], str | None], ...] = (
    shape,
    coverage,
    stages,
    ag_order,
    mirrored_halves,
    sequence,
)
"""Rules of validation that say something about a plan before it is timed."""


@dataclass(frozen=True)
class CacheParams:
    """What a recall may take.

    Attributes
    ----------
    max_entries : int
        Entries of one key that are tried at most, for time.
    max_stages : int
        Stages of all plans that one recall simulates twice, about half a second; larger plans are not kept.
    rule : str
        Dispatch rule that is tried in the place of the sequences: where latencies weigh otherwise these wait in vain.
    resized_entries, resized_chunks : int
        Best entries whose free sizes are optimised for the instance, and chunks up to which that takes milliseconds.
    """

    max_entries: int = 16
    max_stages: int = 50_000
    rule: str = "scf_largest"
    resized_entries: int = 3
    resized_chunks: int = 100


@dataclass(frozen=True, eq=False)
class Recalled:
    """A schedule from the cache.

    Attributes
    ----------
    schedule : Schedule
        Simulated and validated on the instance asked for.
    gap : float
        Makespan over the best bound minus 1, where and when the plan was found; not for the instance asked for.
    seconds : float
        What the search that found the plan took.
    exact : bool
        Whether it searched this very instance for this kind of sizes.
    """

    schedule: Schedule
    gap: float
    seconds: float
    exact: bool


@dataclass(frozen=True)
class PlanCache:
    """Plans in files; instances share them as :func:`themis_opt.search.plan_entry.plan_key` says.

    Parameters
    ----------
    folder : Path, optional
        Where the files are, by default in the user's cache folder.  Where nothing can be written, nothing is kept.
    params : CacheParams
        What a recall may take.
    """

    folder: Path | None = None
    params: CacheParams = field(default_factory=CacheParams)

    @property
    def root(self) -> Path:
        """The folder in use."""
        return self.folder or user_cache_path("themis_opt", appauthor=False) / "plans"

    def recall(self, instance: Instance, sizes: Sizes) -> Recalled | None:
        """The best schedule that the plans found for problems like this give, whatever size they were found for.

        Parameters
        ----------
        instance : Instance
            What to schedule.
        sizes : {"equal", "free"}
            The kind of sizes that the schedule must have; with compute they are free.

        Returns
        -------
        Recalled or None
            None if no entry fits.
        """
        sizes = _searched(instance, sizes)
        found = sorted(self._fitting(instance, sizes), key=_rank)
        if sizes == "free":
            best = self.params.resized_entries
            found[:best] = map(self._resized, found[:best])
        return min(found, key=_rank, default=None)

    def keep(self, schedule: Schedule, sizes: Sizes, gap: float, seconds: float) -> None:
        """Write an entry, unless a better one is there or it cannot be written.

        Parameters
        ----------
        schedule : Schedule
            What was found.
        sizes : {"equal", "free"}
            The kind of sizes that were searched; with compute they are free.
        gap : float
            Makespan over the best bound minus 1.
        seconds : float
            What the search took.
        """
        instance, sizes = schedule.instance, _searched(schedule.instance, sizes)
        if _num_simulated(instance, schedule.plan.num_stages) > self.params.max_stages:
            log.debug("not kept: %d stages", schedule.plan.num_stages)
            return
        try:
            entry = entry_of(schedule, sizes, gap, seconds)
        except ValidationError as error:
            log.debug("not kept: %s", error)
            return
        path = entry_path(self.root, instance, sizes)
        if self._is_better(entry, read_entry(path, entry.key), instance):
            write_entry(path, entry)

    def _fitting(self, instance: Instance, sizes: Sizes) -> Iterator[Recalled]:
        """Every entry that fits, nearest first, as long as they are not too many or too large."""
        left = self.params.max_stages
        for entry in nearest_entries(self.root, instance, self.params.max_entries):
            if _num_simulated(instance, _most_stages(entry, instance, sizes)) <= left:
                found = self._retimed(entry, instance, sizes)
                if found is not None:
                    left -= len(found.schedule.start)
                    yield found

    def _retimed(self, entry: Entry, instance: Instance, sizes: Sizes) -> Recalled | None:
        """The paths and launches of an entry on an instance, in its order or by a rule; None if they do not fit."""
        try:
            plan = _adapted(entry, instance, sizes)
            ruled = replace(plan, dispatch=self.params.rule, sequences=(), keys=None, shifts=NO_SHIFTS)
            schedule = min((simulate(instance, p) for p in (plan, ruled)), key=lambda s: s.makespan)
            validate(schedule)
        except ThemisError as error:
            log.debug("passed over an entry of %s: %s", entry.key, error)
            return None
        exact = entry.fingerprint == instance.fingerprint and entry.found_as == sizes
        return Recalled(schedule, entry.gap, entry.seconds, exact)

    def _resized(self, found: Recalled) -> Recalled:
        """The same with the best sizes, where that takes milliseconds."""
        if sum(len(c.sizes) for c in found.schedule.plan.chunks) > self.params.resized_chunks:
            return found
        try:
            better = resized(found.schedule)
            validate(better)
        except ThemisError as error:
            log.debug("not resized: %s", error)
            return found
        return replace(found, schedule=better)

    def _is_better(self, entry: Entry, rival: Entry | None, instance: Instance) -> bool:
        """Whether an entry for `instance` deserves the place of a rival that may be there.

        Gaps of one instance may be against different bounds: there makespans decide, and between equal ones the gap
        and the longer search.  A rival that does not fit the instance is damaged.
        """
        new = self._retimed(entry, instance, entry.found_as)
        old = self._retimed(rival, instance, entry.found_as) if rival else None
        if new is None or old is None:
            return new is not None
        if old.exact:
            return (new.schedule.makespan, new.gap, -new.seconds) < (old.schedule.makespan, old.gap, -old.seconds)
        return new.gap < old.gap


def _searched(instance: Instance, sizes: Sizes) -> Sizes:
    """The kind of sizes that the reference searches where some are asked for."""
    return "free" if has_launches(instance) else sizes


def _rank(found: Recalled) -> tuple[int, bool, float]:
    """Sort key: the least makespan; of equal ones that which was searched on the very instance, and the longest."""
    return found.schedule.makespan, not found.exact, -found.seconds


def _num_simulated(instance: Instance, num_stages: int) -> int:
    """Stages that a simulation of a plan of so many takes at least."""
    return num_stages * (FEWEST if has_launches(instance) else 1)


def _most_stages(entry: Entry, instance: Instance, sizes: Sizes) -> int:
    """Stages that the adapted plan has at most."""
    if sizes == "free":
        return sum(len(own.paths[0]) * len(own.sizes) for own in entry.collectives)
    pairs = zip(entry.collectives, instance.exchanges, strict=False)
    return sum(len(own.paths[0]) * c.chunks for own, c in pairs)


def _adapted(entry: Entry, instance: Instance, sizes: Sizes) -> Plan:
    """The plan of an entry with chunks of the asked kind of sizes.

    Equal sizes are those that the instance states; free ones are multiples of
    :func:`themis_opt.solving.sizing.granule` unless they need no scaling, and chunks that get nothing are dropped.

    Raises
    ------
    InvalidSchedule
        If the plan does not fit, or has more chunks than the instance allows.
    """
    plan = entry.plan_for(instance)
    untimed = _untimed(plan, instance)
    if sizes == "free":
        return scaled(plan, instance)
    if untimed.has_equal_sizes:
        return plan
    if entry.found_as == "equal":
        return refined(plan, instance, even_counts(untimed, instance))
    return even_plan(instance, plan)


def _untimed(plan: Plan, instance: Instance) -> Schedule:
    """The plan as a schedule in which nothing takes time, once it is known to fit the instance."""
    rows = 2 if has_launches(instance) else 1
    times = np.zeros(rows * plan.num_stages, dtype=np.int64)
    tasks = np.zeros((rows, len(instance.tasks)), dtype=np.int64)
    untimed = Schedule(instance, plan, times, times, times, tasks)
    for rule in _TIMELESS:
        broken = rule(untimed)
        if broken is not None:
            raise InvalidSchedule(rule.__name__, broken)
    hasty = _hasty_launch(plan, instance)
    if hasty is not None:
        raise InvalidSchedule("release", f"{hasty} does not wait for its data, or nothing waits for it")
    for own, exchange in zip(plan.chunks, untimed.launched, strict=True):
        if len(own.sizes) > exchange.chunks:
            raise InvalidSchedule("sizes", f"{len(own.sizes)} chunks, the instance allows {exchange.chunks}")
    return untimed


def _hasty_launch(plan: Plan, instance: Instance) -> str | None:
    """A launch of a plan with compute that is in time only by luck, which would leave a search that starts from it."""
    tasks, exchanges = len(instance.tasks), instance.exchanges
    scatters = {launch.tensors: number for number, launch in enumerate(plan.launches) if launch.part == "scatter"}
    carrier = {t: n for n, launch in enumerate(plan.launches) if launch.part != "scatter" for t in launch.tensors}
    for number, launch in enumerate(plan.launches):
        after, before = (of.task + tasks * of.later if of else -1 for of in (launch.after, launch.before))
        late = after >= max(exchanges[tensor].ready_task for tensor in launch.tensors)
        needed = min(
            exchanges[tensor].needed_task + tasks * exchanges[tensor].needed_later for tensor in launch.tensors
        )
        awaited = launch.part == "scatter" or before <= needed
        waits_for = _waits_for(plan, number)
        gathers = launch.part != "gather" or scatters.get(launch.tensors) in waits_for
        chained = {carrier[source] for tensor in launch.tensors for source in exchanges[tensor].after} <= waits_for
        if not (late and awaited and gathers and chained):
            return launch.name
    return None


def _waits_for(plan: Plan, launch: int) -> set[int]:
    """Launches of the same iteration whose results a launch waits for, directly or not."""
    found, left = set[int](), [launch]
    while left:
        new = set(plan.launches[left.pop()].after_launches) - found
        found |= new
        left += new
    return found


def scaled(plan: Plan, instance: Instance) -> Plan:
    """The plan with every launch as large as in the instance; those that are so already stay as they are."""
    pairs = zip(plan.chunks, plan.launched(instance), strict=True)
    return with_sizes(plan, [_scaled_sizes(own.sizes, exchange, instance) for own, exchange in pairs])


def _scaled_sizes(sizes: IntArray, exchange: Exchange, instance: Instance) -> IntArray:
    if sizes.sum() == exchange.size and (sizes % exchange.element_bytes == 0).all():
        return sizes
    return rounded(sizes.astype(np.float64), exchange.size, granule(instance, exchange))
