"""Robustness: how a plan fares when bandwidths and latencies are not what it was made for.

A sample disturbs the instance in two ways, independently:

- the bandwidth of every dimension is multiplied by a factor uniform in [1 - spread, 1 + spread], which holds for the
  whole sample: the figure was wrong;
- the latency of every stage is multiplied by a factor of its own, uniform in [1, 1 + jitter]: a message that meets
  others on its way comes later than it would alone, never sooner.  The factor acts on all steps of the stage
  together, which is harder on a plan than delays of single steps that average out.

Launch overheads, releases and bytes stay as they are.  A makespan in a sample is judged by a lower bound for the
disturbed bandwidths and the undisturbed latencies, which no schedule of the sample can beat.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from themis_opt.cost import PHASES, FloatArray, IntArray, StageCosts
from themis_opt.errors import InputError
from themis_opt.instance import Instance, Network
from themis_opt.kernel import Operations, start_times
from themis_opt.lower_bounds import BOUNDS
from themis_opt.plan import Plan
from themis_opt.schedule import Schedule
from themis_opt.simulator import build_operations, simulate
from themis_opt.units import MAX_CLOCK
from themis_opt.validation import validate

MAX_SAMPLES = 10**6

JUDGES = ("fluid", "chain")
"""The bounds of a sample: all that hold for any sizes and are not below another of them."""

_Sample = tuple[FloatArray, FloatArray]
"""Factors of bandwidth by dimension, and of latency by collective, chunk, phase and dimension, flat."""


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
    """

    plan: Plan
    enforced: bool = True


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Makespans of one policy in all samples, and what is lost against the bound of each sample.

    Attributes
    ----------
    nominal_makespan, nominal_bound
        Without disturbance, in picoseconds.
    makespans, bounds : int64 and float64 arrays, shape (samples,)
        Picoseconds; the same place is the same sample for all policies.
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
            "nominal_makespan_ns": self.nominal_makespan / 1000,
            "nominal_loss": self.nominal_loss,
            "mean_loss": float(self.losses.mean()),
            **{name: self.quantile(share) for name, share in quantiles.items()},
            "mean_slowdown": float(self.makespans.mean()) / self.nominal_makespan - 1,
        }


def executions(name: str, schedule: Schedule) -> dict[str, Execution]:
    """Two ways to run the plan of a schedule: its order enforced, and dispatched as stages become ready."""
    return {
        f"{name}, enforced": Execution(schedule.enforced_plan()),
        f"{name}, dynamic": Execution(schedule.plan, enforced=False),
    }


def loss_distributions(
    instance: Instance,
    policies: Mapping[str, Execution],
    *,
    samples: int = 1000,
    seed: int = 0,
    bandwidth_spread: float = 0.10,
    latency_jitter: float = 1.0,
) -> tuple[LossDistribution, ...]:
    """Run plans in many disturbed copies of an instance, all of them in the same copies.

    Samples do not depend on the policies, and the latency factor of a chunk in a phase on a dimension is the same
    for every policy.  A sample costs the fluid bound, a millisecond on four dimensions and half a second on twelve.

    Parameters
    ----------
    policies : mapping
        What to run, by name.
    samples, seed : int
        How many copies; equal seeds give equal copies, and fewer samples are the first of many.
    bandwidth_spread : float
        Largest deviation of a bandwidth, as a fraction of it.
    latency_jitter : float
        Largest extra latency of a stage, as a fraction of its latency.

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
    """
    _check_arguments(samples, seed, bandwidth_spread, latency_jitter)
    slowest = max(1 / (1 - bandwidth_spread), 1 + latency_jitter)
    runs = [_prepared(instance, execution, slowest) for execution in policies.values()]
    makespans, bounds = np.empty((len(runs), samples), dtype=np.int64), np.empty(samples)
    for number, sample in enumerate(_samples(instance, samples, seed, bandwidth_spread, latency_jitter)):
        makespans[:, number], bounds[number] = _judged(instance, runs, sample)
    (undisturbed,) = _samples(instance, 1, 0, 0.0, 0.0)
    nominal, proven = _judged(instance, runs, undisturbed)
    return tuple(
        LossDistribution(name, time, proven, own, bounds)
        for name, time, own in zip(policies, nominal, makespans, strict=True)
    )


