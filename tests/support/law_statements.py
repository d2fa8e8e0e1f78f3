"""The statements of docs/law.md, each checked in exact fractions on a random network."""

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

from themis_opt.policies.chunk_law import (
    LEAST_GAP,
    Chunk,
    ChunkBlock,
    LawDimension,
    MirroredBlocks,
    makespan,
    pair_block,
)
from themis_opt.policies.portions import Portions, joined

MOST = {2: 6, 3: 4, 4: 2, 5: 2}  # portions of a group by the number of dimensions; fractions are slow
NPUS = (2, 3, 4, 5, 6, 8, 12, 16)


def random_network(seed: int) -> tuple[LawDimension, ...]:
    """Two to five dimensions, whose bandwidths differ by up to a hundred, or by a power of two from just enough."""
    generator = random.Random(seed)
    width = 2 + seed % 4
    npus = [generator.choice(NPUS) for _ in range(width)]
    spread = generator.choice((10, 100))
    return tuple(LawDimension(size, Fraction(1, generator.randint(100 // spread, 100))) for size in npus)


def violations(seed: int) -> Iterator[str]:
    """The statements that a random network contradicts."""
    network = random_network(seed)
    portions = Portions(network, most=MOST[len(network)], rounding=0)
    for phases in (1, 2):
        least = phases * portions.least_time(tuple(range(len(network))))
        for block in blocks_of(network, portions, phases):
            time = makespan(network, block, phases, Fraction(1))
            if sum(chunk.share for chunk in block.chunks) != 1:
                yield f"{network}: the shares of {phases} phases sum to {sum(chunk.share for chunk in block.chunks)}"
            if time < least or (block.is_solid and time != least):
                yield f"{network}: {phases} phases take {time}, the bound is {least}"
        if len(network) == 2:
            block = pair_block(network, phases, MOST[2] + 1)
            yield from _of_two_dimensions(network, block, phases, makespan(network, block, phases, Fraction(1)))
        if len(network) == 3:
            yield from (each for k in range(3) for each in _of_groups(network, portions, phases, k))


def _of_groups(network: tuple[LawDimension, ...], portions: Portions, phases: int, k: int) -> Iterator[str]:
    """Theorem 5 for a dimension and the group of the others, with up to three portions that visit a group first."""
    groups = [(k,), tuple(other for other in range(3) if other != k)]
    times = [portions.least_time(group) for group in groups]
    npus = [prod(network[i].npus for i in group) for group in groups]
    place = 0 if (times[1] / times[0]) ** 2 * npus[1] >= npus[0] else 1
    first, other, r = groups[place], groups[1 - place], times[1 - place] / times[place]
    for count in range(1, 4):
        sizes = [max(Fraction(1), 2 * r / npus[place]) ** min(j, count - 1 - j) for j in range(count)]
        sizes = sizes if phases == 2 else [(r / npus[place]) ** j for j in range(count)]
        y = 1 / (1 + r * sum(sizes))
        balanced = (1 - r / npus[place]) / (1 - r / npus[place] + r - Fraction(1, npus[1 - place]))
        shares = [(other, first, y), *((first, other, size * (1 - y) / sum(sizes)) for size in sizes)]
        visits = [portions.visit(*share, phases) for share in shares]
        if y > max(balanced, 0) and all(visits):
            pieces, stages = joined(visits, times[place], phases)
            block = ChunkBlock([Chunk(piece.share, piece.path) for piece in pieces], stages, is_solid=False)
            time, expected = makespan(network, block, phases, Fraction(1)), phases * r * (y + (1 - y) / npus[place])
            if time != expected * times[place]:
                yield f"{network}: {count} portions of group {k} and the others take {time}, theorem 5 says {expected}"


def blocks_of(network: tuple[LawDimension, ...], portions: Portions, phases: int) -> Iterator[ChunkBlock]:
    """Blocks of a network: of two dimensions, mirrored, and of portions."""
    if len(network) == 2:
        yield pair_block(network, phases, MOST[2] + 1)
    blocks = [portions.block(phases)]
    if phases == 2 and len(network) in (3, 4):
        blocks.append(MirroredBlocks(network, rounding=0).block())
    yield from (block for block in blocks if block)


def _of_two_dimensions(
    network: tuple[LawDimension, ...], block: ChunkBlock, phases: int, time: Fraction
) -> Iterator[str]:
    """Theorems 1, 2 and 5: which networks are inside, how many chunks they need, and the time of too few."""
    (p1, a), (p2, b) = ((d.npus, (1 - Fraction(1, d.npus)) * d.byte_time) for d in network)
    if (b / a) ** 2 * p2 < p1:
        (p1, a), (p2, b) = (p2, b), (p1, a)
    r = b / a
    p = r / p1
    if r < p1:
        x, y = (r - Fraction(1, p2)) / (r - Fraction(1, p2) + 1 - p), (1 - p) / (r - Fraction(1, p2) + 1 - p)
        count = next((k for k in range(1, MOST[2] + 1) if is_enough(k, p, phases, r, p2, x, y)), None)
        if block.is_solid != (count is not None) or (count and len(block.chunks) != count + 1):
            yield f"{network}: {phases} phases take {len(block.chunks)} chunks, theorem 2 says {count} and one"
        expected = phases * (x + y / p2) if count else 0
    else:
        expected = 0
    if not expected:
        totals = [growth(count, p, phases, may_nest=r >= p1) for count in range(1, MOST[2] + 1)]
        few = next((count for count in range(1, MOST[2]) if r * totals[count - 1] >= p1 / LEAST_GAP), MOST[2])
        total = totals[few - 1]
        other = 1 / (1 + r * total)
        expected = phases * r * (other + (1 - other) / p1)
        if r >= p1:
            expected = min(expected, phases * p + phases / growth(few + 1, p, phases, may_nest=True))
    if time != expected * a:
        yield f"{network}: {phases} phases take {time}, theorem 5 says {expected * a}"
    if r >= p1 and phases == 2:
        growing = sum((2 * p) ** place for place in range(len(block.chunks)))
        if time < (2 * p + 1 / (3 * growing + 1)) * a:
            yield f"{network}: {time} is below the lower bound of theorem 6"


def is_enough(count: int, p: Fraction, phases: int, r: Fraction, p2: int, x: Fraction, y: Fraction) -> bool:
    """Whether so many chunks that visit the first dimension first reach the bound (theorems 1 and 2)."""
    if phases == 1:
        return p**count <= 1 / (r * p2)
    return x <= r * y * growth(count, p, phases, may_nest=False)


def growth(count: int, p: Fraction, phases: int, *, may_nest: bool) -> Fraction:
    """Sum of the sizes of chunks, of which the first is 1."""
    nested = sum(p**place for place in range(count))
    if phases == 1:
        return nested
    both = sum(max(Fraction(1), 2 * p) ** min(place, count - 1 - place) for place in range(count))
    return max(both, nested) if may_nest else both


def has_bandwidth_to_spare(network: Sequence[LawDimension]) -> bool:
    """Whether what one dimension has scattered takes another at most half as long as that scatter took."""
    times = [dimension.held(1) for dimension in network]
    pairs = [(times[i] * network[i].npus, times[j]) for i in range(len(network)) for j in range(len(network)) if i != j]
    return all(2 * other <= time for time, other in pairs)
