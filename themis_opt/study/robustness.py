"""Robustness: how a plan fares when bandwidths and latencies are not what it was made for.

A sample disturbs the instance in up to four ways, independently:

- the bandwidth of every dimension is multiplied by a factor uniform in [1 - spread, 1 + spread]: the figure was wrong;
- the latency of every stage is multiplied by a separate factor, uniform in [1, 1 + jitter]: a message that meets
  others on its way comes later than it would alone, never sooner.  The factor acts on all steps of the stage
  together, which is harder on a plan than delays of single steps that average out;
- where there is compute, the duration of every task may be multiplied by a separate factor, uniform in [1, 1 +
  compute jitter], by default 1: an NPU that does other things is slower, never faster;
- the result of every chunk may come later by a separate random delay, such as that of a packet lost and
  sent again.

All factors hold for the whole sample, so that its iterations repeat each other.  Launch overheads, releases and bytes
stay as they are.  What a schedule minimises is judged by bounds for the disturbed bandwidths and durations and the
undisturbed latencies, which no schedule of the sample can beat.

Losses also say what a tolerance of lost bytes is worth where chunks are late.  Of three ways to run one plan, the first
sends every byte and waits for it; the second never sends the part that may be lost; the third sends all, and does not
wait for the latest chunks of every launch, as long as their bytes may be lost.  The second gains at most 1 / (1 - p),
and less the more an iteration waits for delays; the third gains nothing where nobody is late, and more the longer the
tail of the delays (DLCP: H. Wang et al., *Domain-specific Communication Optimization for Distributed DNN Training*,
https://arxiv.org/abs/2008.08445).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import MAX_CLOCK, format_percent, nanoseconds, parse_time
from themis_opt.problem.cost import StageCosts
from themis_opt.problem.instance import Instance
from themis_opt.schedules.kernel import Operations, start_times
from themis_opt.schedules.period import Period
from themis_opt.schedules.plan import Plan, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import FEWEST_ITERATIONS, MOST_ITERATIONS, build_operations, simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds_of
from themis_opt.solving.sizing import scaled

MAX_SAMPLES = 10**6  # disturbed copies

JUDGES = ("fluid", "chain", "communication", "critical_path")
"""The bounds of a sample: all that hold for any sizes and are not below another of them."""


QUANTILE = 0.95  # share of the samples whose largest loss is said

WAYS = ("all waited for", "never sent", "late is lost")  # what becomes of bytes that may be lost

MOST_DELAY = 1000
"""No delay is longer than so many times that of the distribution, so that the clock holds every sample."""

DELAY_OPTION = "--chunk-delay"

DELAY_FORMS = "exponential:MEAN or lognormal:MEDIAN:SIGMA, such as exponential:100us"


@dataclass(frozen=True)
class ChunkDelay:
    """A distribution of delays."""

    name: str  # `exponential` or `lognormal`
    scale: int  # picoseconds: the mean of the exponential, the median of the log-normal distribution
    sigma: float = 0.0  # standard deviation of the logarithm, for the log-normal distribution

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Delays of `count` chunks, in picoseconds."""
        return self.scale * np.minimum(_DRAWS[self.name](random, self.sigma, count), MOST_DELAY)

    @property
    def most(self) -> int:
        """The longest delay, in picoseconds."""
        return MOST_DELAY * self.scale


_DRAWS: Mapping[str, Callable[[np.random.Generator, float, int], FloatArray]] = {
    "exponential": lambda random, sigma, count: random.exponential(1.0, count),
    "lognormal": lambda random, sigma, count: random.lognormal(0.0, sigma, count),
}


def parse_chunk_delay(text: str) -> ChunkDelay | None:
    """The distribution of a text such as ``"exponential:100us"`` or ``"lognormal:50us:1.5"``; None for an empty one.

    Raises InputError if it is no such text.
    """
    if not text:
        return None
    name, *numbers = text.split(":")
    if name not in _DRAWS or len(numbers) != 1 + (name == "lognormal"):
        raise InputError(f"must be {DELAY_FORMS}", field=DELAY_OPTION, value=text)
    try:
        scale = parse_time(numbers[0])
        sigma = float(numbers[1]) if name == "lognormal" else 0.0
    except ValueError as error:
        raise InputError(f"must be {DELAY_FORMS}: {error}", field=DELAY_OPTION, value=text) from None
    if scale < 0 or not 0 <= sigma < math.inf:
        raise InputError("must be of a time and a sigma of 0 or more", field=DELAY_OPTION, value=text)
    return ChunkDelay(name, scale, sigma)