def _check_arguments(samples: int, seed: int, bandwidth_spread: float, latency_jitter: float) -> None:
    if not 1 <= samples <= MAX_SAMPLES:
        raise InputError(f"must be at least 1 and at most {MAX_SAMPLES}", field="samples", value=samples)
    if seed < 0:
        raise InputError("must be at least 0", field="seed", value=seed)
    if not 0 <= bandwidth_spread < 1:
        raise InputError("must be at least 0 and less than 1", field="bandwidth_spread", value=bandwidth_spread)
    if not 0 <= latency_jitter < np.inf:
        raise InputError("must be at least 0 and finite", field="latency_jitter", value=latency_jitter)


def _samples(instance: Instance, count: int, seed: int, spread: float, jitter: float) -> Iterator[_Sample]:
    random = np.random.default_rng(seed)
    num_dimensions = len(instance.network.dimensions)
    num_stages = sum(prod(shape) for shape in _factor_shapes(instance))
    for _ in range(count):
        bandwidths = random.uniform(1 - spread, 1 + spread, num_dimensions)
        yield bandwidths, 1 + jitter * random.random(num_stages)


def _factor_shapes(instance: Instance) -> list[tuple[int, int, int]]:
    """Chunks, phases and dimensions of every collective."""
    return [(c.chunks, len(PHASES[c.kind]), len(instance.network.dimensions)) for c in instance.collectives]


class _Run(NamedTuple):
    """A plan as the kernel sees it, and the place of the factor of each stage in the latencies of a sample."""

    plan: Plan
    operations: Operations
    factor: IntArray


def _prepared(instance: Instance, execution: Execution, slowest: float) -> _Run:
    """A checked plan; with times `slowest` times as long, one stage after another must not outlast the clock."""
    plan = execution.plan
    schedule = simulate(instance, plan)
    validate(schedule)
    serial = float(schedule.costs.occupancy.sum() + schedule.costs.lag.sum())
    if (serial + max(c.release for c in instance.collectives)) * slowest > MAX_CLOCK:
        rule = f"a sample up to {slowest:.3g} times as slow may outlast the clock"
        raise InputError(rule, field="bandwidth_spread, latency_jitter")
    operations = build_operations(instance, plan, schedule.costs)
    if not execution.enforced:
        operations = operations._replace(enforced=np.zeros_like(operations.enforced))
    return _Run(plan, operations, _factor_places(instance, plan))


def _factor_places(instance: Instance, plan: Plan) -> IntArray:
    places, first = [], 0
    for chunks, shape in zip(plan.chunks, _factor_shapes(instance), strict=True):
        num_chunks, length = chunks.paths.shape
        chunk, phase = np.arange(num_chunks)[:, None], np.arange(length) * shape[1] // length
        places.append(first + np.ravel_multi_index((chunk, phase, chunks.paths), shape).ravel())
        first += prod(shape)
    return np.concatenate(places)


def _judged(instance: Instance, runs: Sequence[_Run], sample: _Sample) -> tuple[list[int], float]:
    """Makespan of every run in a sample, and the bound of the sample, in picoseconds."""
    bandwidth, latency = sample
    # Lags are what is disturbed, whether they occupy a dimension in the instance or not.
    lagging = _disturbed(instance, bandwidth, "lag")
    occupies = instance.latency == "occupy"
    bounded = _disturbed(instance, bandwidth, "occupy") if occupies else lagging
    makespans = [_makespan(run, run.plan.costs(lagging), latency[run.factor], occupies) for run in runs]
    return makespans, max(BOUNDS[name].compute(bounded) for name in JUDGES)


def _disturbed(instance: Instance, factors: FloatArray, latency: Literal["lag", "occupy"]) -> Instance:
    """The instance with bandwidths multiplied by `factors`, and a rule for latency."""
    dimensions = tuple(
        # Not `replace`: everything else is checked already, and many thousand dimensions are made.
        d.model_copy(update={"bandwidth": d.bandwidth * factor})
        for d, factor in zip(instance.network.dimensions, factors.tolist(), strict=True)
    )
    network, collectives = Network(dimensions=dimensions), instance.collectives
    return Instance(network=network, collectives=collectives, latency=latency, ag_order=instance.ag_order)


def _makespan(run: _Run, costs: StageCosts, factors: FloatArray, occupies: bool) -> int:
    """Makespan with lags multiplied by `factors`, shape (stages,), which hold the dimension if latency occupies."""
    late = np.ceil(costs.lag * factors).astype(np.int64)
    duration, lag = costs.occupancy + occupies * late, (not occupies) * late
    start = start_times(run.operations._replace(duration=duration, lag=lag))
    return int((start + duration + lag).max())
