"""The plan cache: a problem that was solved once answers at once for other message sizes and chunk counts.

A plan depends on absolute sizes only through latencies and overheads: a plan for 100 MB is near the best
for 1 GB, and legal for every size.  Paths, launches and sequences stay.  Chunks become several where there may be more
of them and they must be equal; where sizes are free, and with compute they always are, they are scaled.

Nothing in the cache is trusted: a file that cannot be read, belongs to another problem or does not fit is passed
over, and every schedule that is recalled was simulated and validated on the instance at hand.  Logs at level debug name
the files that were passed over.
"""

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from platformdirs import user_cache_path
from pydantic import ValidationError

from themis_opt.base.documents import digest, write_to_cache
from themis_opt.base.errors import InputError, InvalidSchedule, ThemisError
from themis_opt.policies.launching.common import fused_name
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import NO_SHIFTS, Plan, has_launches
from themis_opt.schedules.refinement import even_counts, refined
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import Summary, read_solution, schedule_document
from themis_opt.schedules.simulator import FEWEST_ITERATIONS, simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import even_plan, resized, scaled

CachedSizes = Literal["equal", "free"]
"""Whether chunks are equal, or of any sizes and at most as many as the instance says."""

_NAME = re.compile(r"(?P<sizes>equal|free)\.(?P<chunks>[1-9][0-9]{0,9})\.[0-9a-f]{8}\.(?P<size_class>[0-9]{1,2})\.json")

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CachedPlan:
    """A plan in a file: its schedule on the instance searched, the kind of sizes, and how long the search took."""

    schedule: Schedule
    sizes: CachedSizes
    seconds: float

    @classmethod
    def of(cls, schedule: Schedule, sizes: CachedSizes, seconds: float) -> Self:
        """A schedule with the plan that repeats it."""
        return cls(replace(schedule, plan=_repeatable(schedule)), sizes, seconds)


@dataclass(frozen=True, eq=False)
class Recalled:
    """A schedule from the cache, simulated and validated on the instance asked for.

    `seconds`, `exact`: how long the search took, and whether it was for this very instance and kind of sizes.
    """

    schedule: Schedule
    seconds: float
    exact: bool


@dataclass(frozen=True)
class PlanCache:
    """Plans in files; instances share them as :func:`plan_key` says.

    `folder`: where the files are, by default in the user's cache folder.  Where nothing can be written, nothing is
      kept.
    `max_entries`: plans of one key that are tried at most, for time.
    `max_stages`: stages of all plans that one recall simulates twice, about half a second; larger plans are not kept.
    `rule`: dispatch rule that is tried in the place of the sequences: where latencies weigh otherwise these wait in
      vain.
    `resized_entries`, `resized_chunks`: best plans whose free sizes are optimised for the instance, and chunks up to
      which that takes milliseconds.
    """

    folder: Path | None = None
    max_entries: int = 16
    max_stages: int = 50_000
    rule: str = "scf_largest"
    resized_entries: int = 3
    resized_chunks: int = 100

    @property
    def root(self) -> Path:
        """The folder in use."""
        return self.folder or user_cache_path("themis_opt", appauthor=False) / "plans"

    def recall(self, instance: Instance, sizes: CachedSizes) -> Recalled | None:
        """The best schedule that the plans of problems like this give, whatever size they were made for, if one fits.

        `sizes`: the kind of sizes that the schedule must have; with compute they are free.
        """
        sizes = _searched(instance, sizes)
        candidates = sorted(self._fitting(instance, sizes), key=_rank)
        if sizes == "free":
            best = self.resized_entries
            candidates[:best] = map(self._resized, candidates[:best])
        return min(candidates, key=_rank, default=None)

    def keep(self, schedule: Schedule, sizes: CachedSizes, seconds: float) -> None:
        """Write the plan of a search of so many seconds, unless a better one is there or it cannot be written.

        `sizes`: the kind of sizes that were searched; with compute they are free.
        """
        instance, sizes = schedule.instance, _searched(schedule.instance, sizes)
        if _num_simulated(instance, schedule.plan.num_stages) > self.max_stages:
            log.debug("not kept: %d stages", schedule.plan.num_stages)
            return
        path, new = plan_path(self.root, instance, sizes), CachedPlan.of(schedule, sizes, seconds)
        old = read_plan(path, plan_key(instance))
        recalled, rival = (self._retimed(one, instance, sizes) if one else None for one in (new, old))
        if recalled and (rival is None or _rank(recalled) < _rank(rival)):
            write_plan(path, new)

    def _fitting(self, instance: Instance, sizes: CachedSizes) -> Iterator[Recalled]:
        """Every plan that fits, nearest first, as long as they are not too many or too large."""
        left = self.max_stages
        for cached in nearest_plans(self.root, instance, self.max_entries):
            if _num_simulated(instance, _most_stages(cached, instance, sizes)) <= left:
                recalled = self._retimed(cached, instance, sizes)
                if recalled is not None:
                    left -= len(recalled.schedule.start)
                    yield recalled

    def _retimed(self, cached: CachedPlan, instance: Instance, sizes: CachedSizes) -> Recalled | None:
        """The paths and launches of a plan on an instance, in its order or by a rule; None if they do not fit."""
        try:
            plan = _adapted(cached, instance, sizes)
            ruled = replace(plan, dispatch=self.rule, sequences=(), keys=None, shifts=NO_SHIFTS)
            schedule = min((simulate(instance, p) for p in (plan, ruled)), key=lambda s: s.makespan)
            validate(schedule)
        except ThemisError as error:
            log.debug("passed over a plan: %s", error)
            return None
        exact = cached.schedule.instance.fingerprint == instance.fingerprint and cached.sizes == sizes
        return Recalled(schedule, cached.seconds, exact)

    def _resized(self, recalled: Recalled) -> Recalled:
        """The same with the best sizes, where that takes milliseconds."""
        if sum(len(chunks.sizes) for chunks in recalled.schedule.plan.chunks) > self.resized_chunks:
            return recalled
        try:
            better = resized(recalled.schedule)
            validate(better)
        except ThemisError as error:
            log.debug("not resized: %s", error)
            return recalled
        return replace(recalled, schedule=better)


