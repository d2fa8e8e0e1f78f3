"""Answers before figures: one to three plain sentences on what a comparison, a schedule or a disturbance comes to."""

from collections.abc import Mapping, Sequence

from formulations.limits import PROVEN_GAP
from themis_opt.base.units import format_duration, format_percent, format_short_time
from themis_opt.graphs.comparison import trees_beside
from themis_opt.policies.launching.common import has_buckets
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.explanation import Explanation, ResourceTime, resource_time
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds
from themis_opt.study.comparison import Comparison, Result
from themis_opt.study.robust import QUANTILE, RobustChoice
from themis_opt.study.robustness import LossDistribution

MOST_SIMULATED_STAGES = 10**6  # stages up to which a step is simulated for a verdict: seconds


def on_comparison(compared: Comparison) -> tuple[str, ...]:
    """Whether another order is worth it, and how far the best one is from what is possible."""
    best = compared.best
    today = best.makespan * best.speedup
    possible = today / best.bound - 1
    if best.schedule.has_period:
        return _on_exposed(compared), _on_gap(compared)
    trees = _on_trees(compared)
    if possible <= 0.01:  # not worth a change of the runtime
        return (
            f"Nothing to win by order: the fixed order is within {format_percent(possible)} of the bound, and "
            f"{_busiest(best.schedule)}.",
            *trees,
        )
    times = f"{format_duration(best.makespan)}, {best.speedup:.3f} times as fast as the fixed order"
    return f"{best.policy} takes {times} with {format_duration(today)}.", _on_gap(compared), *trees


def _on_trees(compared: Comparison) -> tuple[str, ...]:
    """What trees on the graph of the network win over all that runs along dimensions, if it is a hundredth or more."""
    trees = trees_beside(compared.instance)
    if trees is None or trees.makespan * 1.01 > compared.best.makespan:
        return ()
    ratio = compared.best.makespan / trees.makespan
    return (
        f"All that is along dimensions: trees take {format_duration(trees.makespan)}, {ratio:.2f} times as fast "
        "(--policies trees).",
    )


def on_step(instance: Instance) -> tuple[str, ...]:
    """What communication costs a step as most train today, and what no schedule can beat; nothing of very large ones.

    Gradients that can be fused are in the buckets of PyTorch DistributedDataParallel, all other tensors alone, and
    chunks pass the dimensions in the fixed order.
    """
    buckets = has_buckets(instance)
    launching = "ddp" if buckets else "wait_free"
    if not instance.exchanges or count_stages(instance) > MOST_SIMULATED_STAGES:
        return ()
    schedule = simulate(instance, make_policy(f"{launching}/baseline")(instance))
    today = "DDP with 25 MiB buckets" if buckets else "every tensor alone"
    cost = format_percent(schedule.period.exposed / schedule.makespan)
    step, bound = (format_short_time(time) for time in (schedule.makespan, max(bounds(instance).values())))
    return (f"Communication costs {cost} of your step; {today} takes {step}, and no schedule less than {bound}.",)


def _on_gap(compared: Comparison) -> str:
    """What is proven about all other schedules whose chunks may be cut as those of the table."""
    return _proof(compared.best.makespan, compared.best.bound, compared.equal_sizes)


def _proof(makespan: int, bound: float, equal_sizes: bool) -> str:
    """What a bound proves about schedules with equal chunks, or with any."""
    cut = "as many equal chunks" if equal_sizes else "chunks of any sizes"
    if makespan <= bound * (1 + PROVEN_GAP):
        return f"That is proven optimal: no schedule with {cut} is more than {format_percent(PROVEN_GAP)} shorter."
    return f"No schedule with {cut} is more than {format_percent(1 - bound / makespan)} shorter, which is proven."


def _on_exposed(compared: Comparison) -> str:
    """What communication costs a step, today and at best."""
    best = compared.best
    period = best.schedule.period
    least = max(best.bound - compared.instance.compute, 0.0)
    first = compared.results[0]
    today = "" if first is best else f", {_exposed(first)}"
    return (
        f"Communication costs {format_percent(period.exposed / best.makespan)} of a step of "
        f"{format_duration(best.makespan)}: {_exposed(best)}{today}, at least {format_duration(least)} with any plan."
    )


def _exposed(result: Result) -> str:
    return f"{format_duration(result.schedule.period.exposed)} with {result.policy}"


def on_schedule(
    schedule: Schedule, explanation: Explanation, bounds: Mapping[str, float], *, equal_sizes: bool
) -> tuple[str, ...]:
    """What a schedule is waiting for, and what could be won at most, with equal chunks or with any."""
    busiest = _busy(explanation.resources)
    sentences = [f"{busiest[:1].upper()}{busiest[1:]}.", _proof(schedule.makespan, max(bounds.values()), equal_sizes)]
    if explanation.waits:
        longest = max(explanation.waits, key=lambda wait: wait.length)
        waited = format_percent(schedule.period.exposed / schedule.makespan)
        sentences.append(
            f"Compute waits {waited} of the step for communication, longest before {longest.task}: "
            f"{format_duration(longest.length)} for {longest.launch or 'no launch'}."
        )
    return tuple(sentences)


def on_choice(choice: RobustChoice) -> tuple[str, ...]:
    """What the fastest plan loses on a disturbed network, and which one is preferred."""
    lost = f"loses {_lost(choice.nominal)} on a disturbed network (95th percentile)"
    if choice.chosen is choice.nominal:
        return (f"The fastest plan ({choice.nominal.policy}) {lost}, and no other less: it is preferred.",)
    best = choice.chosen
    return (f"The fastest plan ({choice.nominal.policy}) {lost}, {best.policy} {_lost(best)}: prefer {best.policy}.",)


def _lost(distribution: LossDistribution) -> str:
    return format_percent(distribution.quantile(QUANTILE))


def on_robustness(distributions: Sequence[LossDistribution]) -> tuple[str, ...]:
    """Which way to run holds best on a disturbed network."""
    first, *others = sorted(distributions, key=lambda distribution: distribution.quantile(QUANTILE))
    rest = ", ".join(f"{_way(distribution)} {_lost(distribution)}" for distribution in others)
    lost = f"{_way(first)} loses {_lost(first)} on a disturbed network (95th percentile)"
    return (f"{lost}, {rest}: prefer {_way(first)}.",)


def _way(distribution: LossDistribution) -> str:
    """A policy and how it is run, in a sentence with further commas."""
    policy, _, way = distribution.policy.rpartition(", ")
    return f"{policy} ({way})" if policy else way


def _busiest(schedule: Schedule) -> str:
    return _busy([resource_time(schedule, number) for number in range(schedule.instance.num_resources)])


def _busy(resources: Sequence[ResourceTime]) -> str:
    most = max(resources, key=lambda resource: resource.busy)
    return f"{most.name} is busy {format_percent(most.busy / (most.busy + most.lag + most.idle))} of the time"
