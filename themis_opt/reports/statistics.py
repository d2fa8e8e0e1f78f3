"""Figures that describe many numbers at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """How numbers are spread: how many there are, and their quantiles."""

    count: int
    mean: float
    least: float
    median: float
    p90: float
    largest: float


def spread(values: Sequence[float]) -> Spread | None:
    """How `values` are spread; None if there are none."""
    if not values:
        return None
    array = np.asarray(values)
    least, median, p90, largest = np.quantile(array, (0, 0.5, 0.9, 1)).tolist()
    return Spread(len(values), float(array.mean()), least, median, p90, largest)


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean of positive numbers; None if there are none."""
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def share(part: int, whole: int) -> float | None:
    """A part as a fraction; None of nothing."""
    return part / whole if whole else None


def distribution(values: Sequence[float], digits: int = 6) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Empirical distribution function: the distinct values, and the share of values up to each.

    Values that agree in so many significant digits are one, which keeps files small.  The first value comes
    twice, with a share of 0 before.
    """
    rounded = [float(f"{value:.{digits - 1}e}") for value in values]
    distinct, counts = np.unique(rounded, return_counts=True)
    shares = np.cumsum(counts) / max(len(rounded), 1)
    return (*distinct[:1].tolist(), *distinct.tolist()), (*[0.0] * min(len(counts), 1), *shares.tolist())


def power_law(x: Sequence[float], y: Sequence[float]) -> float | None:
    """The exponent of the power of x that fits y best, by least squares of logarithms.

    None unless there are two different positive x.
    """
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 2:
        return None
    abscissas, ordinates = np.asarray(points).T
    centred = abscissas - abscissas.mean()
    return float(centred @ (ordinates - ordinates.mean()) / (centred @ centred))