def _searched(instance: Instance, sizes: CachedSizes) -> CachedSizes:
    """The kind of sizes that the reference searches where some are asked for."""
    return "free" if has_launches(instance) else sizes


def _rank(recalled: Recalled) -> tuple[int, bool, float]:
    """Sort key: the least makespan; of equal ones the plan of the very instance, then of the longest search."""
    return recalled.schedule.makespan, not recalled.exact, -recalled.seconds


def _num_simulated(instance: Instance, num_stages: int) -> int:
    """Stages that a simulation of a plan of so many takes at least."""
    return num_stages * (FEWEST_ITERATIONS if has_launches(instance) else 1)


def _most_stages(cached: CachedPlan, instance: Instance, sizes: CachedSizes) -> int:
    """Stages that the adapted plan has at most."""
    if sizes == "free":
        return cached.schedule.plan.num_stages
    pairs = zip(cached.schedule.plan.chunks, instance.exchanges, strict=True)
    return sum(chunks.paths.shape[1] * exchange.chunks for chunks, exchange in pairs)


def _adapted(cached: CachedPlan, instance: Instance, sizes: CachedSizes) -> Plan:
    """The plan of a file, which is legal for its instance, with chunks of the asked kind of sizes.

    Equal sizes are those that the instance states; free ones are multiples of :func:`themis_opt.solving.sizing.granule`
    unless they need no scaling, and chunks that get nothing are dropped. Raises InvalidSchedule if it has more chunks
    than the instance allows.
    """
    plan = _renamed(cached.schedule.plan, instance)
    for chunks, exchange in zip(plan.chunks, plan.launched(instance), strict=True):
        if len(chunks.sizes) > exchange.chunks:
            raise InvalidSchedule("sizes", f"{len(chunks.sizes)} chunks, the instance allows {exchange.chunks}")
    if sizes == "free":
        return scaled(plan, instance)
    adapted = replace(cached.schedule, instance=instance, plan=plan)  # only its sizes are looked at
    if adapted.has_equal_sizes:
        return plan
    if cached.sizes == "equal":
        return refined(plan, instance, even_counts(adapted, instance))
    return even_plan(instance, plan)


def _renamed(plan: Plan, instance: Instance) -> Plan:
    """The plan with launches named after the tensors of an instance."""
    launches = (replace(one, name=fused_name(instance, one.tensors, one.part)) for one in plan.launches)
    return replace(plan, launches=tuple(launches))


