"""The costs of a network, measured where it is used: bandwidth, launch overhead, latency and sums of each dimension.

A stage that sends n bytes on a dimension of the model takes

    T = launch + steps latency + n / B                (all-gather)
    T = launch + steps latency + n / B + n / R        (reduce-scatter, R the speed of sums)

if each dimension serves one stage at a time and waits for its result.  Both are run alone on every dimension, several
stages in a row, at sizes between those of the stages of a schedule: tiny messages overstate the times of large ones.
A robust linear fit of relative errors gives launch + steps latency, 1 / B and 1 / R; the direct algorithm, which takes
one step, tells launch and latency apart where the algorithm of the dimension takes more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, PICOSECONDS_PER_SECOND
from themis_opt.formats.calibration import robust_fit
from themis_opt.policies.baseline import Baseline
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.problem.wiring import steps
from themis_opt.runtime.coordinator import Coordinator
from themis_opt.runtime.execution import ReportRun, execute
from themis_opt.runtime.program import RunOptions
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

CALIBRATED_ELEMENT_BYTES = 4  # bytes of an element, a float32
CALIBRATED_KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)
"""Collectives of one phase: with sums, and without."""


NUM_SIZES, STAGES_IN_A_ROW = 5, 8
"""Sizes per dimension and phase, from the smallest to the largest stage; stages of a run, whose begin costs time."""


@dataclass(frozen=True)
class StageSample:
    """The time of one stage."""

    dimension: int
    phase: Phase
    algorithm: Algorithm
    sent: float  # bytes that an NPU sends
    seconds: float  # the median over runs


@dataclass(frozen=True)
class StageFit:
    """Times of a dimension as a line through its samples."""

    fixed: float  # seconds of a stage whatever it sends: launch and the latency of all its steps
    per_byte: float  # seconds for each byte sent
    per_sum: float  # seconds besides for each byte summed, in a reduce-scatter
    latency: float  # seconds of a step, as far as it can be told from the launch
    samples: tuple[StageSample, ...]

    def seconds(self, sent: float, phase: Phase) -> float:
        """The time of a stage."""
        return self.fixed + sent * (self.per_byte + phase.rule.reduces * self.per_sum)

    @property
    def residuals(self) -> tuple[float, ...]:
        """Measured over fitted, minus 1, of each sample."""
        return tuple(sample.seconds / self.seconds(sample.sent, sample.phase) - 1 for sample in self.samples)


@dataclass(frozen=True)
class NetworkCalibration:
    """A network as it was measured."""

    instance: Instance
    fits: tuple[StageFit, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row per dimension, for tables and JSON."""
        network = self.instance.network
        return [
            {
                "dimension": name,
                "bandwidth": dimension.bandwidth,
                "launch_overhead_ns": dimension.launch_overhead / PICOSECONDS_PER_NANOSECOND,
                "latency_ns": dimension.latency / PICOSECONDS_PER_NANOSECOND,
                "reduction": dimension.reduction,
                "median_residual": median(map(abs, fit.residuals)),
                "largest_residual": max(map(abs, fit.residuals)),
            }
            for name, dimension, fit in zip(network.dimension_names, network.dimensions, self.fits, strict=True)
        ]


def calibrate(
    instance: Instance,
    schedule: Schedule,
    coordinator: Coordinator,
    options: RunOptions | None = None,
    *,
    repeat: int = 5,
    progress: ReportRun | None = None,
) -> NetworkCalibration:
    """Measure all dimensions of a network at the sizes of the stages of a schedule; its sizes and algorithms stay.

    Raises InputError if a dimension is split between groups, so that it is not what ranks see, or times do not tell its
    bandwidth; RankFailure if a rank does not do its part.

    `coordinator`: the ranks, not yet connected.
    `repeat`: runs of each measurement.
    """
    if instance.fabric is not instance.network:
        raise InputError("dimensions that are split cannot be calibrated", field="iteration.splits")
    options = options or RunOptions(paced=False)
    trials = dict(_trials(instance, schedule))
    done = execute(
        {name: planned for name, (_, planned) in trials.items()}, coordinator, options, repeat=repeat, progress=progress
    )
    samples = []
    for executed in done.executed:
        each = [float(np.nanmax(run.end) - np.nanmin(run.start)) for run in executed.runs]
        seconds = median(each) / executed.predicted.plan.num_stages
        samples.append(replace(trials[executed.name][0], seconds=seconds))
    fits = tuple(_fit(instance, k, samples) for k in range(len(instance.network.dimensions)))
    network = instance.network.model_dump(mode="json", exclude_unset=True)
    for document, dimension, fit in zip(network["dimensions"], instance.network.dimensions, fits, strict=True):
        count = steps(dimension, CALIBRATED_KINDS[0].rule.phases[0])
        document |= {
            "bandwidth": 1 / fit.per_byte,
            "latency": f"{round(fit.latency * PICOSECONDS_PER_SECOND)} ps",
            "launch_overhead": f"{round((fit.fixed - count * fit.latency) * PICOSECONDS_PER_SECOND)} ps",
            "reduction": 1 / fit.per_sum if fit.per_sum > 0 else None,
            "packet": None,
            "source": "measured",
        }
    return NetworkCalibration(instance.replace(network=network), fits)


