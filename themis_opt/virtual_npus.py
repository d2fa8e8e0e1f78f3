"""Virtual NPUs: the data on which a collective is tried, and what it has to make of them."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from themis_opt.cost import IntArray, Phase, path_costs, stage_phases, steps
from themis_opt.data_movement import Tensor, Traffic
from themis_opt.instance import Collective, CollectiveKind, Dimension, Instance

MAX_VIRTUAL_NPUS = 4096
"""Above it a collective is tried on smaller dimensions: one array holds the square of it in blocks."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A collective on virtual NPUs.

    Attributes
    ----------
    instance : Instance
        The real one with virtual sizes along `span`, and without compression.
    collective : Collective
        One of its collectives; every other of this kind on this span is tried alike.
    span : tuple of int
        Dimensions of the collective.
    initial, expected : uint32 array, shape (NPUs along each dimension, blocks along each dimension)
        What the NPUs hold before and after.
    """

    instance: Instance
    collective: Collective
    span: tuple[int, ...]
    initial: Tensor
    expected: Tensor

    @classmethod
    def of(cls, instance: Instance, number: int, seed: int) -> Self:
        """The trial of a collective, on random data."""
        collective, span = instance.collectives[number], instance.spans[number]
        sizes = virtual_sizes(instance, span)
        num_npus = math.prod(sizes)
        num_blocks = 1 if collective.kind is CollectiveKind.ALL_GATHER else num_npus
        generator = np.random.default_rng(seed)
        initial = generator.integers(2**32, size=(num_npus, num_blocks), dtype=np.uint32)
        resized = _resized(instance, dict(zip(span, sizes, strict=True)))
        tensors = (_as_tensor(matrix, sizes) for matrix in (initial, _outcome(collective.kind, initial)))
        return cls(resized, collective, span, *tensors)

    def dimension(self, number: int) -> Dimension:
        """A dimension, in its virtual size."""
        return self.instance.network.dimensions[number]

    def charged(self, path: IntArray) -> list[Traffic]:
        """What the cost model counts for each stage of a path, when a block is one byte."""
        num_npus = np.array([math.prod(self.dimension(k).size for k in self.span)])
        sent = path_costs(self.instance, self.collective, num_npus, path[None]).sent[0]
        phases = stage_phases(self.collective.kind, len(path))
        num_steps = [steps(self.dimension(k), Phase(phase)) for k, phase in zip(path, phases, strict=True)]
        return [Traffic(count, int(blocks)) for count, blocks in zip(num_steps, sent, strict=True)]


def virtual_sizes(instance: Instance, span: tuple[int, ...]) -> tuple[int, ...]:
    """NPUs along each dimension of `span` on which its collectives are tried.

    All of them up to :data:`MAX_VIRTUAL_NPUS`; else 2, and 3 where the size is no power of two and the limit
    allows it, so that halving-doubling meets both kinds of sizes.
    """
    real = tuple(instance.network.sizes[k] for k in span)
    if math.prod(real) <= MAX_VIRTUAL_NPUS:
        return real
    sizes = [2] * len(real)
    for axis, size in enumerate(real):
        if size & (size - 1) and math.prod(sizes) // 2 * 3 <= MAX_VIRTUAL_NPUS:
            sizes[axis] = 3
    return tuple(sizes)


def _outcome(kind: CollectiveKind, initial: Tensor) -> Tensor:
    """The definition of each collective, on arrays of shape (NPUs, blocks)."""
    num_npus = len(initial)
    if kind is CollectiveKind.ALL_TO_ALL:
        return initial.T
    if kind is CollectiveKind.ALL_GATHER:
        return np.broadcast_to(initial[:, 0], (num_npus, num_npus))
    total: Tensor = initial.sum(axis=0, dtype=initial.dtype)
    if kind is CollectiveKind.REDUCE_SCATTER:
        return total[:, None]
    return np.broadcast_to(total, (num_npus, num_npus))


def _as_tensor(matrix: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """One axis per dimension in the place of the axes (NPUs, blocks)."""
    return matrix.reshape(sizes + (sizes if matrix.shape[1] > 1 else (1,) * len(sizes)))


def _resized(instance: Instance, sizes: dict[int, int]) -> Instance:
    dimensions = tuple(
        dimension.replace(size=sizes.get(k, dimension.size), compression=1.0)
        for k, dimension in enumerate(instance.network.dimensions)
    )
    return instance.replace(network=instance.network.replace(dimensions=dimensions))
