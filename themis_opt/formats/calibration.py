r"""What a dimension costs, from measured times of collectives on it alone: a robust fit that says where it fails.

Data
    Measurements :math:`i` of a collective of :math:`s_i` bytes on :math:`P_i` NPUs that took :math:`t_i`.
Model
    A collective of :math:`p` phases with :math:`k` steps in all sends :math:`n = p s (P - 1) / P` bytes and takes
    :math:`p \, o + k \, a + n / B` (:mod:`themis_opt.problem.cost`, one chunk): launch overhead :math:`o`, latency
    :math:`a`, bandwidth :math:`B`.
Objective
    The sum of Tukey's biweight loss over the residuals relative to the fitted times, so that small and large messages
    count alike and outliers not at all, by least squares that are reweighted until they stay; o, a, 1/B >= 0.  The
    start is the same with Huber's loss, which has one minimum (an MM-estimate: V. J. Yohai, 1987,
    https://doi.org/10.1214/aos/1176350366).  Under normal noise nearly as exact as any unbiased estimate can be.

Warnings
--------
    Where the median residual of neighbouring sizes is large, the model does not hold: protocols change with the size,
    or the network is no such dimension.  Where a value has a large standard error, the measurements do not tell it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_rate, format_short_time, format_size
from themis_opt.problem.network import Algorithm, Dimension, Kind
from themis_opt.problem.phases import CollectiveKind
from themis_opt.problem.wiring import blocks_sent, steps


class Measurement(NamedTuple):
    """A collective that was timed on one dimension alone."""

    kind: CollectiveKind
    size: int  # bytes, counted like the size of a collective
    num_npus: int  # NPUs of the group
    time: float  # picoseconds
    hosts: int = 0  # hosts of the group, with as many NPUs each; 0 where they are not known
    ranks: tuple[int, ...] = ()  # NPUs of the group, where they are known
    place: str = ""  # in place or out of place, where the log tells both


HUBER, BIWEIGHT = 1.345, 7.04
"""Standard deviations beyond which residuals count less in the start, and not at all in the end: they keep 95 and 99 %
of the efficiency of least squares under normal noise (P. J. Huber)."""

MAX_REWEIGHTING = 100  # rounds of start and end each; weights stay after about ten
RUN_OF_SIZES, LARGEST_DEVIATION = 3, 0.10
"""Neighbouring sizes whose median residual must not be larger, three times the noise of a usual log, for the model to
hold: a lone outlier says nothing."""

FAR_OFF = 0.50  # of the fit; times so far off are named

LARGEST_UNCERTAINTY = 0.10  # relative standard error above which a value is not told by the measurements


@dataclass(frozen=True, eq=False)
class Calibration:
    """The costs of a dimension, taken for a ring, that fit measurements best."""

    bandwidth: float  # bytes per second of one NPU
    latency: float  # picoseconds of a step
    launch_overhead: float  # picoseconds of a stage
    errors: dict[str, float]  # relative standard error of each value that was fitted, by its name
    measurements: tuple[Measurement, ...]
    fitted: FloatArray  # shape (measurements,): picoseconds that the model gives
    warnings: tuple[str, ...]  # where the model does not hold, and what the measurements do not tell

    @property
    def residuals(self) -> FloatArray:
        """Measured over fitted times, minus 1; shape (measurements,)."""
        residuals: FloatArray = _times(self.measurements) / self.fitted - 1
        return residuals

    def dimension(self, size: int, **more: Any) -> Dimension:
        """A dimension of some NPUs with these costs."""
        launch = round(self.launch_overhead)
        return Dimension(
            kind=Kind.RING,
            algorithm=Algorithm.RING,
            size=size,
            bandwidth=self.bandwidth,
            latency=f"{round(self.latency)} ps",
            **({"launch_overhead": f"{launch} ps"} if launch else {}),
            **more,
        )

    def rows(self) -> list[dict[str, str]]:
        """One row per measurement, in words."""
        return [
            {
                "collective": measurement.kind.value,
                "NPUs": str(measurement.num_npus),
                "size": format_size(measurement.size),
                "measured": format_short_time(measurement.time),
                "fitted": format_short_time(float(fitted)),
                "residual": format_percent(float(residual)),
            }
            for measurement, fitted, residual in zip(self.measurements, self.fitted, self.residuals, strict=True)
        ]

    def values(self) -> list[dict[str, str]]:
        """One row per value, in words."""
        words = {
            "bandwidth": format_rate(self.bandwidth),
            "latency": format_short_time(self.latency),
            "launch_overhead": format_short_time(self.launch_overhead),
        }
        errors = {name: f"+-{format_percent(error)}" for name, error in self.errors.items()}
        return [{"value": name, "fit": text, "standard error": errors.get(name, "-")} for name, text in words.items()]


_COSTS = ("launch_overhead", "latency", "bandwidth")  # the values in the order of the columns of the model


def calibrate(measurements: Sequence[Measurement]) -> Calibration:
    """Fit the costs of a dimension, a ring that runs the algorithm of rings, to measured times.

    Raises InputError if there are too few measurements, or a time, size or group is not positive.

    `measurements`: at least four, of two sizes or more.
    """
    for number, measurement in enumerate(measurements):
        if not (measurement.time > 0 and measurement.size > 0 and measurement.num_npus > 1):
            rule = "must have a positive time and size, and two NPUs or more"
            raise InputError(rule, field=f"measurements[{number}]", value=tuple(measurement))
    if len(measurements) < 4 or len({measurement.size for measurement in measurements}) < 2:
        rule = "must be at least 4, of two sizes or more: latency and bandwidth are not told by fewer"
        raise InputError(rule, field="measurements", value=len(measurements))
    design = np.array([_row(measurement) for measurement in measurements])
    ratio = design[:, 1] / design[:, 0]  # where steps follow stages, all of a step is latency
    columns = [1, 2] if np.allclose(ratio, ratio[0]) else [0, 1, 2]
    chosen, weights = robust_fit(design[:, columns], _times(measurements))
    values = np.zeros(len(_COSTS))
    values[columns] = chosen
    if not values[-1] > 0:
        raise InputError("times do not grow with sizes, so they tell no bandwidth", field="measurements")
    fitted: FloatArray = design @ values
    errors = _errors(design[:, columns], fitted, _times(measurements), chosen, weights)
    calibration = Calibration(
        bandwidth=PICOSECONDS_PER_SECOND / float(values[2]),
        latency=float(values[1]),
        launch_overhead=float(values[0]),
        errors={_COSTS[columns[k]]: error for k, error in errors.items()},
        measurements=tuple(measurements),
        fitted=fitted,
        warnings=(),
    )
    return replace(calibration, warnings=tuple(_warnings(calibration)))


def _row(measurement: Measurement) -> tuple[float, float, float]:
    """Stages, steps and bytes sent: what launch overhead, latency and the inverse of bandwidth multiply."""
    dimension = Dimension(kind=Kind.RING, size=measurement.num_npus, bandwidth=1.0)
    phases = measurement.kind.rule.phases
    num_steps = sum(steps(dimension, phase) for phase in phases)
    num_blocks = sum(blocks_sent(dimension, phase) for phase in phases)
    return len(phases), num_steps, measurement.size * num_blocks / measurement.num_npus


def _times(measurements: Sequence[Measurement]) -> FloatArray:
    return np.array([measurement.time for measurement in measurements], dtype=np.float64)


def robust_fit(design: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The values of the columns of a model of some times, none negative, by the objective of this module.

    `design`, shape (measurements, columns): the factor of each value in each time.
    `times`, shape (measurements,).
    Returns arrays, shapes (columns,) and (measurements,): the values, and how much each measurement counts,
      from 0 to 1.
    """
    start = _non_negative(design / times[:, None], np.ones(len(times)), np.ones(len(times)))
    start, _ = _reweighted(design, times, start, lambda deviations: np.minimum(1.0, HUBER / deviations))
    return _reweighted(design, times, start, lambda deviations: np.maximum(1 - (deviations / BIWEIGHT) ** 2, 0.0) ** 2)


