r"""Rails: links side by side, over which a stage sends parts of its bytes at once.

Rail r of bandwidth :math:`b_r` is late by :math:`e_r`, its extra launch overhead and its extra latency in every step:
a part of :math:`n_r` bytes has arrived :math:`e_r + n_r / b_r` after the stage began to send; no part, no time.  The
parts that sum to n bytes and arrive first solve the linear programme: minimise t, where

.. math:: \sum_r n_r = n, \qquad 0 \le n_r \le b_r \max(t - e_r, 0).

Its optimum fills all rails to one level, as water does: :math:`n = \sum_r b_r \max(t - e_r, 0)`.  The right side is
convex in t, the largest of the sums over the k rails that are least late, so with :math:`B_k = \sum_{r \le k} b_r`

.. math:: t(n) = \min_k \Big( n + \sum_{r \le k} b_r e_r \Big) \Big/ B_k ,

which is concave: several chunks take no less than one of all their bytes, and never less than n over the bandwidth of
all rails.  A stage holds all rails of its dimension until its last part has arrived, but for the latency that all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.problem.wiring import exactly, steps

if TYPE_CHECKING:
    from themis_opt.base.arrays import FloatArray
    from themis_opt.problem.network import Dimension
    from themis_opt.problem.phases import Phase


class Line(NamedTuple):
    """A time that is affine in bytes, in picoseconds: with so many rails, those that are least late."""

    per_byte: Fraction
    offset: Fraction


def lines(dimension: Dimension, phase: Phase) -> tuple[Line, ...]:
    """The lines whose least one is the time of a stage; a single one where there are no rails."""
    if not dimension.rails:
        return (Line(PICOSECONDS_PER_SECOND / exactly(dimension.bandwidth), Fraction(0)),)
    bandwidth, late, affine = Fraction(0), Fraction(0), []
    for lateness_of_rail, rail in sorted(
        zip(lateness(dimension, phase), dimension.rails, strict=True), key=lambda pair: pair[0]
    ):
        bandwidth += exactly(rail.bandwidth)
        late += exactly(rail.bandwidth) * lateness_of_rail
        affine.append(Line(PICOSECONDS_PER_SECOND / bandwidth, late / bandwidth))
    return tuple(affine)


def lateness(dimension: Dimension, phase: Phase) -> tuple[int, ...]:
    """Picoseconds by which a part on each rail is late, whatever its bytes."""
    count = steps(dimension, phase)
    return tuple(rail.extra_launch_overhead + count * rail.extra_latency for rail in dimension.rails)


def parts(dimension: Dimension, phase: Phase, sizes: FloatArray) -> FloatArray:
    """The bytes, of stages with headers, that each rail carries, shape (stages, rails); none where it would be late."""
    late = np.array(lateness(dimension, phase))
    extra = late - late.min()  # so that parts that take much less time than they are late are not lost in it
    bandwidth = np.array([rail.bandwidth for rail in dimension.rails])
    by_lateness = np.argsort(extra, kind="stable")
    together, behind = (np.cumsum(values[by_lateness]) for values in (bandwidth, bandwidth * extra))
    levels = ((PICOSECONDS_PER_SECOND * sizes[:, None] + behind) / together).min(axis=1)
    carried = np.maximum(levels[:, None] - extra, 0.0) * bandwidth
    whole: FloatArray = carried * (sizes / carried.sum(axis=1))[:, None]
    return whole


def used_from(dimension: Dimension, phase: Phase) -> FloatArray:
    """Bytes of a stage above which each rail carries a part, shape (rails,)."""
    late, bandwidth = np.array(lateness(dimension, phase)), [rail.bandwidth for rail in dimension.rails]
    before: FloatArray = (np.maximum(late[:, None] - late, 0) * bandwidth).sum(axis=1) / PICOSECONDS_PER_SECOND
    return before


def refuse_rails(dimensions: Sequence[Dimension], runtime: str) -> None:
    """Refuse links side by side, by an InputError, where parts of a stage cannot be sent over chosen ones."""
    for number, dimension in enumerate(dimensions):
        if dimension.rails:
            rule = f"{runtime} cannot say what each rail carries; give the dimension of all rails, without them"
            raise InputError(rule, field=f"network.dimensions[{number}].rails")