def plan_key(instance: Instance) -> str:
    """Hash of everything that decides which plans fit, but not of names, chunk counts, absolute sizes and durations.

    With compute it is also of who waits for whom, and of the share that each task has of the compute: a plan for some
    tensors and tasks is near the best where all of them are larger.
    """
    unit = math.gcd(*(exchange.size for exchange in instance.exchanges))
    collectives = [(e.kind, e.span, e.size // unit, e.element_bytes, e.release) for e in instance.exchanges]
    content: list[Any] = [instance.fabric.identity, collectives, instance.latency, instance.ag_order]
    if has_launches(instance):
        waits = [(e.ready_task, e.needed_task, e.needed_later, e.after) for e in instance.exchanges]
        # Six digits, which the rounding of durations to picoseconds does not change.
        shares = [round(task.duration / max(instance.compute, 1), 6) for task in instance.tasks]
        content += [instance.links, waits, shares]
        content += [instance.chains, instance.waits] if instance.num_stages > 1 else []
    return digest(content, 64)


def plan_path(root: Path, instance: Instance, sizes: CachedSizes) -> Path:
    """Where the plan of an instance belongs.

    The name is like ``equal.64.0f3c9a11.27.json``: kind of sizes, all chunks, hash of the chunk counts and of log2 of
    the compute, log2 of all bytes, both to the nearest whole number.
    """
    counts = [exchange.chunks for exchange in instance.exchanges]
    classes = [*counts, round(math.log2(max(instance.compute, 1)))] if has_launches(instance) else counts
    return root / plan_key(instance) / f"{sizes}.{sum(counts)}.{digest(classes, 8)}.{_size_class(instance)}.json"


def nearest_plans(root: Path, instance: Instance, most: int) -> Iterator[CachedPlan]:
    """At most so many plans of the key of an instance, nearest chunk count first, then nearest size.

    The names of files only order them and rule out those of more equal chunks than `instance` has.
    """
    key = plan_key(instance)
    try:
        names = [path.name for path in (root / key).iterdir()]
    except OSError as error:
        log.debug("no plans: %s", error)
        return
    near = sorted((distance, name) for name in names if (distance := _distance(name, instance)) is not None)
    for _, name in near[:most]:
        plan = read_plan(root / key / name, key)
        if plan is not None:
            yield plan


def read_plan(path: Path, key: str) -> CachedPlan | None:
    """The plan in a file, or None where there is none that is legal on its instance and belongs to `key`."""
    try:
        schedule, summary = read_solution(path)
        sizes, seconds = summary.settings.get("sizes"), summary.settings.get("seconds")
        if sizes not in ("equal", "free") or not isinstance(seconds, int | float):
            raise InputError("must say sizes and seconds", field="summary.settings")
        if plan_key(schedule.instance) != key:
            raise InputError("belongs to another network")
        validate(schedule)
    except ThemisError as error:
        log.debug("passed over %s: %s", path, error)
        return None
    return CachedPlan(schedule, "equal" if sizes == "equal" else "free", seconds)


def write_plan(path: Path, plan: CachedPlan) -> None:
    """Write a plan so that readers see the old or the new file; nothing happens where that cannot be done."""
    try:
        summary = Summary(settings={"sizes": plan.sizes, "seconds": plan.seconds})
        write_to_cache(path, json.dumps(schedule_document(plan.schedule, summary)))
    except (InputError, ValidationError) as error:
        log.debug("not kept: %s", error)


def _repeatable(schedule: Schedule) -> Plan:
    """The plan itself where there is compute and it enforces all or nothing, else with all sequences enforced."""
    plan = schedule.plan
    if schedule.has_period:
        return plan if all(sequence is not None for sequence in plan.sequences) else schedule.enforced_plan()
    return replace(schedule.enforced_plan(), order="ready", keys=None)


def _size_class(instance: Instance) -> int:
    return round(math.log2(sum(exchange.size for exchange in instance.exchanges)))


def _distance(name: str, instance: Instance) -> tuple[float, int] | None:
    matched = _NAME.fullmatch(name)
    if not matched:
        return None
    asked, chunks = sum(exchange.chunks for exchange in instance.exchanges), int(matched["chunks"])
    if matched["sizes"] == "equal" and chunks > asked:
        return None
    return abs(math.log2(chunks / asked)), abs(int(matched["size_class"]) - _size_class(instance))
