"""Answers before figures: one to three plain sentences on what a comparison, a schedule or a sweep comes to."""

from collections.abc import Mapping, Sequence
from typing import Any

from formulations.limits import PROVEN_GAP
from themis_opt.base.units import format_percent, format_rate, format_short_size, format_short_time
from themis_opt.policies.launching.common import has_buckets
from themis_opt.policies.registry import HEURISTICS, make_policy
from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.explanation import resource_time
from themis_opt.schedules.results import NEAR_OPTIMAL
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.timed import Explanation, ResourceTime
from themis_opt.solving.bounds import bounds
from themis_opt.study.comparison import Comparison, Result, has_rival_trees, trees_beside
from themis_opt.study.step_plan import with_gathers
from themis_opt.study.sweep import best_by_value, in_words, knee_of, time_of

MOST_SIMULATED_STAGES = 10**6  # stages up to which a step is simulated for a verdict: seconds


def on_comparison(compared: Comparison) -> tuple[str, ...]:
    """Whether another order is worth it, and how far the best one is from what is possible."""
    best = compared.best
    today = best.makespan * best.speedup
    possible = today / best.bound - 1
    proof = _proof(best.schedule, best.bound, compared.equal_sizes)
    if best.schedule.has_period:
        return _on_exposed(compared), proof
    trees = trees_beside(compared.problem)
    beaten = trees is not None and trees.makespan * WORTH_TREES <= best.makespan
    proof = _on_trees(compared, trees.makespan) if trees is not None and beaten else proof
    if possible <= 0.01:  # not worth a change of the runtime
        return (
            f"Nothing to win by order: the fixed order is within {format_percent(possible)} of the bound, and "
            f"{_busiest(best.schedule)}.",
            *([proof] if beaten else []),
        )
    if best.makespan >= today:
        return f"No policy tried is faster than the fixed order, which takes {format_short_time(today)}.", proof
    times = f"{format_short_time(best.makespan)}, {best.speedup:.3f} times as fast as the fixed order"
    return f"{best.policy} takes {times} with {format_short_time(today)}.", proof


ALONG_DIMENSIONS = "within reduce-scatter and all-gather along dimensions"

WORTH_TREES = 1.01  # how many times as fast trees must be for what runs along dimensions to count as beaten


def _on_trees(compared: Comparison, trees: int) -> str:
    """What is proven along dimensions alone, and what trees on the graph of the network win over that."""
    best = compared.best
    if best.makespan <= best.bound * (1 + PROVEN_GAP):
        proof = f"It is optimal {ALONG_DIMENSIONS}"
    else:
        proof = f"No schedule {ALONG_DIMENSIONS} is more than {format_percent(1 - best.bound / best.makespan)} shorter"
    ratio = best.makespan / trees
    return f"{proof}; trees are {ratio:.2f} times as fast, {format_short_time(trees)} (--policies trees)."


def on_instance(instance: Instance) -> tuple[str, ...]:
    """What the usual order takes on an instance, what a rule for run time takes, and what no schedule beats."""
    if instance.tasks:
        return on_step(instance)
    if count_stages(instance) > MOST_SIMULATED_STAGES:
        return ()
    first, last = (make_policy(name)(instance) for name in (HEURISTICS[0], HEURISTICS[-1]))
    today, best = (simulate(instance, plan).makespan for plan in (first, last))
    bound = max(bounds(instance).values())
    if len(instance.network.dimensions) == 1:
        size = format_short_size(sum(exchange.size for exchange in instance.exchanges))
        return (f"One dimension has no order: {size} take {format_short_time(today)}, {_above(today, bound)}.",)
    if today <= bound * (1 + NEAR_OPTIMAL):
        return (f"Nothing to win by order: the fixed order takes {format_short_time(today)}, {_above(today, bound)}.",)
    times = f"the fixed order takes {format_short_time(today)}, {HEURISTICS[-1]} {format_short_time(best)}"
    return (f"Order matters: {times}, {_above(best, bound)}.",)


def _above(makespan: int, bound: float) -> str:
    return f"{format_percent(makespan / bound - 1)} above the bound"


