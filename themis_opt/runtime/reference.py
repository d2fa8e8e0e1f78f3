"""Data for a run, and its results, bit for bit.

Data are whole numbers so small that their sums are exact in every element type, so that the order of sums does not
matter and a single wrong bit is an error.  Every rank can make the data of every other rank by itself.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from themis_opt.problem.phases import CollectiveKind, Data
from themis_opt.runtime.elements import REDUCTIONS, divide, element_type, exact_limit
from themis_opt.runtime.layout import Array

FILL_SLICE = 2**16  # elements looked at at once: a rank holds little more than its buffer
TAPE = 65537  # elements after which data repeat: a prime, so that blocks of a buffer are not alike
_STRIDE = 40503  # elements between the places at which neighbouring ranks begin to read; all ranks begin elsewhere
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
"""Odd constants of the generator SplitMix64 (G. Steele et al., 2014, https://doi.org/10.1145/2714064.2660195)."""

RowSource = tuple[int, int]  # a member of a group and the row of its buffer


@lru_cache(maxsize=64)
def sources(kind: CollectiveKind, num_members: int) -> tuple[tuple[tuple[RowSource, ...], ...], ...]:
    """The sources that are added up in each row of each member's buffer in the end: the definition of the kind.

    Every row that a member holds in the beginning is one bit of a whole number, so that sums show where they come from.

    Returns sources per member and row; none where a member must hold nothing.
    """
    grows = kind.rule.phases[0].rule.data is Data.GROW
    rows = [[member] if grows else range(num_members) for member in range(num_members)]
    initial = np.array([[1 << (g * num_members + j) for j in row] for g, row in enumerate(rows)], dtype=object)
    outcome = kind.rule.outcome(initial, (num_members,))
    table: list[list[tuple[RowSource, ...]]] = [[()] * num_members for _ in range(num_members)]
    for member, row in enumerate(outcome):
        places = [member] if len(row) < num_members else range(num_members)
        for place, bits in zip(places, row, strict=True):
            table[member][place] = tuple(_sources(bits, num_members))
    return tuple(map(tuple, table))


def _sources(bits: int, num_members: int) -> Iterator[RowSource]:
    while bits:
        lowest = bits & -bits
        yield divmod(lowest.bit_length() - 1, num_members)
        bits ^= lowest


@lru_cache(maxsize=8)
def _tape(seed: int, dtype: str, num_ranks: int) -> Array:
    """The data of all ranks, followed by their begin, so that a slice from any place is one view."""
    mixed = np.arange(TAPE, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = (mixed + np.uint64(seed) * _MIX[0]) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX[1]
    limited = (mixed >> np.uint64(40)) % np.uint64(exact_limit(dtype, num_ranks) + 1)
    return _read_only(limited.astype(element_type(dtype)))


def _read_only(tape: Array) -> Array:
    longer = np.concatenate([tape, tape[: FILL_SLICE - 1]])
    longer.flags.writeable = False
    return longer


def _begin(rank: int) -> int:
    return (rank + 1) * _STRIDE % TAPE


def values(seed: int, rank: int, start: int, count: int, dtype: str, num_ranks: int) -> Array:
    """Elements of the buffer of a rank, from position `start` on; :data:`FILL_SLICE` of them at most."""
    place = (_begin(rank) + start) % TAPE
    return _tape(seed, dtype, num_ranks)[place : place + count]


def fill(buffer: Array, seed: int, rank: int, num_members: int, dtype: str) -> None:
    """Fill the buffer of a rank, shape (rows * columns,), with its data."""
    for first in range(0, len(buffer), FILL_SLICE):
        part = buffer[first : first + FILL_SLICE]
        part[:] = values(seed, rank, first, len(part), dtype, num_members)


def first_difference(
    buffer: Array, kind: CollectiveKind, seed: int, member: int, group: tuple[int, ...], dtype: str, reduction: str
) -> tuple[int, int, str, str] | None:
    """The first wrong element: its row, its column, the value it has and the right one.

    `buffer`, shape (rows * columns,): what the rank holds in the end.
    `member`: its number in the group.
    `group`: the ranks of the group.
    """
    num_columns = len(buffer) // len(group)
    for row, origin in enumerate(sources(kind, len(group))[member]):
        if not origin:
            continue
        for first in range(0, num_columns, FILL_SLICE):
            count = min(FILL_SLICE, num_columns - first)
            held = buffer[row * num_columns + first :][:count]
            expected = _reduced(origin, seed, group, first, count, num_columns, dtype, reduction)
            bits = f"u{held.itemsize}"
            differs = np.flatnonzero(held.view(bits) != expected.view(bits))
            if len(differs):
                place = int(differs[0])
                return row, first + place, str(held[place]), str(expected[place])
    return None


def _reduced(
    origin: tuple[RowSource, ...], seed: int, group: tuple[int, ...], first: int, count: int, num_columns: int,
    dtype: str, reduction: str,
) -> Array:  # fmt: skip
    (member, row), *others = origin
    if not others:
        return values(seed, group[member], row * num_columns + first, count, dtype, len(group))
    begins = tuple((_begin(group[member]) + row * num_columns) % TAPE for member, row in origin)
    return _reduced_tape(seed, begins, dtype, len(group), reduction)[first % TAPE :][:count]


@lru_cache(maxsize=32)
def _reduced_tape(seed: int, begins: tuple[int, ...], dtype: str, num_ranks: int, reduction: str) -> Array:
    """The results of ranks whose data begin at these places: sums of periodic data have the same period."""
    rule, tape = REDUCTIONS[reduction], _tape(seed, dtype, num_ranks)[:TAPE]
    total = np.roll(tape, -begins[0])
    for begin in begins[1:]:
        rule.combine(total, np.roll(tape, -begin), out=total)
    if rule.divides:
        divide(total, len(begins))
    return _read_only(total)
