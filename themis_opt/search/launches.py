"""Steps of a search for training iterations: what is fused, which launch goes first, and how chunks are cut."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile
from typing import ClassVar, NamedTuple

from themis_opt.base.allowance import SLACK, Allowance
from themis_opt.base.errors import CyclicPlan, InvalidSchedule
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.common import Bucket, may_fuse, of_runs, runs
from themis_opt.policies.launching.prefetch import as_early_as_fits, budgets, temporary
from themis_opt.policies.planning import (
    LaunchingPolicy,
    PlanningOnce,
    fastest,
    in_few_chunks,
    plan_launches,
    plans_of_launches,
)
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, Order, TaskOf
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.incumbent import Incumbent
from themis_opt.solving.lowering import chunk_overhead
from themis_opt.solving.sizing import resized

SIMULATED_PER_SECOND = 40_000  # stages that a core simulates in a second, roughly; it fuses as many tensors
PLANNING = 10  # planning a stage takes so many times as long as simulating it
MAX_SIZED = 1_500  # tasks and stages in two periods of which a linear programme chooses the sizes in a second or two
FEW_TENSORS = 6  # up to which all ways to fuse them are tried: 203
LEAN = tuple(f"{name}:ahead=0/baseline" for name in ("fsdp2", "one_stream", "fused"))
"""What holds less, where memory is short: each gather leaves when it is needed; the last two hold least."""

LAUNCHED_AT_FIRST = ("blocks/baseline", "priority/baseline", "fused/hourglass")
"""From which a search of launches starts: the first is the best where parameters are sharded, the second elsewhere."""

# Tensors that are fused; together all fusible ones, those of one kind and span in the order they become ready
Buckets = tuple[Bucket, ...]


def launched_schedule(instance: Instance, allowance: Allowance, given: Schedule | None = None) -> Schedule:
    """The best in memory of a given schedule, or some policies, and of tensors alone; the leanest if none fits.

    If time is up, the given schedule or the first policy counts alone.
    """
    schedules = [given or simulate(instance, make_policy(LAUNCHED_AT_FIRST[0])(instance))]
    more = _more_launched(instance, () if given else LAUNCHED_AT_FIRST[1:])
    while allowance.left > -SLACK and (schedule := next(more, None)):
        schedules.append(schedule)
        allowance.charge(PLANNING * schedule.plan.num_stages / SIMULATED_PER_SECOND)
    fitting = [schedule for schedule in schedules if schedule.fits]
    return min(fitting, key=lambda schedule: schedule.makespan) if fitting else leanest_schedule(instance)


def _more_launched(instance: Instance, policies: Iterable[str]) -> Iterator[Schedule]:
    """Schedules of policies, and of tensors alone in more and more chunks."""
    for name in policies:
        yield simulate(instance, make_policy(name)(instance))
    for count in chunk_counts(instance)[::-1]:
        each = alone(instance, count)
        yield simulate(instance, plan_launches(instance, each.launches, each.order, Baseline(), each.chunks))


def leanest_schedule(instance: Instance) -> Schedule:
    """The fastest schedule of the policies that hold little, if one fits into memory; else the one that holds least."""
    schedules = [simulate(instance, make_policy(name)(instance)) for name in LEAN]
    return min(schedules, key=lambda one: (0, one.makespan) if one.fits else (1, one.memory_peak))


@dataclass(frozen=True)
class Launches:
    """Keep the fastest of evenly cut buckets and the launches of all policies, and change buckets while that pays."""

    engine: ClassVar[str] = ""

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether there are launches to choose."""
        return incumbent.best.has_period

    def run(self, incumbent: Incumbent) -> None:
        """Try candidates, and then neighbours of those with buckets, the fastest first, while that pays."""
        trials = Trials(incumbent)
        with incumbent.turn():
            starts = trials.judge_each(candidates(incumbent.instance))
        for start in starts:
            trials.improve(start)


