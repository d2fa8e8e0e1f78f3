r"""Pieces in a window: bytes that go over one machine in as many pieces as pays, where each piece costs something.

Sets and data
    Classes :math:`g` of bytes, at positions :math:`x \in (0, S_g]`.  A byte at x arrives at least :math:`h_g(x)` after
    the window begins, and its result is needed at least :math:`u_g(x)` before it ends; neither decreases with x.
    Ways :math:`w` of a class: a piece of y bytes holds the machine for :math:`o_w + d_w y`, at the earliest
    :math:`a_w(y)` after all of its bytes arrived, and at least :math:`b_w(y)` goes by before its result is there;
    neither decreases with y.  A length L that the window has at least.

Variables
    Pieces: some bytes of one class each, and a way; :math:`T`, the length of the window.

Objective
    minimise :math:`T`

Constraints
    1. every byte is in one piece;
    2. :math:`T \ge H + U + \sum (o_w + d_w y)`, over the pieces with :math:`\max h + a_w(y) \ge H` and
       :math:`\max u + b_w(y) \ge U`, for all H and U with :math:`H + U \le L`.

It bounds every schedule from below: of the pieces of (2) the first holds the machine at H or later, they follow each
other, and after the last at least U goes by; if there are none, the right side is at most L.  Which bytes share a
piece, and the order of pieces, are free.

The bound returned is a Lagrangian relaxation of (2) for some H and U that grow together, with the largest sum L.  For
weights with sum 1 a piece that ends at position z costs :math:`c(z, y) = \min_w (o_w + d_w y) \Lambda_w(z, y)`, where
:math:`\Lambda_w` are the weights of those (H, U) that it is in.  Some cheapest pieces take the bytes in their order:
sort pieces by their last byte, and fill them anew in the order of the bytes; none then ends behind where it did, and c
does not decrease.  So the least cost of the first z bytes is :math:`V(z) = \min_y V(z - y) + c(z, y)`.

V is computed at n positions, e bytes apart.  A piece up to the position k that begins r < e bytes behind position i
costs at least :math:`\Lambda (o_w + d_w (k - i) e - d_w r)` with :math:`\Lambda = \Lambda_w(k e, (k - i - 1) e)`, and
the bytes before it at least :math:`V(i e) + r v_i`, since each of the r bytes costs :math:`v_i = \min_w d_w
\Lambda_w(i e, 0)` or more in whatever piece it is.  Both are linear in r, so that r = 0 or r = e is worst.

Any weights give a bound.  A linear programme over the pieces that were cheapest for earlier weights gives the next
ones, half way between its duals and the best weights before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from formulations.linear import FloatArray, IntArray, LoadProgramme

NUM_ROWS = 24  # pairs (H, U)
WEIGHT_ROUNDS = 40  # of weights, should they not end before: many more raise the bound little
LEAST_RAISE = 1e-3  # fraction of the bound, by which another round may raise it at least


@dataclass(frozen=True)
class OneMachineUse:
    """How pieces of a class use the machine.

    `fixed`, `rate`: o, and d of the bytes between two positions.
    `before`, `after`, shape (positions,): a and b of no bytes, of those between two positions, of twice as many, ...
    """

    fixed: float
    rate: float
    before: FloatArray
    after: FloatArray


@dataclass(frozen=True)
class PieceClass:
    """`head`, `tail`, shape (positions,): h and u at the positions, the last of which is S; `ways` of its pieces."""

    head: FloatArray
    tail: FloatArray
    ways: Sequence[OneMachineUse]


class _Cheapest(NamedTuple):
    """The cost of the cheapest pieces of one class, and what they are in each row, shape (rows,)."""

    cost: float
    loads: FloatArray


def piece_bound(classes: Sequence[PieceClass], known: float) -> float:
    """Lower bound on the length of a window that has at least the length `known`."""
    longest = [max(float(getattr(group, side)[-1]) for group in classes) for side in ("head", "tail")]
    if not sum(longest):
        return known
    scale = known / sum(longest) * np.linspace(0, 1, NUM_ROWS) ** 1.5  # most weight lies on the outer ones
    rows = scale[:, None] * longest
    priced = [_Priced(group, rows) for group in classes]
    columns: list[list[_Cheapest]] = [[] for _ in classes]
    weights = best = np.full(NUM_ROWS, 1 / NUM_ROWS)
    bound = known
    for _ in range(WEIGHT_ROUNDS):
        cheapest = [group.cheapest(weights) for group in priced]
        value = float(weights @ rows.sum(axis=1)) + sum(pieces.cost for pieces in cheapest)
        if value > bound:
            bound, best = value, weights
        for column, pieces in zip(columns, cheapest, strict=True):
            column.append(pieces)
        duals, most = _duals(rows, columns)
        if most <= bound * (1 + LEAST_RAISE):
            break
        weights = (duals + best) / 2
    return bound


class _Priced:
    """A class, and for each way the number of rows in which a piece is, by its end and its size."""

    def __init__(self, group: PieceClass, rows: FloatArray) -> None:
        self.group, self.rows = group, rows
        self.count = len(group.head)

    @cached_property
    def inside(self) -> list[IntArray]:
        """Shape (positions, positions) each: by end, and by how many distances between positions it is longer than."""
        return [
            np.minimum(
                np.searchsorted(self.rows[:, 0], self.group.head[:, None] + way.before, side="right"),
                np.searchsorted(self.rows[:, 1], self.group.tail[:, None] + way.after, side="right"),
            )
            for way in self.group.ways
        ]

    def cheapest(self, weights: FloatArray) -> _Cheapest:
        """The recursion for V."""
        until = np.append(0.0, np.cumsum(weights))
        prices = [until[inside] for inside in self.inside]
        least = np.min([way.rate * price[:, 0] for way, price in zip(self.group.ways, prices, strict=True)], axis=0)
        cells = np.arange(self.count)
        begin = np.maximum(cells[:, None] - cells, 0)
        lost = np.append(0.0, least)[begin]
        costs = np.array(
            [
                price * (way.fixed + way.rate * (cells + 1)) - np.maximum(way.rate * price - lost, 0)
                for way, price in zip(self.group.ways, prices, strict=True)
            ]
        )
        cost = costs.min(axis=0)
        value, taken = np.zeros(self.count + 1), np.zeros(self.count, dtype=np.int64)
        for end in range(self.count):
            total = value[end::-1] + cost[end, : end + 1]
            taken[end] = total.argmin()
            value[end + 1] = total[taken[end]]
        return _Cheapest(float(value[-1]), self._loads(taken, costs))

    def _loads(self, taken: IntArray, costs: FloatArray) -> FloatArray:
        """How long the pieces of the recursion hold the machine in each row."""
        loads, end = np.zeros(len(self.rows)), self.count
        while end:
            cells = int(taken[end - 1])
            number = int(costs[:, end - 1, cells].argmin())
            way = self.group.ways[number]
            loads[: self.inside[number][end - 1, cells]] += way.fixed + way.rate * (cells + 1)
            end -= cells + 1
        return loads


def _duals(rows: FloatArray, columns: Sequence[Sequence[_Cheapest]]) -> tuple[FloatArray, float]:
    """Weights of (2) for mixtures of the pieces of each class, and the least length of one: no bound is larger."""
    programme = LoadProgramme(max(float(pieces.loads.max()) for column in columns for pieces in column) or 1.0)
    load_rows = {number: programme.row(least) for number, least in enumerate(rows.sum(axis=1).tolist())}
    for column in columns:
        whole = programme.solver.Constraint(1, 1)
        for pieces in column:
            share = programme.solver.NumVar(0, 1, "share")
            whole.SetCoefficient(share, 1)
            for number, load in enumerate(pieces.loads.tolist()):
                programme.load(load_rows[number], share, load)
    weights, is_solved = programme.weights(load_rows)
    return np.array(list(weights.values())), programme.makespan if is_solved else np.inf
