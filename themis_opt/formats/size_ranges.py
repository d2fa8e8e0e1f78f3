"""Ranges of message sizes, each served by one choice: as few ranges as keep every size near its fastest choice."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray

SIZE_TOLERANCE = 0.02
"""By how much of the fastest time a choice may be slower, so that ranges are few; noise of measured times is more."""


class SizeRange(NamedTuple):
    """Sizes that one choice serves."""

    first: int  # number of the smallest of the sizes that were looked at
    last: int  # number of the largest of them
    choice: int  # what serves them

    def bytes(self, sizes: Sequence[int]) -> tuple[int, int]:
        """The smallest and the largest message, in bytes: up to the next range, or to the largest of the `sizes`."""
        end = sizes[self.last + 1] - 1 if self.last + 1 < len(sizes) else sizes[self.last]
        return sizes[self.first], end


def fewest_ranges(times: FloatArray, tolerance: float = SIZE_TOLERANCE) -> list[SizeRange]:
    """Cut the sizes in as few ranges as possible, each with a choice that is near the fastest for all its sizes.

    From the smallest size on, the choice that is good for most sizes in a row takes them; among several, the fastest
    on the whole.

    `times`, shape (sizes, choices): sizes rise; infinite where a choice does not serve a size.  Every size is served by
      some.
    `tolerance`: by how much of the fastest time a choice may be slower.
    """
    relative = times / times.min(axis=1, keepdims=True)
    slow = relative > 1 + tolerance
    ranges, first = [], 0
    while first < len(times):
        runs = np.where(slow[first:].any(axis=0), slow[first:].argmax(axis=0), len(times) - first)
        longest = int(runs.max())
        excess = relative[first : first + longest].mean(axis=0)
        choice = min(np.flatnonzero(runs == longest).tolist(), key=lambda k: float(excess[k]))
        ranges.append(SizeRange(first, first + longest - 1, choice))
        first += longest
    return ranges