@dataclass(frozen=True)
class LaunchSizes:
    """A linear programme on the sizes of chunks, from the fastest schedule, and again while that pays."""

    engine: ClassVar[str] = ""

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether iterations repeat each other, and have few tasks and stages."""
        num_intervals = len(incumbent.instance.tasks) + 2 * incumbent.best.plan.num_stages
        return incumbent.best.period.is_steady and num_intervals <= MAX_SIZED

    def run(self, incumbent: Incumbent) -> None:
        """Cut chunks anew."""
        while not incumbent.done and incumbent.offer(resized(incumbent.best)):
            continue


class Candidate(NamedTuple):
    """Launches and their order.

    `chunks` are the most of each launch.  `buckets` is None where launches are not whole buckets; `budget` is what an
    NPU may hold for gathers to be launched as early as that allows, `in_order` of their use or not.
    """

    launches: tuple[Launch, ...]
    order: Order
    chunks: tuple[int, ...]
    buckets: Buckets | None = None
    budget: int = 0
    in_order: bool = True

    @property
    def content(self) -> object:
        """When what is launched, and in which order where there is one."""
        timing = tuple((e.kind, e.tensors, e.after, e.before, e.after_launches, e.urgent) for e in self.launches)
        return self.order if len(self.launches) > 1 else "", timing, self.chunks


class TriedCandidate(NamedTuple):
    """A candidate with buckets, and its iteration time in picoseconds."""

    makespan: int
    candidate: Candidate


class Trials:
    """Candidates that are planned, with the chunks of hourglass, and simulated, each once."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent, self.instance = incumbent, incumbent.instance
        self._starts: list[TriedCandidate] = []
        self._chunks = PlanningOnce(make_policy("hourglass"))
        self._planned: set[object] = set()
        self._tried: set[object] = set()

    def judge_each(self, candidates: Iterable[Candidate]) -> list[TriedCandidate]:
        """Judge candidates while there is time; those with buckets, the fastest first."""
        for candidate in takewhile(lambda _: not self.incumbent.done, candidates):
            self.judge(candidate)
        return sorted(self._starts, key=lambda start: start.makespan)

    def judge(self, candidate: Candidate) -> int | None:
        """Offer the schedule of a candidate, and return its iteration time; None if it is none, or takes too long."""
        self.incumbent.allowance.charge(len(self.instance.exchanges) / SIMULATED_PER_SECOND)
        launched = in_few_chunks(self.instance, candidate.launches, candidate.chunks)
        seconds = self._seconds_for(launched)
        if candidate.content in self._tried or seconds > self.incumbent.left:
            return None
        self._tried.add(candidate.content)
        self._planned.update(map(content, launched))
        schedule = self.simulated(candidate)
        if schedule is None:
            return None
        self.incumbent.offer(schedule)
        if candidate.buckets is not None:
            self._starts.append(TriedCandidate(schedule.makespan, candidate))
        return schedule.makespan

    def _seconds_for(self, launched: Sequence[Exchange]) -> float:
        """How long it takes to plan and simulate launches, roughly; equal ones are planned once."""
        stages = {content(exchange): num_stages(exchange) for exchange in launched}
        planned = sum(count for kind, count in stages.items() if kind not in self._planned)
        return (PLANNING * planned + sum(map(num_stages, launched))) / SIMULATED_PER_SECOND

    def simulated(self, candidate: Candidate) -> Schedule | None:
        """The schedule of a candidate; None if it is illegal, as launches of others may be, or does not fit."""
        try:
            launches, order, chunks = candidate.launches, candidate.order, candidate.chunks
            plans = plans_of_launches(self.instance, launches, order, self._chunks, chunks)
            schedule = fastest(self.instance, plans)
            if schedule.makespan < self.incumbent.best.makespan:
                validate(schedule)
        except (CyclicPlan, InvalidSchedule):
            return None
        return schedule if schedule.fits else None

    def improve(self, best: TriedCandidate) -> None:
        """Go on from a candidate to the first of its neighbours that is faster, while there is one.

        The next ones are looked at from there on: what was changed in vain before mostly stays so.
        """
        first = 0
        while not self.incumbent.done:
            changed = takewhile(lambda _: not self.incumbent.done, neighbours(self.instance, best.candidate, first))
            judged = ((place, self.judge(candidate), candidate) for place, candidate in changed)
            faster = (
                (place, TriedCandidate(time, candidate))
                for place, time, candidate in judged
                if time is not None and time < best.makespan
            )
            first, better = next(faster, (first, None))
            if better is None:
                return
            best = better


def num_stages(exchange: Exchange) -> int:
    """Stages of an exchange in as many chunks as it may have."""
    return len(exchange.kind.rule.phases) * len(exchange.span) * exchange.chunks


def content(exchange: Exchange) -> object:
    """What the chunks of a launch depend on."""
    return exchange.kind, exchange.size, exchange.chunks, exchange.span


