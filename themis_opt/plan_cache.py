"""The plan cache: a network that was solved once answers at once for other message sizes and chunk counts.

A plan depends on absolute sizes only through latencies and overheads: one that was found for 100 MB is near the best
for 1 GB, and legal for every size.  Nothing in the cache is trusted: an entry that cannot be read, belongs to another
network or does not fit is passed over, and what is recalled was simulated and validated on the instance at hand.
Logs tell at level debug what was passed over.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from platformdirs import user_cache_path
from pydantic import ValidationError

from themis_opt.errors import ThemisError
from themis_opt.instance import Instance
from themis_opt.plan_adaptation import adapted, num_stages
from themis_opt.plan_entry import Entry, Sizes, entry_of
from themis_opt.plan_files import entry_path, nearest_entries, read_entry, write_entry
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import resized
from themis_opt.validation import validate

MAX_ENTRIES = 16
"""Entries of one key that are tried."""

MAX_STAGES = 50_000
"""Stages of all plans that one recall simulates twice, about half a second; larger plans are not kept."""

RULE = "scf_largest"
"""Dispatch rule that is tried in the place of the sequences: where latencies weigh otherwise these wait in vain."""

RESIZED_ENTRIES, RESIZED_CHUNKS = 3, 100
"""Best entries whose free sizes are optimised for the instance, and chunks up to which that takes milliseconds."""

log = logging.getLogger(__name__)


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
    """Plans in files; instances share them as :func:`themis_opt.plan_entry.plan_key` says.

    Parameters
    ----------
    folder : Path, optional
        Where the files are, by default in the user's cache folder.  Where nothing can be written, nothing is kept.
    """

    folder: Path | None = None

    @property
    def root(self) -> Path:
        """The folder in use."""
        return self.folder or user_cache_path("themis_opt", appauthor=False) / "plans"

    def recall(self, instance: Instance, sizes: Sizes) -> Recalled | None:
        """The best schedule that the plans found for this network give, whatever size they were found for.

        Parameters
        ----------
        instance : Instance
            What to schedule.
        sizes : {"equal", "free"}
            The kind of sizes that the schedule must have.

        Returns
        -------
        Recalled or None
            None if no entry fits.
        """
        found = sorted(self._retimed(instance, sizes), key=_rank)
        if sizes == "free":
            found[:RESIZED_ENTRIES] = map(_resized, found[:RESIZED_ENTRIES])
        return min(found, key=_rank, default=None)

    def keep(self, schedule: Schedule, sizes: Sizes, gap: float, seconds: float) -> None:
        """Write an entry, unless a better one is there or it cannot be written.

        Parameters
        ----------
        schedule : Schedule
            What was found.
        sizes : {"equal", "free"}
            The kind of sizes that were searched.
        gap : float
            Makespan over the best bound minus 1.
        seconds : float
            What the search took.
        """
        if schedule.plan.num_stages > MAX_STAGES:
            log.debug("not kept: %d stages", schedule.plan.num_stages)
            return
        try:
            entry = entry_of(schedule, sizes, gap, seconds)
        except ValidationError as error:
            log.debug("not kept: %s", error)
            return
        path = entry_path(self.root, schedule.instance, sizes)
        if _is_better(entry, read_entry(path, entry.key), schedule.instance):
            write_entry(path, entry)

    def _retimed(self, instance: Instance, sizes: Sizes) -> Iterator[Recalled]:
        """Every entry that fits, nearest first, as long as they are not too many or too large."""
        left = MAX_STAGES
        for entry in nearest_entries(self.root, instance, MAX_ENTRIES):
            if num_stages(entry, instance, sizes) <= left:
                found = _retimed(entry, instance, sizes)
                if found is not None:
                    left -= found.schedule.plan.num_stages
                    yield found


def _retimed(entry: Entry, instance: Instance, sizes: Sizes) -> Recalled | None:
    """The paths of an entry on an instance, with its sequences or a rule; None if they do not fit."""
    try:
        plan = adapted(entry, instance, sizes)
        followed, ruled = (simulate(instance, p) for p in (plan, replace(plan, dispatch=RULE, sequences=())))
        schedule = min(followed, ruled, key=lambda s: s.makespan)
        validate(schedule)
    except ThemisError as error:
        log.debug("passed over an entry of %s: %s", entry.key, error)
        return None
    exact = entry.fingerprint == instance.fingerprint and entry.found_as == sizes
    return Recalled(schedule, entry.gap, entry.seconds, exact)


def _resized(found: Recalled) -> Recalled:
    """The same with the best sizes, where that takes milliseconds."""
    if sum(len(c.sizes) for c in found.schedule.plan.chunks) > RESIZED_CHUNKS:
        return found
    try:
        better = resized(found.schedule)
        validate(better)
    except ThemisError as error:
        log.debug("not resized: %s", error)
        return found
    return replace(found, schedule=better)


def _rank(found: Recalled) -> tuple[int, bool, float]:
    """Sort key: the least makespan; of equal ones that which was searched on the very instance, and the longest."""
    return found.schedule.makespan, not found.exact, -found.seconds


def _is_better(entry: Entry, rival: Entry | None, instance: Instance) -> bool:
    """Whether an entry for `instance` deserves the place of a rival that may be there.

    Gaps of one instance may be against different bounds: there makespans decide, and between equal ones the gap and
    the longer search.  A rival that does not fit the instance is damaged.
    """
    new = _retimed(entry, instance, entry.found_as)
    old = _retimed(rival, instance, entry.found_as) if rival else None
    if new is None or old is None:
        return new is not None
    if old.exact:
        return (new.schedule.makespan, new.gap, -new.seconds) < (old.schedule.makespan, old.gap, -old.seconds)
    return new.gap < old.gap
