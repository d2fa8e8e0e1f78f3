"""Virtual NPUs: the data on which a collective is tried, and what it has to make of them."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.problem.cost import path_divisors, stage_phases
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension
from themis_opt.problem.phases import Blocks, CollectiveKind, Data, Phase
from themis_opt.problem.wiring import algorithm_rule, blocks_sent, steps
from themis_opt.schedules import adasum
from themis_opt.schedules.data_movement import Traffic

MAX_VIRTUAL_NPUS = 4096
"""Above it a collective is tried on smaller dimensions: one array holds the square of it in blocks."""

MAX_RELAYING_NPUS = 256
"""The same of one ring, line or grid, whose NPUs pass on the blocks of an all-to-all one by one in as many steps."""


@dataclass(frozen=True, eq=False)
class DataTrial:
    """A collective on virtual NPUs.

    `instance`: the real one with virtual sizes along its span, and without compression.
    `exchange`: what is run; every other of this kind on this span is tried alike.
    `initial`, `expected`, shape (NPUs along each dimension, blocks along each dimension): what the NPUs hold before and
      must hold after; only the first NPU if no other must hold anything.  Where a dimension combines pairs
      (:mod:`themis_opt.schedules.adasum`) they are numbers with fractions, and what they must hold depends on the order
      of the dimensions: see :meth:`expected_along`.
    """

    instance: Instance
    exchange: Exchange
    initial: Blocks
    expected: Blocks

    @classmethod
    def of(cls, instance: Instance, exchange: Exchange, seed: int) -> Self:
        """The trial of a collective operation, on random data."""
        sizes = virtual_sizes(instance, exchange.span)
        num_npus = math.prod(sizes)
        rule = CollectiveKind(exchange.kind).rule
        num_blocks = 1 if rule.phases[0].rule.data is Data.GROW else num_npus
        generator = np.random.default_rng(seed)
        initial: Blocks = generator.integers(2**32, size=(num_npus, num_blocks), dtype=np.uint32)
        if _combines(instance, exchange):
            initial = generator.standard_normal((num_npus, num_blocks)) + 0.5
        resized = _resized(instance.group((exchange,)), dict(zip(exchange.span, sizes, strict=True)))
        tensors = (_as_tensor(matrix, sizes) for matrix in (initial, rule.outcome(initial, sizes)))
        return cls(resized, exchange, *tensors)

    def expected_along(self, path: IntArray) -> Blocks:
        """What the NPUs must hold after a path."""
        if not _combines(self.instance, self.exchange):
            return self.expected
        scatter_path = path[: len(path) // len(self.exchange.kind.rule.phases)]
        pairwise = [self.dimension(k).algorithm is Algorithm.ADASUM for k in scatter_path]
        total = adasum.outcome(self.initial, [self.exchange.span.index(k) for k in scatter_path], pairwise)
        sizes = self.initial.shape[: len(scatter_path)]
        reduced = np.zeros((math.prod(sizes), total.size))
        reduced[0] = total.ravel()
        return _as_tensor(self.exchange.kind.rule.outcome(reduced, sizes), sizes)

    def dimension(self, number: int) -> Dimension:
        """A dimension, in its virtual size."""
        return self.instance.fabric.dimensions[number]

    def charged(self, path: IntArray) -> list[Traffic]:
        """What the cost model counts for each stage of a path, when a block is one byte."""
        num_npus = math.prod(self.dimension(k).size for k in self.exchange.span)
        blocks = num_npus // path_divisors(self.instance, self.exchange.kind, path[None])[0]
        stages = zip(
            path, map(Phase, stage_phases(self.exchange.kind, len(path)).tolist()), blocks.tolist(), strict=True
        )
        return [
            Traffic(steps(self.dimension(k), phase), size * blocks_sent(self.dimension(k), phase))
            for k, phase, size in stages
        ]


def virtual_sizes(instance: Instance, span: tuple[int, ...]) -> tuple[int, ...]:
    """NPUs along each dimension of `span` on which its collectives are tried.

    All of them up to :data:`MAX_VIRTUAL_NPUS`, and :data:`MAX_RELAYING_NPUS`; else few, and no power of two where the
    size is none and the limit allows it, so that halving-doubling meets both kinds of sizes.
    """
    dimensions = [instance.fabric.dimensions[k] for k in span]
    real = tuple(dimension.size for dimension in dimensions)
    relaying = [d.size for d in dimensions if algorithm_rule(d, Phase.ALL_TO_ALL).links is not None]
    if math.prod(real) <= MAX_VIRTUAL_NPUS and max(relaying, default=0) <= MAX_RELAYING_NPUS:
        return real
    few = [dimension.kind.rule.few_npus for dimension in dimensions]
    sizes = [power_of_two for power_of_two, _ in few]
    for axis, (size, (power_of_two, other)) in enumerate(zip(real, few, strict=True)):
        if size & (size - 1) and math.prod(sizes) // power_of_two * other <= MAX_VIRTUAL_NPUS:
            sizes[axis] = other
    return tuple(sizes)


def _combines(instance: Instance, exchange: Exchange) -> bool:
    """Whether a dimension of a reduction weights what it adds."""
    pairwise = any(instance.fabric.dimensions[k].algorithm is Algorithm.ADASUM for k in exchange.span)
    return pairwise and exchange.kind.rule.phases[0].rule.reduces


def _as_tensor(matrix: Blocks, sizes: tuple[int, ...]) -> Blocks:
    """One axis per dimension in the place of the axes (NPUs, blocks)."""
    return matrix.reshape([n if rows > 1 else 1 for rows in matrix.shape for n in sizes])


def _resized(instance: Instance, sizes: dict[int, int]) -> Instance:
    dimensions = tuple(
        dimension.replace(size=sizes.get(k, dimension.size), compression=1.0)
        for k, dimension in enumerate(instance.network.dimensions)
    )
    return instance.replace(network=instance.network.replace(dimensions=dimensions))