def candidates(instance: Instance) -> Iterator[Candidate]:
    """More and more evenly cut buckets, which take longer and longer, and the launches of all policies.

    Where gathers may leave at different times, those that fit in memory come first, in fewer and fewer chunks, and then
    policies, since searches for large models end early.  Then the smallest buckets have less and less memory, and
    buckets are fewer and fewer.  Where each chunk costs something, evenly cut buckets have fewer and fewer of them.
    """
    policies = [LAUNCHING.load(name)() for name in LAUNCHING]
    by_policies = (of_policy(instance, policy) for policy in policies)
    most = max((len(tensors) for tensors in runs(instance)), default=0)
    powers, amounts = range(most.bit_length()), list(budgets(instance))
    if amounts[0]:
        yield from (alone(instance, count) for count in chunk_counts(instance))
        yield from by_policies
        yield alone(instance, instance.chunks, in_order=False)
        yield from (alone(instance, instance.chunks, amount) for amount in amounts[1:])
        powers = powers[::-1]
    yield from (
        with_buckets(instance, even_buckets(instance, 2**power), amounts[0], count)
        for count in chunk_counts(instance)
        for power in powers
    )
    yield from by_policies


def all_buckets(instance: Instance) -> Iterator[Candidate]:
    """All ways to fuse tensors of the same run, if the tensors are few; otherwise none."""
    if sum(map(len, runs(instance))) > FEW_TENSORS:
        return
    for count, ways in product(chunk_counts(instance), product(*map(partitions, runs(instance)))):
        buckets = tuple(bucket for way in ways for bucket in way)
        if all(may_fuse(instance, bucket) for bucket in buckets):
            yield with_buckets(instance, buckets, next(budgets(instance)), count)


def partitions(tensors: Bucket) -> Iterator[Buckets]:
    """All ways to put tensors into buckets, whose order stays."""
    if not tensors:
        yield ()
        return
    for buckets in partitions(tensors[:-1]):
        yield (*buckets, tensors[-1:])
        yield from ((*buckets[:n], (*bucket, tensors[-1]), *buckets[n + 1 :]) for n, bucket in enumerate(buckets))


def alone(instance: Instance, chunks: int, budget: int | None = None, *, in_order: bool = True) -> Candidate:
    """Each tensor alone in so many chunks at most, gathers as early as a budget allows, or all of the memory."""
    each = tuple((tensor,) for run in runs(instance) for tensor in run)
    return with_buckets(instance, each, budget or next(budgets(instance)), chunks, in_order=in_order)


def of_policy(instance: Instance, policy: LaunchingPolicy) -> Candidate:
    """The launches of a policy, in as many chunks as the instance allows."""
    launches = policy(instance)
    return Candidate(launches, policy.order, (instance.chunks,) * len(launches))


@lru_cache(maxsize=16)
def chunk_counts(instance: Instance) -> tuple[int, ...]:
    """The most chunks of a launch that are tried: all, and where each costs something half of them, and so on."""
    halvings = instance.chunks.bit_length() if chunk_overhead(instance) else 1
    return tuple(instance.chunks >> power for power in range(halvings))


def with_buckets(
    instance: Instance, buckets: Buckets, budget: int, chunks: int | tuple[int, ...], *, in_order: bool = True
) -> Candidate:
    """One launch per bucket, released by the last of its tensors; the one that is needed first is served first.

    Gathers that are given up after their use leave as early as the budget of memory allows.  Launches that others wait
    for are urgent.  `chunks`: the most of all launches, or of each.
    """
    launches = as_early_as_fits(instance, of_runs(instance, buckets), budget, in_order=in_order)
    awaited = {source for launch in launches for source in launch.after_launches}
    launches = tuple(replace(e, urgent=e.urgent or number in awaited) for number, e in enumerate(launches))
    counts = (chunks,) * len(launches) if isinstance(chunks, int) else chunks
    return Candidate(launches, "layer", counts, buckets, budget, in_order)


