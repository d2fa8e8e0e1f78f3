"""The plan cache: an instance that was solved once answers at once.

Nothing in the cache is trusted: a file that cannot be read, or belongs to another instance, is passed over, and every
schedule that is recalled was simulated and validated on the instance at hand.  Logs at level debug name the files that
were passed over.
"""

import json
import logging
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path

from themis_opt.base.documents import write_to_cache
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.policies.launching.common import fused_name
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import Summary, read_solution, schedule_document
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

CachedSizes = Literal["equal", "free"]
"""Whether chunks are equal, or of any sizes and at most as many as the instance says."""

MOST_STORED_STAGES = 50_000
"""Stages of a plan that is kept: larger ones take seconds to read."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Recalled:
    """A schedule from the cache, simulated and validated, and how long the search for it took."""

    schedule: Schedule
    seconds: float


@dataclass(frozen=True)
class PlanCache:
    """Plans in files, one for each instance and kind of sizes.

    `folder`: where the files are, by default in the user's cache folder.  Where nothing can be written, nothing is
      kept.
    """

    folder: Path | None = None

    @property
    def root(self) -> Path:
        """The folder in use."""
        return self.folder or user_cache_path("themis_opt", appauthor=False) / "plans"

    def recall(self, instance: Instance, sizes: CachedSizes) -> Recalled | None:
        """The schedule that is kept for an instance; of an iteration its sizes are free whatever is asked for."""
        path = self._path(instance, sizes)
        try:
            kept, summary = read_solution(path)
            seconds = summary.settings.get("seconds")
            if not isinstance(seconds, int | float) or kept.instance.fingerprint != instance.fingerprint:
                raise InputError("belongs to another instance, or does not say how long its search took")
            names = [fused_name(instance, one.tensors, one.part) for one in kept.plan.launches]
            launches = (replace(one, name=name) for one, name in zip(kept.plan.launches, names, strict=True))
            schedule = simulate(instance, replace(kept.plan, launches=tuple(launches)))
            validate(schedule)
            if sizes == "equal" and not (has_launches(instance) or schedule.has_equal_sizes):
                raise InputError("has chunks of other sizes")
        except ThemisError as error:
            log.debug("passed over %s: %s", path, error)
            return None
        return Recalled(schedule, seconds)

    def keep(self, schedule: Schedule, sizes: CachedSizes, seconds: float) -> None:
        """Write the plan of a search of so many seconds, unless a better one is there or it cannot be written."""
        if schedule.plan.num_stages > MOST_STORED_STAGES or not isfinite(seconds):
            log.debug("not kept: %d stages, %s s", schedule.plan.num_stages, seconds)
            return
        old = self.recall(schedule.instance, sizes)
        if old and (old.schedule.makespan, -old.seconds) <= (schedule.makespan, -seconds):
            return
        try:
            repeatable = replace(schedule, plan=_repeatable(schedule))
            validate(repeatable)
            document = schedule_document(repeatable, Summary(settings={"sizes": sizes, "seconds": seconds}))
            write_to_cache(self._path(schedule.instance, sizes), json.dumps(document))
        except ThemisError as error:
            log.debug("not kept: %s", error)

    def _path(self, instance: Instance, sizes: CachedSizes) -> Path:
        return self.root / f"{instance.fingerprint}.{'free' if has_launches(instance) else sizes}.json"


def _repeatable(schedule: Schedule) -> Plan:
    """The plan itself where there is compute and it enforces all or nothing, else with all sequences enforced."""
    plan = schedule.plan
    if schedule.has_period:
        return plan if all(sequence is not None for sequence in plan.sequences) else schedule.enforced_plan()
    return replace(schedule.enforced_plan(), order="ready", keys=None)
