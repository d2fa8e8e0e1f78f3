"""A plan: how each collective is cut in chunks, the path of every chunk, and who goes first on a dimension."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from themis_opt.cost import PHASES, FloatArray, IntArray, Phase, StageCosts, path_costs, read_only, stage_phases
from themis_opt.instance import Collective, Instance


class Stage(NamedTuple):
    """One visit of a chunk to a dimension; all fields are indices, `position` counts along the path."""

    collective: int
    chunk: int
    position: int
    phase: Phase
    dimension: int


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of one collective.

    Attributes
    ----------
    sizes : int64 array, shape (chunks,)
        Bytes of each chunk, counted like the size of the collective.
    paths : int64 array, shape (chunks, stages)
        Dimension of each stage.  The path of an all-reduce is its scatter order followed by its gather order.
    """

    sizes: IntArray
    paths: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", read_only(self.sizes))
        object.__setattr__(self, "paths", read_only(self.paths))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Chunks)
            and np.array_equal(self.sizes, other.sizes)
            and np.array_equal(self.paths, other.paths)
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """What a policy decides.

    Stages are numbered through: collective by collective, chunk by chunk, along the path.

    Attributes
    ----------
    chunks : tuple of Chunks
        One entry per collective of the instance.
    dispatch : str
        Rule that picks among the waiting stages of a dimension, a key of
        :data:`themis_opt.dispatch.DISPATCH`.
    sequences : tuple of (int64 array or None)
        Per dimension the stage numbers in the order to enforce, or None where `dispatch` rules; empty when
        it rules everywhere.
    """

    chunks: tuple[Chunks, ...]
    dispatch: str = "fifo"
    sequences: tuple[IntArray | None, ...] = ()

    def __post_init__(self) -> None:
        frozen = tuple(None if s is None else read_only(s) for s in self.sequences)
        object.__setattr__(self, "sequences", frozen)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and self.chunks == other.chunks
            and self.dispatch == other.dispatch
            and len(self.sequences) == len(other.sequences)
            and all(_same(a, b) for a, b in zip(self.sequences, other.sequences, strict=True))
        )

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first stage of each collective, and the number of stages."""
        return (0, *np.cumsum([c.paths.size for c in self.chunks]).tolist())

    @property
    def num_stages(self) -> int:
        """Stages of the whole plan."""
        return self.offsets[-1]

    @cached_property
    def stage_dimensions(self) -> IntArray:
        """Dimension of every stage, shape (stages,)."""
        return read_only(np.concatenate([c.paths.ravel() for c in self.chunks]))

    def stage_of(self, instance: Instance, number: int) -> Stage:
        """The stage with a number."""
        collective = int(np.searchsorted(self.offsets, number, side="right")) - 1
        paths = self.chunks[collective].paths
        chunk, position = divmod(number - self.offsets[collective], paths.shape[1])
        phase = Phase(stage_phases(instance.collectives[collective].kind, paths.shape[1])[position])
        return Stage(collective, chunk, position, phase, int(paths[chunk, position]))

    def stages(self, instance: Instance) -> Iterator[Stage]:
        """All stages, in the order of their numbers."""
        return (self.stage_of(instance, number) for number in range(self.num_stages))

    def label(self, instance: Instance, number: int) -> str:
        """A stage in words, such as ``gradients chunk 3 reduce_scatter on dim2``."""
        stage = self.stage_of(instance, number)
        name, dimension = instance.labels[stage.collective], instance.network.dimension_names[stage.dimension]
        return f"{name} chunk {stage.chunk} {stage.phase.name.lower()} on {dimension}"

    def costs(self, instance: Instance) -> StageCosts:
        """Costs of every stage, arrays of shape (stages,)."""
        parts = [
            path_costs(instance, collective, chunks.sizes, chunks.paths)
            for collective, chunks in zip(instance.collectives, self.chunks, strict=True)
        ]
        return StageCosts(*(np.concatenate([a.ravel() for a in arrays]) for arrays in zip(*parts, strict=True)))

    def releases(self, instance: Instance) -> IntArray:
        """Release of the collective of every stage in picoseconds, shape (stages,)."""
        pairs = zip(self.chunks, instance.collectives, strict=True)
        return np.concatenate([np.full(own.paths.size, collective.release) for own, collective in pairs])

    def phases(self, instance: Instance) -> IntArray:
        """Phase of every stage, shape (stages,)."""
        pairs = zip(self.chunks, instance.collectives, strict=True)
        return np.concatenate([np.tile(stage_phases(c.kind, own.paths.shape[1]), len(own.sizes)) for own, c in pairs])

    def enforcing(self, sequences: tuple[IntArray, ...]) -> Self:
        """The same chunks with these sequences enforced."""
        return replace(self, sequences=sequences)

    def in_order_of(self, starts: IntArray | FloatArray, num_dimensions: int) -> Self:
        """The same chunks, every dimension serving its stages by their `starts`, shape (stages,).

        Equal starts are ordered by position along the path, so that stages of no length cannot make the sequences
        wait for each other.
        """
        position = np.concatenate([np.tile(np.arange(c.paths.shape[1]), len(c.paths)) for c in self.chunks])
        order = np.lexsort((np.arange(self.num_stages), position, starts))
        dimension = self.stage_dimensions[order]
        return self.enforcing(tuple(order[dimension == k] for k in range(num_dimensions)))


def _same(a: IntArray | None, b: IntArray | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def equal_sizes(collective: Collective) -> IntArray:
    """Chunk sizes that differ by at most one element, shape (chunks,), the larger ones first."""
    elements, extra = divmod(collective.size // collective.element_bytes, collective.chunks)
    sizes = np.full(collective.chunks, elements, dtype=np.int64)
    sizes[:extra] += 1
    return sizes * collective.element_bytes


def fixed_path(collective: Collective, span: tuple[int, ...]) -> tuple[int, ...]:
    """Today's fixed order: scatter (and all-to-all) inwards out, gather outwards in."""
    legs = {Phase.REDUCE_SCATTER: span, Phase.ALL_GATHER: span[::-1], Phase.ALL_TO_ALL: span}
    return tuple(k for phase in PHASES[collective.kind] for k in legs[phase])