def on_sweep(instance: Instance, rows: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    """What more of the first varied quantity gains, up to where it gains little, and what limits there.

    `rows`: those of :func:`themis_opt.study.sweep.sweep`.
    `name`: what varied first.
    """
    best = best_by_value(rows, name)
    if len(best) < 2:
        return ()
    knee = knee_of(best, name)
    low, high = min(best), max(best)
    start, at_knee = (in_words(name, value) for value in (low, knee))
    if name == "size":
        reached = format_rate(float(best[knee]["busbw_bytes_per_s"]))
        if knee == high:
            return (f"The bandwidth still grows at {at_knee}, to {reached}: latency counts at all these sizes.",)
        return (f"From {at_knee} on the bandwidth is {reached} or more, near its largest; below, latency counts.",)
    if knee == low:
        whole = _gained(time_of(best[low]) / time_of(best[high]))
        return (f"More {name} changes little: {start} to {in_words(name, high)} {whole} in all.",)
    limit = f", then {_limiting(instance, best[high], name)} limits" if knee != high else ""
    doubling = f"Doubling {name}" if knee == 2 * low else f"{name} from {start} to {at_knee}"
    return (f"{doubling} {_gained(time_of(best[low]) / time_of(best[knee]))}{limit}.",)


def _gained(ratio: float) -> str:
    return f"gains {ratio:.2f}x" if ratio >= 1 else f"costs {1 / ratio:.2f}x"


def _limiting(instance: Instance, row: Mapping[str, Any], name: str) -> str:
    """The dimension, other than the one that varied, that is busy most of the time in a row."""
    shares = [float(share) for share in str(row["busy"]).split()]
    names = instance.fabric.dimension_names
    busy = {dimension: share for dimension, share in zip(names, shares, strict=False) if f"{dimension}." not in name}
    return max(busy, key=busy.__getitem__) if busy and len(shares) == len(names) else "latency"


def on_step(instance: Instance) -> tuple[str, ...]:
    """What communication costs a step as most train today, and what no schedule can beat; nothing of very large ones.

    An iteration that says how its source launches is launched so.  Else gradients that can be fused are in the buckets
    of PyTorch DistributedDataParallel, all other tensors alone, and chunks pass the dimensions in the fixed order.
    """
    buckets = has_buckets(instance)
    policy = "ddp/baseline" if buckets else "wait_free/baseline"
    if not instance.exchanges or count_stages(instance) > MOST_SIMULATED_STAGES:
        return ()
    today = "DDP with 25 MiB buckets" if buckets else "every tensor alone"
    where = "of your step"
    if instance.iteration and instance.iteration.launching:
        policy = instance.iteration.launching
        today, where = f"{policy}, as its source launches,", "of your step in the model"
    schedule = simulate(instance, make_policy(policy)(instance))
    cost = f"{format_percent(schedule.period.exposed / schedule.makespan)} {where}{_bubble(schedule)}"
    step, bound = (format_short_time(time) for time in (schedule.makespan, max(bounds(instance).values())))
    least = f"no schedule less than {bound}{with_gathers(instance)}"
    return (f"Communication costs {cost}; {today} takes {step}, and {least}.",)


def _proof(schedule: Schedule, bound: float, equal_sizes: bool) -> str:
    """What a bound proves about schedules with equal chunks, or with any."""
    makespan = schedule.makespan
    if makespan <= bound * (1 + PROVEN_GAP) and has_rival_trees(schedule.instance):
        return f"It is optimal {ALONG_DIMENSIONS}."
    cut = "as many equal chunks" if equal_sizes else "chunks of any sizes"
    if makespan <= bound * (1 + PROVEN_GAP):
        return f"That is proven optimal: no schedule with {cut} is more than {format_percent(PROVEN_GAP)} shorter."
    return f"No schedule with {cut} is more than {format_percent(1 - bound / makespan)} shorter, which is proven."


def _on_exposed(compared: Comparison) -> str:
    """What communication costs a step, today and at best."""
    best = compared.best
    period = best.schedule.period
    least = max(best.bound - compared.problem.compute - period.bubble, 0.0)
    first = compared.results[0]
    today = "" if first is best else f", {_exposed(first)}"
    return (
        f"Communication costs {format_percent(period.exposed / best.makespan)} of a step of "
        f"{format_short_time(best.makespan)}{_bubble(best.schedule)}: {_exposed(best)}{today}, at least "
        f"{format_short_time(least)}{with_gathers(compared.problem) or ' with any plan'}."
    )


def _bubble(schedule: Schedule) -> str:
    """What a pipeline waits on an infinitely fast network, too."""
    bubble = schedule.period.bubble
    return f", beside {format_percent(bubble / schedule.makespan)} of bubble" if bubble else ""


def _exposed(result: Result) -> str:
    return f"{format_short_time(result.schedule.period.exposed)} with {result.policy}"


def on_schedule(
    schedule: Schedule, explanation: Explanation, bounds: Mapping[str, float], *, equal_sizes: bool
) -> tuple[str, ...]:
    """What a schedule is waiting for, and what could be won at most, with equal chunks or with any."""
    busiest = _busy(explanation.resources)
    sentences = [f"{busiest[:1].upper()}{busiest[1:]}.", _proof(schedule, max(bounds.values()), equal_sizes)]
    if explanation.waits:
        longest = max(explanation.waits, key=lambda wait: wait.length)
        waited = format_percent(schedule.period.exposed / schedule.makespan)
        sentences.append(
            f"Compute waits {waited} of the step for communication{_bubble(schedule)}, longest before {longest.task}: "
            f"{format_short_time(longest.length)} for {longest.launch or 'no launch'}."
        )
    return tuple(sentences)


def _busiest(schedule: Schedule) -> str:
    return _busy([resource_time(schedule, number) for number in range(schedule.instance.num_resources)])


def _busy(resources: Sequence[ResourceTime]) -> str:
    most = max(resources, key=lambda resource: resource.busy)
    return f"{most.name} is busy {format_percent(most.busy / (most.busy + most.lag + most.idle))} of the time"