def _trials(instance: Instance, schedule: Schedule) -> Iterator[tuple[str, tuple[StageSample, Schedule]]]:
    """Schedules to run, by name, each with a sample that has no time yet."""
    for k, dimension in enumerate(instance.network.dimensions):
        sizes = _sizes(schedule, k)
        for kind in CALIBRATED_KINDS:
            for sent in sizes:
                yield _trial(instance, k, kind, dimension.basic_algorithm, sent)
        if steps(dimension, CALIBRATED_KINDS[0].rule.phases[0]) > 1:
            yield _trial(instance, k, CALIBRATED_KINDS[0], Algorithm.DIRECT, sizes[0])


def _sizes(schedule: Schedule, dimension: int) -> list[float]:
    """Bytes that a stage on a dimension sends; a factor of 2 to both sides where all stages are alike."""
    sent = schedule.costs.sent[schedule.plan.stage_dimensions == dimension]
    smallest, largest = (float(sent.min()), float(sent.max())) if len(sent) else (2.0**16, 2.0**20)
    if largest < 2 * smallest:
        smallest, largest = smallest / 2, largest * 2
    return [float(size) for size in np.geomspace(max(smallest, 1.0), largest, NUM_SIZES)]


def _trial(
    instance: Instance, k: int, kind: CollectiveKind, algorithm: Algorithm, sent: float
) -> tuple[str, tuple[StageSample, Schedule]]:
    dimension = instance.network.dimensions[k]
    elements = max(round(sent / (dimension.size - 1) / CALIBRATED_ELEMENT_BYTES), 1)
    changed = tuple(
        d.replace(algorithm=algorithm) if number == k else d for number, d in enumerate(instance.network.dimensions)
    )
    collective = Collective(
        kind=kind,
        size=elements * dimension.size * CALIBRATED_ELEMENT_BYTES * STAGES_IN_A_ROW,
        chunks=STAGES_IN_A_ROW,
        dimensions=(instance.network.dimension_names[k],),
        element_bytes=CALIBRATED_ELEMENT_BYTES,
    )
    problem = Instance(
        network=instance.network.varied(dimensions=changed), collectives=(collective,), latency=instance.latency
    )
    phase, real = kind.rule.phases[0], float(elements * (dimension.size - 1) * CALIBRATED_ELEMENT_BYTES)
    name = f"{instance.network.dimension_names[k]} {phase.rule.label} {algorithm} {real:.0f} B"
    return name, (StageSample(k, phase, algorithm, real, 0.0), simulate(problem, Baseline()(problem)))


def _fit(instance: Instance, k: int, samples: Sequence[StageSample]) -> StageFit:
    dimension = instance.network.dimensions[k]
    chosen = tuple(s for s in samples if s.dimension == k and s.algorithm == dimension.basic_algorithm)
    design = np.array([[1.0, s.sent, s.sent * s.phase.rule.reduces] for s in chosen])
    (fixed, per_byte, per_sum), _ = robust_fit(design, np.array([s.seconds for s in chosen]))
    if per_byte <= 0:
        rule = "takes no longer for more bytes: measure larger collectives, or again with a higher --repeat"
        raise InputError(rule, field=instance.network.dimension_names[k])
    latency, count = 0.0, steps(dimension, CALIBRATED_KINDS[0].rule.phases[0])
    direct = [s for s in samples if s.dimension == k and s.algorithm != dimension.basic_algorithm]
    if direct and count > 1:
        one_step = direct[0].seconds - direct[0].sent * per_byte
        latency = min(max((fixed - one_step) / (count - 1), 0.0), fixed / count)
    return StageFit(fixed, per_byte, per_sum, latency, chosen)