class _Sample(NamedTuple):
    """Factors of the bandwidth by dimension, of latency by exchange, chunk, phase and dimension, flat, and of tasks.

    `delay` are picoseconds by exchange and chunk, flat; none where chunks are not late.
    """

    bandwidth: FloatArray
    latency: FloatArray
    duration: FloatArray
    delay: FloatArray


@dataclass(frozen=True)
class Execution:
    """A plan, and how a runtime follows it.

    Attributes
    ----------
    plan : Plan
        What to run; where it has no sequence its dispatch rule decides, with the priorities of the undisturbed
        network, for a runtime knows no other.
    enforced : bool
        Whether a free dimension waits for the next stage of its sequence.  Otherwise it serves, of the stages that
        wait, the one that is first in the sequence, so that a stage that is ready overtakes one that is not.
    lost : tuple of int
        Bytes of each exchange that need not be waited for where chunks are late; none without.

    Examples
    --------
    >>> import themis_opt
    >>> schedule = themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    >>> Execution(schedule.plan, enforced=False).lost
    ()
    """

    plan: Plan
    enforced: bool = True
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Makespans of one policy in all samples, and what is lost against the bound of each sample.

    With compute a makespan is the iteration time.

    `nominal_makespan`, `nominal_bound`: without disturbance, in picoseconds.
    `makespans`, `bounds`, shape (samples,): picoseconds; the same place is the same sample for all policies.
    """

    policy: str
    nominal_makespan: int
    nominal_bound: float
    makespans: IntArray
    bounds: FloatArray

    @property
    def nominal_loss(self) -> float:
        """Makespan over bound, minus 1, without disturbance."""
        return self.nominal_makespan / self.nominal_bound - 1

    @cached_property
    def losses(self) -> FloatArray:
        """Makespan over bound, minus 1, of every sample; ascending."""
        return np.sort(self.makespans / self.bounds - 1)

    def quantile(self, share: float) -> float:
        """The loss that this share of the samples, within 0..1, does not exceed; between samples linear."""
        return float(np.quantile(self.losses, share))

    def row(self) -> dict[str, str | float]:
        """The figures as plain values: times in ns; losses, and the slowdown against the nominal, as fractions."""
        quantiles = {"median_loss": 0.5, "p95_loss": 0.95, "p99_loss": 0.99, "max_loss": 1.0}
        return {
            "policy": self.policy,
            "nominal_makespan_ns": nanoseconds(self.nominal_makespan),
            "nominal_loss": self.nominal_loss,
            "mean_loss": float(self.losses.mean()),
            **{name: self.quantile(share) for name, share in quantiles.items()},
            "mean_slowdown": float(self.makespans.mean()) / self.nominal_makespan - 1,
        }


def executions(name: str, schedule: Schedule) -> dict[str, Execution]:
    """Two ways to run the plan of a schedule: its order enforced, and dispatched as stages become ready.

    Where iterations do not repeat each other there is no order to enforce.

    Examples
    --------
    >>> import themis_opt
    >>> schedule = themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    >>> list(executions("themis+scf", schedule))
    ['themis+scf, enforced', 'themis+scf, dynamic']
    """
    dynamic = {f"{name}, dynamic": Execution(schedule.plan, enforced=False)}
    if schedule.has_period and not schedule.period.is_steady:
        return dynamic
    return {f"{name}, enforced": Execution(schedule.enforced_plan())} | dynamic


def loss_distributions(
    instance: Instance,
    policies: Mapping[str, Execution],
    *,
    samples: int = 1000,
    seed: int = 0,
    bandwidth_spread: float = 0.10,
    latency_jitter: float = 1.0,
    compute_jitter: float = 0.0,
    chunk_delay: ChunkDelay | None = None,
) -> tuple[LossDistribution, ...]:
    """Run plans in many disturbed copies of an instance, all of them in the same copies.

    Samples do not depend on the policies, and the latency factor of a chunk in a phase on a dimension is the same
    for every policy; a launch that carries several tensors has the factors of the first.  A sample costs its bounds:
    for collectives a millisecond on four dimensions and half a second on twelve, with compute some milliseconds.

    Parameters
    ----------
    policies : mapping
        What to run, by name.
    samples, seed : int
        How many copies; equal seeds give equal copies, and fewer samples are the first of many.
    bandwidth_spread : float
        Largest deviation of a bandwidth, as a fraction of it.
    latency_jitter, compute_jitter : float
        Largest extra latency of a stage and duration of a task, as a fraction of it.
    chunk_delay : ChunkDelay, optional
        By how much the result of each chunk comes later, drawn for each chunk; of an all-reduce in two halves the
        second.

    Returns
    -------
    tuple of LossDistribution
        In the order of `policies`.

    Raises
    ------
    InputError
        If an argument is out of range, a plan cannot be run, or its slowest sample may outlast the clock.
    InvalidSchedule
        If a plan breaks a rule of the model.

    Examples
    --------
    >>> import themis_opt
    >>> schedule = themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    >>> losses = loss_distributions(schedule.instance, executions("themis+scf", schedule), samples=5)
    >>> [len(one.losses) for one in losses]
    [5, 5]
    """
    disturbance = Disturbance(bandwidth_spread, latency_jitter, compute_jitter, chunk_delay)
    _check_arguments(samples, seed, disturbance)
    runs = [_prepared(instance, execution, disturbance) for execution in policies.values()]
    (undisturbed,) = _samples(instance, 1, 0, Disturbance(0.0, 0.0, 0.0))
    nominal, proven = _judged(instance, runs, undisturbed)
    judged = [_judged(instance, runs, sample) for sample in _samples(instance, samples, seed, disturbance)]
    makespans, bounds = np.array([times for times, _ in judged]), np.array([bound for _, bound in judged])
    return tuple(
        LossDistribution(name, time, proven, column, bounds)
        for name, time, column in zip(policies, nominal, makespans.T, strict=True)
    )


def replayed_losses(
    disturbed: Callable[[Any, "Disturbance", np.random.Generator], Any],
    again: Callable[[Any, Any], int],
    bounds: Callable[[Any], Mapping[str, float]],
    problem: Any,
    schedules: Mapping[str, Any],
    *,
    samples: int = 100,
    seed: int = 0,
    **options: Any,
) -> tuple[LossDistribution, ...]:
    """Run the plans of schedules on disturbed graphs or pipelines, as :func:`loss_distributions` does on dimensions.

    `disturbed`: makes a copy of the problem with figures that are off.
    `again`: what the plan of a schedule takes on another problem, in picoseconds.
    """
    disturbance = Disturbance(**options)
    _check_arguments(samples, seed, disturbance)
    if disturbance.chunk_delay is not None:
        raise InputError("is for chunks on dimensions", field=DELAY_OPTION)
    random = np.random.default_rng(seed)
    problems = [problem, *(disturbed(problem, disturbance, random) for _ in range(samples))]
    (nominal, *times), (proven, *floors) = (
        [[again(schedule, one) for schedule in schedules.values()] for one in problems],
        [max(bounds(one).values()) for one in problems],
    )
    return tuple(
        LossDistribution(name, time, proven, column, np.array(floors))
        for name, time, column in zip(schedules, nominal, np.array(times).T, strict=True)
    )


class Disturbance(NamedTuple):
    """How far factors go, as fractions, and how late chunks are."""

    bandwidth_spread: float = 0.10
    latency_jitter: float = 1.0
    compute_jitter: float = 0.0
    chunk_delay: ChunkDelay | None = None

    @property
    def slowest(self) -> float:
        """The largest factor of a time."""
        return max(1 / (1 - self.bandwidth_spread), 1 + self.latency_jitter, 1 + self.compute_jitter)


def _check_arguments(samples: int, seed: int, disturbance: Disturbance) -> None:
    if not 1 <= samples <= MAX_SAMPLES:
        raise InputError(f"must be at least 1 and at most {MAX_SAMPLES}", field="samples", value=samples)
    if seed < 0:
        raise InputError("must be at least 0", field="seed", value=seed)
    spread, *jitters = disturbance[:3]
    if not 0 <= spread < 1:
        raise InputError("must be at least 0 and less than 1", field="bandwidth_spread", value=spread)
    for name, jitter in zip(("latency_jitter", "compute_jitter"), jitters, strict=True):
        if not 0 <= jitter < np.inf:
            raise InputError("must be at least 0 and finite", field=name, value=jitter)


def _samples(instance: Instance, count: int, seed: int, disturbance: Disturbance) -> Iterator[_Sample]:
    random, spread = np.random.default_rng(seed), disturbance.bandwidth_spread
    shapes, late = _factor_shapes(instance), disturbance.chunk_delay
    num_stages, num_chunks = sum(map(prod, shapes)), sum(shape[0] for shape in shapes)
    for _ in range(count):
        bandwidth = random.uniform(1 - spread, 1 + spread, len(instance.network.dimensions))
        latency = 1 + disturbance.latency_jitter * random.random(num_stages)
        # After those, and none where there are no tasks or delays: samples without them are what they always were.
        duration = 1 + disturbance.compute_jitter * random.random(len(instance.tasks))
        yield _Sample(bandwidth, latency, duration, late.draw(random, num_chunks) if late else np.zeros(0))


def _factor_shapes(instance: Instance) -> list[tuple[int, int, int]]:
    """Most chunks of a launch that begins with each exchange, its phases, and dimensions."""
    return [
        (exchange.max_chunks, len(exchange.kind.rule.phases), len(instance.fabric.dimensions))
        for exchange in instance.exchanges
    ]


@dataclass(frozen=True)
class _KernelPlan:
    """A plan as the kernel sees it.

    `factor`, shape (stages,): place of the factor of each stage in the latencies of a sample.
    `arrival`, `delay`, `size`, shape (chunks,): the last stage of each chunk that brings its result, the place of its
      delay in those of a sample, and its bytes.
    `operations`: by the number of iterations in a row; filled as they are needed.
    """

    instance: Instance
    execution: Execution
    costs: StageCosts
    factor: IntArray
    arrival: IntArray
    delay: IntArray
    size: IntArray
    operations: dict[int, Operations]

    def starts(self, disturbed: Instance, costs: StageCosts, iterations: int) -> IntArray:
        """Start of every task and then of every stage with other costs, shape (iterations, operations)."""
        if iterations not in self.operations:
            self.operations[iterations] = self._laid_out(iterations)
        tasks = np.array([task.duration for task in disturbed.tasks], dtype=np.int64)
        duration = np.concatenate([tasks, costs.occupancy])
        lag = np.concatenate([np.zeros_like(tasks), costs.lag])
        times = {"duration": np.tile(duration, iterations), "lag": np.tile(lag, iterations)}
        return start_times(self.operations[iterations]._replace(**times)).reshape(iterations, -1)

    def lateness(self, delays: FloatArray) -> IntArray:
        """Picoseconds for which each stage is late; chunks whose bytes may be lost are not waited for."""
        late = np.zeros(len(self.factor), dtype=np.int64)
        if len(delays):
            late[self.arrival] = np.ceil(self._waited_for(delays[self.delay]))
        return late

    def _waited_for(self, delays: FloatArray) -> FloatArray:
        """Delays, 0 for the latest chunks of a launch as long as their bytes may be lost."""
        if not self.execution.lost:
            return delays
        plan, waited = self.execution.plan, delays.copy()
        launch = plan.launch_of_stage[self.arrival]
        for number, launched in enumerate(plan.launches_of(self.instance)):
            chunks = np.flatnonzero(launch == number)
            latest = chunks[np.argsort(-delays[chunks], kind="stable")]
            lost = np.cumsum(self.size[latest]) <= sum(self.execution.lost[tensor] for tensor in launched.tensors)
            waited[latest[lost]] = 0.0
        return waited

    def _laid_out(self, iterations: int) -> Operations:
        operations = build_operations(self.instance, self.execution.plan, self.costs, iterations)
        if self.execution.enforced:
            return operations
        return operations._replace(enforced=np.zeros_like(operations.enforced))


def _prepared(instance: Instance, execution: Execution, disturbance: Disturbance) -> _KernelPlan:
    """A checked plan; with the longest times, one stage after another must not outlast the clock."""
    plan, slowest = execution.plan, disturbance.slowest
    schedule = simulate(instance, plan)
    validate(schedule)
    costs = schedule.costs
    serial = float(costs.occupancy.sum() + costs.lag.sum()) + instance.work
    serial = serial * (MOST_ITERATIONS if schedule.has_period else 1) + max(c.release for c in instance.exchanges)
    late = disturbance.chunk_delay
    delays = late.most * sum(len(chunks.sizes) for chunks in plan.chunks) * MOST_ITERATIONS if late else 0
    if serial * slowest + delays > MAX_CLOCK:
        rule = f"a sample up to {slowest:.3g} times as slow may outlast the clock"
        raise InputError(rule, field=", ".join(disturbance._fields[: 4 if late else 3]))
    return _KernelPlan(instance, execution, costs, _factor_places(instance, plan), *_arrivals(instance, plan), {})


def _factor_places(instance: Instance, plan: Plan) -> IntArray:
    shapes, places = _factor_shapes(instance), []
    first = [0, *accumulate(prod(shape) for shape in shapes)]
    for launch, chunks in zip(plan.launches_of(instance), plan.chunks, strict=True):
        tensor = launch.tensors[0]
        whole = instance.exchanges[tensor].kind.rule.phases
        phases = [whole.index(phase) for phase in launch.kind.rule.phases]
        num_chunks, length = chunks.paths.shape
        chunk, phase = np.arange(num_chunks)[:, None], np.repeat(phases, length // len(phases))
        places.append(first[tensor] + np.ravel_multi_index((chunk, phase, chunks.paths), shapes[tensor]).ravel())
    return np.concatenate(places)


def _arrivals(instance: Instance, plan: Plan) -> tuple[IntArray, IntArray, IntArray]:
    """The last stages of chunks whose results are waited for, the places of their delays, and their bytes."""
    first = [0, *accumulate(shape[0] for shape in _factor_shapes(instance))]
    none = np.zeros(0, dtype=np.int64)
    columns = [(none, none, none)]
    for launch, (_, last), chunks in zip(plan.launches_of(instance), plan.ends_of_chunks, plan.chunks, strict=True):
        if launch.part != "scatter":
            columns.append((last, first[launch.tensors[0]] + np.arange(len(last)), chunks.sizes))
    arrival, delay, size = (np.concatenate(arrays) for arrays in zip(*columns, strict=True))
    return arrival, delay, size


def _judged(instance: Instance, runs: Sequence[_KernelPlan], sample: _Sample) -> tuple[list[int], float]:
    """Makespan of every run in a sample, and the bound of the sample, in picoseconds."""
    # Lags are what is disturbed, whether they occupy a dimension in the instance or not.
    factors, occupies = (sample.bandwidth.tolist(), sample.duration.tolist()), instance.latency == "occupy"
    lagging = instance.scaled(*factors, latency="lag")
    bounded = instance.scaled(*factors, latency="occupy") if occupies else lagging
    makespans = [_makespan(run, lagging, _costs(run, lagging, sample, occupies)) for run in runs]
    judges = (bound for name, bound in bounds_of(instance).items() if name in JUDGES)
    return makespans, max(bound.compute(bounded) for bound in judges)


def _costs(run: _KernelPlan, lagging: Instance, sample: _Sample, occupies: bool) -> StageCosts:
    """Costs with lags multiplied by the factors of stages, which hold the dimension if latency occupies, and delays."""
    costs = run.execution.plan.costs(lagging)
    late = np.ceil(costs.lag * sample.latency[run.factor]).astype(np.int64)
    lag = (not occupies) * late + run.lateness(sample.delay)
    return costs._replace(occupancy=costs.occupancy + occupies * late, lag=lag)


def _makespan(run: _KernelPlan, disturbed: Instance, costs: StageCosts) -> int:
    """What the schedule of a sample minimises, simulated as long as :func:`simulate` would."""
    if not has_launches(disturbed):
        return int((run.starts(disturbed, costs, 1)[0] + costs.occupancy + costs.lag).max())
    count, tasks = FEWEST_ITERATIONS, len(disturbed.tasks)
    while True:
        start = run.starts(disturbed, costs, count)
        ready = start[:, tasks:] + costs.occupancy + costs.lag
        period = Period(disturbed, run.execution.plan, costs, start[:, :tasks], start[:, tasks:], ready)
        if period.is_steady or count >= MOST_ITERATIONS:
            return period.iteration_time
        count *= 2


def on_robustness(distributions: Sequence[LossDistribution]) -> str:
    """Which way to run holds best on a disturbed network."""
    first, *others = sorted(distributions, key=lambda distribution: distribution.quantile(QUANTILE))
    rest = ", ".join(f"{_way(other)} {format_percent(other.quantile(QUANTILE))}" for other in others)
    loss = format_percent(first.quantile(QUANTILE))
    lost = f"{_way(first)} loses {loss} on a disturbed network (95th percentile)"
    return f"{lost}, {rest}: prefer {_way(first)}."


def _way(distribution: LossDistribution) -> str:
    policy, _, way = distribution.policy.rpartition(", ")
    return f"{policy} ({way})" if policy else way


@dataclass(frozen=True)
class ToleranceEffect:
    """Iteration times of the three ways in the same samples."""

    tolerance: float  # the largest fraction of a tensor that may be lost
    distributions: tuple[LossDistribution, ...]  # one for each of WAYS

    @property
    def most(self) -> float:
        """What fewer bytes can gain at most: 1 / (1 - p)."""
        return 1 / (1 - self.tolerance)

    @property
    def verdict(self) -> str:
        """What is gained at the median and in the worst of a hundred cases."""
        _, fewer, late = self.rows()
        return (
            f"Of bytes that may be lost, never sending them gains {fewer['p50_gain']:.3f} times in the median and "
            f"{fewer['p99_gain']:.3f} in one of a hundred, at most {self.most:.3f}; losing what is late "
            f"{late['p50_gain']:.3f} and {late['p99_gain']:.3f}."
        )

    def rows(self) -> list[dict[str, str | float]]:
        """Quantiles of the time in ns of every way, and what they gain over waiting for all."""
        rows = []
        for way, distribution in zip(WAYS, self.distributions, strict=True):
            row: dict[str, str | float] = {"way": way}
            for share in (0.5, 0.95, 0.99):
                time, whole = (float(np.quantile(d.makespans, share)) for d in (distribution, self.distributions[0]))
                row |= {f"p{100 * share:.0f}_ns": time / 1000, f"p{100 * share:.0f}_gain": whole / time}
            rows.append(row)
        return rows


def has_tolerance(instance: Any) -> bool:
    """Whether bytes of some tensor may be lost."""
    return getattr(instance, "iteration", None) is not None and any(
        tensor.tolerance for tensor in instance.iteration.tensors
    )


def tolerance_effect(schedule: Schedule, **disturbance: Any) -> ToleranceEffect:
    """Run the plan of a schedule in the three ways.

    `schedule`: of an iteration with tensors of which some bytes may be lost.
    `**disturbance`: as :func:`loss_distributions` takes it.
    """
    instance = schedule.instance
    tensors = instance.iteration.tensors if instance.iteration else ()
    certain = {"tensors": tuple(tensor.varied(tolerance=0.0) for tensor in tensors)}
    whole = instance.varied(iteration=instance.iteration.varied(**certain)) if instance.iteration else instance
    lost = tuple(
        exchange.size - least.size for exchange, least in zip(whole.exchanges, instance.exchanges, strict=True)
    )
    execution = next(iter(executions("plan", schedule).values()))
    all_sent = replace(execution, plan=scaled(execution.plan, whole))
    waited, late = loss_distributions(whole, {WAYS[0]: all_sent, WAYS[2]: replace(all_sent, lost=lost)}, **disturbance)
    (fewer,) = loss_distributions(instance, {WAYS[1]: execution}, **disturbance)
    return ToleranceEffect(max(tensor.tolerance for tensor in tensors), (waited, fewer, late))