def even_buckets(instance: Instance, count: int) -> Buckets:
    """Tensors of each kind and span in at most `count` buckets, which hold about equally many bytes."""
    buckets: dict[tuple[int, int], list[int]] = {}
    for group, tensors in enumerate(runs(instance)):
        before, total = 0, sum(instance.exchanges[tensor].size for tensor in tensors)
        for tensor in tensors:
            size = instance.exchanges[tensor].size
            buckets.setdefault((group, (2 * before + size) * count // (2 * total)), []).append(tensor)
            before += size
    return tuple(part for bucket in buckets.values() for part in legal_parts(instance, tuple(bucket)))


def legal_parts(instance: Instance, bucket: Bucket) -> Buckets:
    """A bucket, halved until no tensor is needed before another one is ready."""
    if len(bucket) == 1 or may_fuse(instance, bucket):
        return (bucket,)
    half = len(bucket) // 2
    return legal_parts(instance, bucket[:half]) + legal_parts(instance, bucket[half:])


def neighbours(instance: Instance, candidate: Candidate, first: int = 0) -> Iterator[tuple[int, Candidate]]:
    """Candidates with one change, each with the number of the place that is changed, from the place `first` on.

    Place 0 is the whole.  Then come buckets, gathers that may leave earlier or later, and chunks of launches.
    """
    changes: list[Iterator[Candidate]] = [
        changes_of_all(instance, candidate),
        *(changes_of_bucket(instance, candidate, place) for place in range(len(candidate.buckets or ()))),
        *(changes_of_time(instance, candidate, number) for number in temporary(instance, candidate.launches)),
        *(changes_of_count(instance, candidate, number) for number in range(len(candidate.launches))),
    ]
    for place in (number % len(changes) for number in range(first, first + len(changes))):
        yield from ((place, other) for other in changes[place])


def changes_of_all(instance: Instance, candidate: Candidate) -> Iterator[Candidate]:
    """With twice or half as many chunks, gathers in order of their use or not, with more or less memory for them."""
    buckets, chunks, in_order = candidate.buckets or (), candidate.chunks, candidate.in_order
    for counts in zip(*(near_counts(instance, count) for count in chunks), strict=True):
        yield candidate._replace(chunks=counts)
    yield with_buckets(instance, buckets, candidate.budget, chunks, in_order=not in_order)
    for budget in budgets(instance, near=candidate.budget):
        yield with_buckets(instance, buckets, budget, chunks, in_order=in_order)


def near_counts(instance: Instance, count: int) -> tuple[int, int]:
    """Twice and half as many chunks, if that is possible."""
    counts = chunk_counts(instance)
    place = counts.index(count)
    return counts[max(place - 1, 0)], counts[min(place + 1, len(counts) - 1)]


def changes_of_bucket(instance: Instance, candidate: Candidate, place: int) -> Iterator[Candidate]:
    """With two neighbouring buckets merged, one tensor shifted, or one bucket halved; buckets stay parts of runs."""
    buckets, chunks = candidate.buckets or (), candidate.chunks
    number = place + len(chunks) - len(buckets)
    bucket, following = buckets[place], buckets[place + 1 : place + 2]
    run = next(tensors for tensors in runs(instance) if bucket[0] in tensors)
    joined = bool(following) and following[0][0] in run
    for parts in _changes(bucket, following[0] if joined else ()):
        changed = (*buckets[:place], *parts, *buckets[place + 1 + joined :])
        counts = (chunks[number],) * (len(parts) - joined) + chunks[number + 1 : number + 1 + joined]
        counts = (*chunks[:number], *counts[: len(parts)], *chunks[number + 1 + joined :])
        if all(may_fuse(instance, part) for part in parts):
            yield with_buckets(instance, changed, candidate.budget, counts, in_order=candidate.in_order)


def changes_of_count(instance: Instance, candidate: Candidate, number: int) -> Iterator[Candidate]:
    """With twice or half as many chunks of one launch."""
    for count in near_counts(instance, candidate.chunks[number]):
        yield candidate._replace(chunks=(*candidate.chunks[:number], count, *candidate.chunks[number + 1 :]))


def changes_of_time(instance: Instance, candidate: Candidate, number: int) -> Iterator[Candidate]:
    """With one gather earlier or later."""
    for after in moved(instance, candidate.launches[number]):
        launches = list(candidate.launches)
        launches[number] = replace(launches[number], after=after)
        yield candidate._replace(launches=tuple(launches))


def moved(instance: Instance, launch: Launch) -> Iterator[TaskOf]:
    """The tasks after which a gather may leave instead, next to the one now: later and earlier by some time."""
    tasks, exchanges = instance.tasks, [instance.exchanges[tensor] for tensor in launch.tensors]
    if launch.after is None or launch.before is None:
        return
    now = launch.after.task + launch.after.later * len(tasks)
    need = launch.before.task + launch.before.later * len(tasks)
    for moments in (range(now + 1, need), range(now - 1, max(e.ready_task for e in exchanges) - 1, -1)):
        for moment in moments:
            if any(tasks[task % len(tasks)].duration for task in range(min(now, moment) + 1, max(now, moment) + 1)):
                later, task = divmod(moment, len(tasks))
                yield TaskOf(task, later)
                break


def _changes(bucket: tuple[int, ...], following: tuple[int, ...]) -> Iterator[Buckets]:
    """What may stand for a bucket and the one that follows it, if there is one of its kind and span."""
    rest = (following,) if following else ()
    if len(bucket) > 1:
        half = len(bucket) // 2
        yield (bucket[:half], bucket[half:], *rest)
    if following:
        yield (bucket + following,)
    if following and len(bucket) > 1:
        yield (bucket[:-1], (bucket[-1], *following))
    if len(following) > 1:
        yield ((*bucket, following[0]), following[1:])
