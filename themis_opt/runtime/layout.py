"""Where data lie: NPUs by number, buffers as tensors, and the part of one that a stage works on.

Ranks count dimensions from the innermost outwards: rank r has along dimension k the coordinate
r / (P_1 ... P_{k-1}) mod P_k.  The members of a group that a collective spans are numbered alike.

The buffer of a collective on N NPUs is a matrix of N rows, one for each member, as MPI numbers them.  Seen as a tensor
it has one axis per dimension and a last one for the columns; a chunk is a range of columns.  Stages work on it in
place: a dimension that the chunk is scattered over is fixed at its coordinate.  So a chunk may gather in any order
and still ends at its place, without a permutation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from themis_opt.problem.phases import CollectiveKind, Data, Phase

Array = NDArray[Any]


def coordinates(rank: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Coordinates of a rank along all dimensions."""
    return tuple(map(int, np.unravel_index(rank, tuple(sizes), order="F")))


def group_of(rank: int, sizes: Sequence[int], span: Sequence[int]) -> tuple[int, ...]:
    """Ranks of the group that a collective on `span` runs in, in the order of their numbers there."""
    places, sizes_of_span = list(coordinates(rank, sizes)), tuple(sizes[k] for k in span)
    ranks = []
    for member in range(math.prod(sizes_of_span)):
        for k, place in zip(span, coordinates(member, sizes_of_span), strict=True):
            places[k] = place
        ranks.append(int(np.ravel_multi_index(places, tuple(sizes), order="F")))
    return tuple(ranks)


def cut_columns(sizes: Sequence[int], num_columns: int) -> tuple[int, ...]:
    """First column of each chunk and the number of columns: chunks have columns in proportion to their bytes.

    All chunks together are padded by less than one element per member of the group; a chunk of fewer elements may have
    no column at all.
    """
    total, before, firsts = sum(sizes), 0, [0]
    for size in sizes:
        before += size
        firsts.append((before * num_columns + total // 2) // total)
    return tuple(firsts)


@dataclass(frozen=True)
class StageView:
    """The part of a buffer that a stage works on, for one rank."""

    phase: Phase
    fixed: tuple[int | None, ...]  # per dimension of the span, where the chunk is held there; None where it is whole
    axis: int  # position of the dimension of the stage in the span
    first: int
    last: int
    takes_part: bool  # whether the rank has anything to do: where there is a root, some have not

    @cached_property
    def index(self) -> tuple[slice, ...]:
        """The part of a tensor, one slice per axis."""
        rows = (slice(None) if place is None else slice(place, place + 1) for place in reversed(self.fixed))
        return (*rows, slice(self.first, self.last))

    def of(self, tensor: Array) -> Array:
        """The view into a tensor, shape (blocks along the dimension, ..., columns)."""
        return np.moveaxis(tensor[self.index], len(self.fixed) - 1 - self.axis, 0)


def stage_view(
    kind: CollectiveKind, span: Sequence[int], places: Sequence[int], path: Sequence[int], position: int, first: int,
    last: int,
) -> StageView:  # fmt: skip
    """The part of a buffer that the stage at a position of a path works on.

    `places`: coordinates of the rank along all dimensions of the network.
    `first`, `last`: columns of the chunk.
    """
    phases = kind.rule.phases
    width = len(path) // len(phases)
    phase, dimension = phases[position // width], path[position]
    phase_path = path[position // width * width :][:width]
    before, after = phase_path[: position % width], phase_path[position % width + 1 :]
    scattered = {Data.SHRINK: before, Data.GROW: after, Data.STAY: []}[phase.rule.data]
    unheld = {Data.SHRINK: after, Data.GROW: before, Data.STAY: []}[phase.rule.data] if phase.rule.rooted else []
    return StageView(
        phase=phase,
        fixed=tuple(places[k] if k in scattered else None for k in span),
        axis=list(span).index(dimension),
        first=first,
        last=last,
        takes_part=all(places[k] == 0 for k in unheld),
    )