def _reweighted(
    design: FloatArray, times: FloatArray, values: FloatArray, weigh: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Values and weights for a loss from those before; `weigh` has residuals in standard deviations.

    Rows and times are divided by the fitted times, which have no noise: by the measured ones, small times count more.
    """
    weights = np.ones(len(times))
    for _ in range(MAX_REWEIGHTING):
        fitted = design @ values
        if not (fitted > 0).all():
            break
        residuals = np.abs(times / fitted - 1)
        scale = 1.4826 * float(np.median(residuals))  # the standard deviation, of normal noise
        if scale < 1e-12:
            break
        weights = weigh(np.maximum(residuals / scale, 1e-300))
        before, values = values, _non_negative(design / fitted[:, None], times / fitted, weights)
        if np.allclose(before, values, rtol=1e-10, atol=0):
            break
    return values, weights


def _non_negative(rows: FloatArray, right: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted least squares with values of at least 0: the best of those with some values at 0."""
    root = np.sqrt(weights)
    columns = range(rows.shape[1])
    best, least = np.zeros(rows.shape[1]), np.inf
    for count in range(1, len(columns) + 1):
        for kept in combinations(columns, count):
            matrix = rows[:, kept] * root[:, None]
            scale = np.linalg.norm(matrix, axis=0)  # picoseconds per byte and per step differ by many orders
            scale[scale == 0] = 1.0
            solution = np.linalg.lstsq(matrix / scale, right * root, rcond=None)[0] / scale
            if (solution < 0).any():
                continue
            loss = float((weights * (rows[:, kept] @ solution - right) ** 2).sum())
            if loss < least:
                least, best = loss, np.zeros(rows.shape[1])
                best[list(kept)] = solution
    return best


def _errors(
    design: FloatArray, fitted: FloatArray, times: FloatArray, values: FloatArray, weights: FloatArray
) -> dict[int, float]:
    """Relative standard errors of the values that are not 0, by their numbers, from the weighted residuals."""
    kept = np.flatnonzero(values > 0)
    matrix = design[:, kept] / fitted[:, None] * values[kept] * np.sqrt(weights)[:, None]
    freedom = max(len(times) - len(kept), 1)
    variance = float((weights * (times / fitted - 1) ** 2).sum()) / freedom
    covariance = variance * np.linalg.pinv(matrix.T @ matrix)
    return {int(k): float(np.sqrt(max(covariance[j, j], 0.0))) for j, k in enumerate(kept)}


def _warnings(calibration: Calibration) -> list[str]:
    warnings = []
    worst, size = _worst_run(calibration)
    if abs(worst) > LARGEST_DEVIATION:
        warnings.append(
            f"outside the model: around {format_size(size)} collectives take {format_percent(abs(worst))} "
            f"{'more' if worst > 0 else 'less'} than the fit; protocols or algorithms change with the size, so "
            "calibrate the range of sizes that is used"
        )
    off = np.abs(calibration.residuals)
    if abs(worst) <= LARGEST_DEVIATION and off.max() > FAR_OFF:
        farthest = calibration.rows()[int(off.argmax())]
        warnings.append(
            f"{(off > FAR_OFF).sum()} of {len(off)} times are more than half off the fit, which counts them little: "
            f"{farthest['collective']} of {farthest['size']} takes {farthest['measured']} for {farthest['fitted']}"
        )
    for name, error in calibration.errors.items():
        if error > LARGEST_UNCERTAINTY:
            warnings.append(f"{name} is not told by these sizes: its standard error is {format_percent(error)}")
    if "latency" not in calibration.errors:
        warnings.append("latency is not told by these sizes: the best fit has none")
    return warnings


def _worst_run(calibration: Calibration) -> tuple[float, int]:
    """The median residual of neighbouring sizes that is farthest from 0, and the size in their middle."""
    worst, place = 0.0, calibration.measurements[0].size
    keys = [(measurement.kind.value, measurement.num_npus) for measurement in calibration.measurements]
    for key in sorted(set(keys)):
        chosen: IntArray = np.array([k for k, other in enumerate(keys) if other == key])
        sizes = np.array([calibration.measurements[k].size for k in chosen])
        levels = np.unique(sizes)
        medians = np.array([np.median(calibration.residuals[chosen[sizes == level]]) for level in levels])
        for start in range(max(len(levels) - RUN_OF_SIZES + 1, 1)):
            run = float(np.median(medians[start : start + RUN_OF_SIZES]))
            if abs(run) > abs(worst):
                worst, place = run, int(levels[min(start + RUN_OF_SIZES // 2, len(levels) - 1)])
    return worst, place
