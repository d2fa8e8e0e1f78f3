"""Pieces in a window: no bound above the best pieces of all, and start-ups that count."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from samples import every

from formulations.pieces import OneMachineUse, PieceClass, piece_bound


def partitions(elements: list[int]) -> Iterator[list[list[int]]]:
    """All ways to share elements out among pieces."""
    if not elements:
        yield []
        return
    first, *rest = elements
    for parts in partitions(rest):
        yield [[first], *parts]
        for number, part in enumerate(parts):
            yield [*parts[:number], [first, *part], *parts[number + 1 :]]


def pieces_of(group: PieceClass) -> Iterator[list[tuple[float, float, float]]]:
    """Heads, tails and loads of all pieces of bytes as long as the distance of positions, in every way."""
    for parts in partitions(list(range(len(group.head)))):
        for ways in product(group.ways, repeat=len(parts)):
            yield [
                (
                    group.head[max(part)] + way.before[len(part) - 1],
                    group.tail[max(part)] + way.after[len(part) - 1],
                    way.fixed + way.rate * len(part),
                )
                for part, way in zip(parts, ways, strict=True)
            ]


def length(pieces: list[tuple[float, float, float]], known: float) -> float:
    """The least length by (2) of the formulation."""
    heads, tails = ({0.0, *(piece[side] for piece in pieces)} for side in (0, 1))
    return max(
        head + tail + sum(load for h, t, load in pieces if h >= head and t >= tail)
        for head in heads
        for tail in tails
        if head + tail <= known or any(h >= head and t >= tail for h, t, _ in pieces)
    )


def shortest(classes: list[PieceClass], known: float) -> float:
    return min(
        length([piece for part in parts for piece in part], known) for parts in product(*map(pieces_of, classes))
    )


def random_class(generator: np.random.Generator, count: int) -> PieceClass:
    head, tail = (np.cumsum(generator.integers(0, 6, count)).astype(float) for _ in range(2))
    ways = [
        OneMachineUse(
            fixed=float(generator.integers(0, 5)),
            rate=float(generator.integers(1, 5)),
            before=np.cumsum(generator.integers(0, 4, count)).astype(float),
            after=np.cumsum(generator.integers(0, 4, count)).astype(float),
        )
        for _ in range(generator.integers(1, 3))
    ]
    return PieceClass(head, tail, ways)


@pytest.mark.parametrize("seed", every(4, range(60)))
def test_no_pieces_are_shorter(seed: int) -> None:
    generator = np.random.default_rng(seed)
    counts = generator.choice([2, 3], 2) if seed % 2 else [5]
    classes = [random_class(generator, int(count)) for count in counts]
    known = sum(len(group.head) * min(way.rate for way in group.ways) for group in classes)
    best = shortest(classes, known)
    assert piece_bound(classes, known) <= max(best, known) * (1 + 1e-9)


def test_late_bytes_cost_another_start_or_wait() -> None:
    """One byte arrives in each unit of time, and takes one; a start takes 16.  Earlier bytes are best sent earlier."""
    count, start = 256, 16
    none, arrival = np.zeros(count), np.arange(count, dtype=float)
    done = [0.0]
    for end in range(1, count + 1):
        done.append(min(max(done[begin], arrival[end - 1]) + start + end - begin for begin in range(end)))
    bound = piece_bound([PieceClass(arrival, none, [OneMachineUse(float(start), 1.0, none, none)])], float(count))
    assert count + 2 * start < 0.9 * done[-1] < bound <= done[-1]


def test_a_window_without_heads_and_tails_says_nothing_new() -> None:
    none = np.zeros(4)
    assert piece_bound([PieceClass(none, none, [OneMachineUse(1.0, 1.0, none, none)])], 5.0) == 5.0
