"""The plan of a training step: the fastest launches under a limit of memory, in the words of PyTorch."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import format_percent, format_short_size, format_short_time, nanoseconds
from themis_opt.policies.launching.common import fused_name, of_runs
from themis_opt.policies.launching.prefetch import activations, as_early_as_fits, budgets, moment_of, size_of
from themis_opt.policies.planning import Combined, PlanningOnce, Policy, fastest, plan_launches, plans_of_launches
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import count_stages
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import TaskOf
from themis_opt.schedules.validation import validate
from themis_opt.search.launches import SIMULATED_PER_SECOND, leanest_schedule
from themis_opt.solving.bounds import bounds
from themis_opt.study.comparison import compare

if TYPE_CHECKING:
    from themis_opt.problem.exchanges import Exchange
    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.plan import Launch, Plan
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.study.comparison import ComparisonProgress

PLAN_FORMAT = "themis-opt/plan/1"
MEBIBYTE = 2**20
PASSES = ("forward", "backward")
LEAST_WIN = 0.005  # of a step, below which nothing is to win: less than measured steps differ from each other


@dataclass(frozen=True)
class StepPlan:
    """The best launches that are known for a training step, beside those of today's practice.

    `today`: the launches of the trace or tool that the step is of, else the defaults of frameworks; None where they do
      not fit in memory.
    `bound`: picoseconds that a step takes at least, whatever is launched when.
    `interrupted`: whether Ctrl-C ended the search.
    """

    best: Schedule
    today: Schedule | None
    bound: float
    interrupted: bool = False

    @property
    def instance(self) -> Instance:
        """The training step."""
        return self.best.instance

    @property
    def launches(self) -> tuple[Launch, ...]:
        """What is launched, in the order in which it leaves in an iteration."""
        launches = self.best.plan.launches_of(self.instance)
        return tuple(sorted(launches, key=lambda launch: moment_of(self.instance, launch.after)))

    @property
    def gathers(self) -> list[Launch]:
        """Gathers that are given up after their use, in the order of their use."""
        instance = self.instance
        temporary = [e for e in self.launches if instance.exchanges[e.tensors[0]].freed_task >= 0]
        return sorted(temporary, key=lambda launch: moment_of(instance, launch.before))

    def distances(self) -> list[int]:
        """For every gather how many are used from when it leaves until its use."""
        tasks = len(self.instance.tasks)
        uses = [moment_of(self.instance, launch.before) for launch in self.gathers]
        round_and_round = [use - tasks for use in uses] + uses
        spans = [(moment_of(self.instance, launch.after), use) for launch, use in zip(self.gathers, uses, strict=True)]
        return [sum(after < other < use for other in round_and_round) for after, use in spans]

    def sentence(self) -> str:
        """What to do, and what it gains."""
        ahead = f"prefetch {_places(self.distances())} ahead in " if self.gathers else "use "
        buckets = f"{ahead}{_count(len(self.launches), 'bucket')}"
        time, bound = format_short_time(self.best.makespan), format_short_time(self.bound)
        if self.today is None:
            return f"{buckets}: {time} a step, where today's launches do not fit; at least {bound} with any plan"
        now, count = format_short_time(self.today.makespan), len(self.today.plan.launches_of(self.instance))
        gain = 1 - self.best.makespan / self.today.makespan
        if gain < LEAST_WIN:
            saved = f", of which other launches save {format_percent(gain)}" if gain > 0 else ""
            is_open = self.bound < self.today.makespan * (1 - LEAST_WIN)
            known = "nothing to win is known" if is_open else "nothing to win"
            return f"{known}, keep today's launches: {now} a step{saved}; at least {bound} with any plan"
        launches = f"{count} launch{'es' * (count != 1)}"
        return f"{buckets} instead of {launches}: {time} instead of {now} a step, at least {bound} with any plan"

    def document(self) -> dict[str, Any]:
        """The plan as JSON: what leaves when, and the settings of DDP and FSDP2 that come closest."""
        instance = self.instance
        names = [task.name for task in instance.tasks]
        launches = [
            {
                "name": launch.name,
                "kind": launch.kind.value,
                "tensors": [instance.exchanges[tensor].name for tensor in launch.tensors],
                "bytes": size_of(instance, launch),
                "after": names[launch.after.task] if launch.after else None,
                "before": names[launch.before.task] if launch.before else None,
                "needed_later": launch.before.later if launch.before else 0,
            }
            for launch in self.launches
        ]
        times = {"step_ns": self.best.makespan, "bound_ns": self.bound}
        if self.today is not None:
            times["today_ns"] = self.today.makespan
        return {
            "format": PLAN_FORMAT,
            "name": instance.name,
            "sentence": self.sentence(),
            **{name: nanoseconds(time) for name, time in times.items()},
            "memory": instance.memory,
            "peak_bytes": self.best.memory_peak,
            "launches": launches,
            "ddp": self.ddp(),
            "fsdp": self.fsdp(),
        }

    def ddp(self) -> dict[str, Any] | None:
        """Sizes of the buckets of ``DistributedDataParallel``, in MiB, in the order in which they are ready."""
        buckets = [launch for launch in self.launches if launch.kind is CollectiveKind.ALL_REDUCE]
        sizes = [size_of(self.instance, launch) / MEBIBYTE for launch in buckets if launch.part == "whole"]
        return {"bucket_cap_mb": max(sizes), "bucket_cap_mb_list": sizes} if sizes else None

    def fsdp(self) -> dict[str, Any] | None:
        """Groups for ``fully_shard``, which groups each one prefetches, and which stay whole until their backward pass.

        A group is what one gather of the forward pass brings: names of tensors without what stands after the last dot.
        A gather leaves with the group that is used last before it.  Those of the backward pass that leave before it
        begins are `early`: by the number of a group, those that leave once its forward pass ends.  Those of the forward
        pass that leave before it begins leave with its first group.
        """
        gathers, instance = self.gathers, self.instance
        forward = [launch for launch in gathers if launch.before and launch.before.later]
        if not forward:
            return None
        groups = [[_module(instance.exchanges[tensor]) for tensor in launch.tensors] for launch in forward]
        number = {module: place for place, group in enumerate(groups) for module in group}
        backward = [launch for launch in gathers if _module(instance.exchanges[launch.tensors[0]]) in number]
        backward = [launch for launch in backward if launch.before and not launch.before.later]
        users = {
            "forward": [(place, moment_of(instance, launch.before), launch) for place, launch in enumerate(forward)],
            "backward": [
                (number[_module(instance.exchanges[e.tensors[0]])], moment_of(instance, e.before), e) for e in backward
            ],
        }
        kept = sorted({*range(len(groups))} - {group for group, *_ in users["backward"]})
        begins = [need - len(instance.tasks) for _, need, _ in users["forward"]]
        early: dict[str, list[int]] = {}
        for group, _, launch in users["backward"]:
            place = bisect_right(begins, moment_of(instance, launch.after)) - 1
            if place >= group and moment_of(instance, launch.after) <= begins[-1]:
                early.setdefault(str(place), []).append(group)
        sooner = {group for numbers in early.values() for group in numbers}
        users["backward"] = [user for user in users["backward"] if user[0] not in sooner]
        lists = {name: _prefetched(instance, users[name]) for name in PASSES}
        return {"groups": groups, "kept": kept, **lists, "early": early}


def _prefetched(instance: Instance, users: list[tuple[int, int, Launch]]) -> dict[str, list[int]]:
    """By the number of a group, the groups that it prefetches when its pass reaches it."""
    lists: dict[str, list[int]] = {}
    for place, (group, _, launch) in enumerate(users[1:], start=1):
        begun = [other for other, need, _ in users[:place] if need <= moment_of(instance, launch.after) + 1]
        user = begun[-1] if begun else users[0][0]
        if group != user and group not in lists.setdefault(str(user), []):
            lists[str(user)].append(group)
    return lists


def plan_step(
    step: Instance, *, time_limit: float = 10.0, progress: ComparisonProgress | None = None, **limits: Any
) -> StepPlan:
    """Find the fastest launches of a training step under its limit of memory; gathers of a trace may move.

    Raises InputError if there is no step, or nothing fits.
    """
    if step.iteration is None:
        raise InputError("must hold a training iteration: 'workload' makes one, and traces hold one", field="SOURCE")
    instance = with_prefetch(step)
    today = _today(step, instance)
    clock = Allowance(time_limit, limits.get("deterministic", False))
    try:
        compared = compare(instance, [today, "exact"], time_limit=SEARCHED * time_limit, progress=progress, **limits)
    except InvalidSchedule as error:
        if error.rule != "memory":
            raise
        least = leanest_schedule(instance).memory_peak
        digits = 10 ** max(len(str(least)) - 4, 0)
        fits = f"{format_short_size(-(-least // digits) * digits)} are enough"  # rounded up: as much must be enough
        rule = f"no launches fit beside {_largest_parts(instance)}: {fits}, or make steps that keep less"
        raise InputError(rule, field="--memory", value=format_short_size(instance.memory or 0)) from None
    now = next((result.schedule for result in compared.results if result.policy != "exact"), None)
    clock.charge(SEARCHED * time_limit)
    best = compared.best.schedule if compared.interrupted else _leanest(compared.best.schedule, clock)
    return StepPlan(best, now, max(compared.bounds.values()), compared.interrupted)


def _today(step: Instance, instance: Instance) -> str | Policy:
    """How a step is launched now: as its source does, else as frameworks do; `instance` is it with moving gathers.

    A gather for the next iteration there leaves in the iteration that needs it.
    """
    policy = make_policy(step.iteration.launching) if step.iteration and step.iteration.launching else None
    if not isinstance(policy, Combined):
        return f"{'fsdp2' if any(e.freed_task >= 0 for e in instance.exchanges) else 'ddp'}/baseline+fifo"
    launches = []
    for launch in policy.launching(step):
        exchange = instance.exchanges[launch.tensors[0]]
        later = exchange.needed_later - step.exchanges[launch.tensors[0]].needed_later
        after, before = (task and TaskOf(task.task, task.later + later) for task in (launch.after, launch.before))
        name = fused_name(instance, launch.tensors, launch.part)
        launches.append(replace(launch, name=name, after=after, before=before))

    def as_launched(instance: Instance) -> Plan:
        return plan_launches(instance, launches, policy.launching.order, policy.chunk_policy)

    return as_launched


SEARCHED = 0.8  # share of the time for the fastest plan; the rest is for one that holds less
TOLERATED = 0.002
"""By how much longer a step may take that holds less: a plan is also chosen for what it leaves to others."""


def _largest_parts(instance: Instance) -> str:
    """What an NPU holds whatever is launched when, in words, the largest part first."""
    gathers = max((exchange.size for exchange in instance.exchanges if exchange.freed_task >= 0), default=0)
    parts = {
        "parameters": instance.parameter_bytes,
        "activations": int(activations(instance).max()),
        "the largest gather": gathers,
    }
    sizes = sorted(((size, name) for name, size in parts.items() if size), reverse=True)
    return ", ".join(f"{format_short_size(size)} of {name}" for size, name in sizes)


def _leanest(best: Schedule, clock: Allowance) -> Schedule:
    """The schedule with the same buckets whose gathers hold least, of those that take about as long, if there is time.

    The largest amounts of memory come first, so that there is one when time is up.
    """
    instance, plan, chunks = best.instance, best.plan, PlanningOnce(make_policy("hourglass"))
    buckets = tuple(launch.tensors for launch in plan.launches_of(instance) if launch.part == "whole")
    counts = [len(cut_chunks.sizes) for cut_chunks in plan.chunks]
    amounts = [amount for amount in budgets(instance) if amount]
    if sum(map(len, buckets)) < len(instance.exchanges) or not amounts:
        return best
    least, most = min(amounts), max(amounts)
    leanest, longest = best, best.makespan * (1 + TOLERATED)
    for amount in sorted({*amounts, *(least - (most - least) * part // 100 for part in (3, 6, 9))}, reverse=True):
        if clock.left <= 0:
            break
        launches = as_early_as_fits(instance, of_runs(instance, buckets), max(amount, 1))
        schedule = fastest(instance, plans_of_launches(instance, launches, "layer", chunks, counts))
        clock.charge(2 * count_stages(instance) / SIMULATED_PER_SECOND)
        if schedule.makespan > longest:
            continue
        if schedule.fits and schedule.memory_peak < leanest.memory_peak:
            leanest = schedule
    validate(leanest)
    return leanest


def with_prefetch(instance: Instance) -> Instance:
    """A traced step whose gathers may leave at other times than they did, if it is one of sharded parameters.

    No gather of the trace leaves before its window, so that the step as traced is one of the plans.
    On each span with as many gathers in the forward pass as there are reduce-scatters, of the same sizes, and the same
    again or fewer in the backward pass, in the order from the last to the first: parameters are given up before the
    next gather is needed, may be gathered again at once, and in the next step once it begins.  What is gathered at once
    is called a layer, numbered in the order of the forward pass.  Pipelines, and gathers that wait for scatters as
    those of sharded optimizers do, stay as they are.
    """
    gathers = [exchange for exchange in instance.exchanges if exchange.kind is CollectiveKind.ALL_GATHER]
    if instance.iteration is None or instance.num_stages > 1 or any(e.freed_task >= 0 or e.after for e in gathers):
        return instance
    changes: dict[int, dict[str, Any]] = {}
    spans = sorted({exchange.span for exchange in instance.exchanges})
    for number, span in enumerate(spans, start=1):
        changes |= _windows_of(instance, span, "layer" if len(spans) == 1 else f"group{number}.layer")
    if not changes:
        return instance
    tensors = (tensor.varied(**changes.get(number, {})) for number, tensor in enumerate(instance.iteration.tensors))
    return instance.varied(iteration=instance.iteration.varied(tensors=tuple(tensors)))


@lru_cache(maxsize=4)
def with_gathers(instance: Instance) -> str:
    """The reservation of bounds and schedules of a traced step, and what holds without, in words.

    It is empty for other problems.
    """
    free = with_prefetch(instance)
    if free == instance:
        return ""
    least = format_short_time(max(bounds(free).values()))
    return (
        f" while gathers stay where the trace has them; with any plan a step takes {least} or more ('plan' moves them)"
    )


def _windows_of(instance: Instance, span: tuple[int, ...], prefix: str) -> dict[int, dict[str, Any]]:
    """By number of an exchange on a span, the fields that change."""
    exchanges, names = instance.exchanges, [task.name for task in instance.tasks]
    here = [number for number, exchange in enumerate(exchanges) if exchange.span == span]
    gathers = sorted(
        (n for n in here if exchanges[n].kind is CollectiveKind.ALL_GATHER), key=lambda n: (exchanges[n].needed_task, n)
    )
    scatters = sorted(
        (n for n in here if exchanges[n].kind is CollectiveKind.REDUCE_SCATTER),
        key=lambda n: (exchanges[n].ready_task, n),
    )
    mirrored, backward = gathers[: len(scatters)][::-1], gathers[len(scatters) :]
    kept = len(scatters) - len(backward)
    pairs = (*zip(mirrored, scatters, strict=False), *zip(mirrored[max(kept, 0) :], backward, strict=False))
    is_sharded = scatters and len(mirrored) == len(scatters) and kept >= 0
    if not is_sharded or any(exchanges[one].size != exchanges[other].size for one, other in pairs):
        return {}
    following = dict(pairwise(gathers))
    changes: dict[int, dict[str, Any]] = {}
    for place, (number, scatter) in enumerate(zip(mirrored, scatters, strict=True)):
        made, name = exchanges[scatter].ready_task, f"{prefix}{len(mirrored) - place}"
        changes[scatter] = {"name": f"{name}.gradients"}
        freed = made
        if place >= kept:
            again, need = backward[place - kept], exchanges[number].needed_task
            freed = max(need, exchanges[following[number]].needed_task - 1)
            used = max(made, exchanges[again].needed_task)
            left = min(freed, exchanges[again].ready_task)
            changes[again] = _gather(f"{name}.parameters_again", names[left], names[used])
        left = exchanges[number].ready_task if exchanges[number].needed_later else -1
        changes[number] = _gather(f"{name}.parameters", names[left], names[freed])
    return changes


def _gather(name: str, ready: str, freed: str) -> dict[str, Any]:
    return {"name": name, "ready_after": ready, "freed_after": freed, "parallelism": "data", "needed_in": None}


def _module(exchange: Exchange) -> str:
    return exchange.name.rpartition(".")[0] or exchange.name


def _places(distances: list[int]) -> str:
    middle, most = round(median(distances)), max(distances)
    return _count(middle, "gather") if middle == most else f"{middle} to {most} gathers"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
