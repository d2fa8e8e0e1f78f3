r"""Adasum: gradients of two NPUs are weighted so that what they have in common counts once.

.. math:: g = \Bigl(1 - \frac{a b}{2 |a|^2}\Bigr) a + \Bigl(1 - \frac{a b}{2 |b|^2}\Bigr) b

Orthogonal gradients are added, equal ones averaged (S. Maleki et al., https://arxiv.org/abs/2006.02924).  Among more
NPUs it is a tree of pairs; here NPUs at the largest distance come first, as the levels of a reduce-scatter have it.
Beside dimensions that sum, the vectors are the parts of a chunk that the NPUs of the dimension hold together, so that
products need no other NPUs.
"""

from collections.abc import Sequence

import numpy as np

from themis_opt.base.arrays import FloatArray


def combined(first: FloatArray, second: FloatArray, products: FloatArray) -> FloatArray:
    """Two gradients as one.

    `products`: of first and second, first with itself and second with itself, along the first axis; a vector of length
      zero has no weight to lose.
    """
    both, *squares = products
    weights = [1 - np.divide(both, 2 * square, out=np.zeros_like(both), where=square > 0) for square in squares]
    weighted: FloatArray = weights[0] * first + weights[1] * second
    return weighted


def outcome(initial: FloatArray, axes: Sequence[int], pairwise: Sequence[bool]) -> FloatArray:
    """What a reduction has to end with on one NPU along each dimension, from the definition, whole vectors at a time.

    `initial`, shape (NPUs along each dimension, blocks along each dimension): what NPUs hold.
    `axes`: the axes in the order in which they are reduced.
    `pairwise`: for each of them whether it combines pairs; else it sums.
    """
    num_axes = initial.ndim // 2
    whole = {num_axes + axis for axis in range(num_axes)}
    for axis, pairs in zip(axes, pairwise, strict=True):
        initial = _tree(initial, axis, tuple(sorted(whole))) if pairs else initial.sum(axis=axis, keepdims=True)
        whole.discard(num_axes + axis)
    return initial


def _tree(vectors: FloatArray, axis: int, within: tuple[int, ...]) -> FloatArray:
    """All vectors along an axis as one; products go over the axes `within`."""
    if vectors.shape[axis] == 1:
        return vectors
    first, second = np.split(vectors, 2, axis)
    pairs = ((first, second), (first, first), (second, second))
    products = np.stack([(one * other).sum(axis=within, keepdims=True) for one, other in pairs])
    return _tree(combined(first, second, products), axis, within)


def level(first: FloatArray, second: FloatArray, distance: int, others: int) -> FloatArray:
    """One level of a reduce-scatter: every NPU combines its blocks of two vectors.

    `first`, `second`, shape (NPUs, blocks, all the rest): blocks of the vectors of the nearer and of the further NPU of
      each pair.
    `distance`: of the NPUs of a pair; NPUs whose numbers differ by multiples of it hold the two vectors together and
      all-reduce their products.
    `others`: NPUs along other dimensions, the first part of the rest: they have separate vectors.
    """
    shape = (len(first), first.shape[1], others, -1)
    one, other = first.reshape(shape), second.reshape(shape)
    partial = np.stack([(a * b).sum(axis=(1, 3)) for a, b in ((one, other), (one, one), (other, other))])
    shared = partial.reshape(3, -1, distance, others).sum(axis=1, keepdims=True)
    products = np.broadcast_to(shared, (3, len(first) // distance, distance, others)).reshape(
        3, len(first), 1, others, 1
    )
    return combined(one, other, products).reshape(first.shape)
