"""Chunks to begin with where each costs something: long climbs on random networks, of which some suit all the others.

    python benchmarks/chunk_starts.py

writes the file of starts of the policy law in some minutes.  No network of the paper is asked.
"""

import random
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.compiled import Compilable, compile_at_once
from themis_opt.policies import chunk_climb
from themis_opt.policies.chunk_climb import (
    LETTERS,
    STARTS,
    ClimbSpace,
    Starts,
    begin,
    climb_space,
    climbed_block,
    columns_of,
    serve_all,
    starts_of,
)
from themis_opt.policies.chunk_law import MOST_EQUAL_CHUNKS, ChunkBlock, LawDimension, best_block, makespan

LONG = 1_200_000  # stages of a climb
LIBRARY = {2: (80, 160), 3: (200, 320), 4: (400, 560)}  # starts of so many dimensions, and networks that are climbed


def main() -> None:
    """Write the starts of two, three and four dimensions."""
    compile_at_once()
    lines = [line for width, numbers in LIBRARY.items() for line in library(width, *numbers)]
    STARTS.write_text("\n".join(lines) + "\n", encoding="ascii")


def library(width: int, entries: int, networks: int) -> list[str]:
    """Lines of the starts that together suit random networks best.

    The first climbs begin with equal chunks, the later ones with the best starts of the climbs before them.
    """
    cases = [random_case(width, seed) for seed in range(networks)]
    lines: list[str] = []
    blocks: list[ChunkBlock] = []
    for number, (network, size) in enumerate(cases):
        if number in (networks // 8, networks // 4, networks // 2):
            lines = chosen(cases[:number], blocks, entries)
        start = best_block(network, 2, size)
        blocks.append(climbed_block(network, 2, size, start, 64, LONG, starts_of(lines, width, 2)))
    return chosen(cases, blocks, entries)


def random_case(width: int, seed: int) -> tuple[list[LawDimension], float]:
    """Dimensions from fast to slow, in nanoseconds, and bytes."""
    generator = random.Random(f"{width} {seed}")
    launch, latency = 10 ** generator.uniform(2.7, 4), 10 ** generator.uniform(2, 3.3)
    occupies = generator.random() < 0.5
    network = []
    for _ in range(width):
        npus = generator.choice((2, 4, 4, 8, 8, 16, 16, 32, 64) if width < 4 else (2, 4, 4, 8, 8, 16))
        steps = generator.choice((1, npus - 1, npus.bit_length() - 1))
        delay = latency * steps * generator.choice((1, 1, 2.5))
        fixed, lag = (launch + delay, 0) if occupies else (launch, delay)
        network.append(LawDimension(npus, 10 ** generator.uniform(-2.6, -1.4), fixed, lag))
    network.sort(key=lambda dimension: dimension.byte_time * (1 - 1 / dimension.npus))
    return network, 2.0 ** generator.uniform(22, 30)


def line_of(block: ChunkBlock) -> str:
    """Number of dimensions, and letters of the scatters, gathers and share of each chunk."""
    width, line = len(block.chunks[0].path) // 2, ""
    orders, most = list(permutations(range(width))), max(chunk.share for chunk in block.chunks)
    for chunk in block.chunks:
        share = max(1, round(chunk.share / most * (len(LETTERS) ** 2 - 1)))
        numbers = orders.index(chunk.path[:width]), orders.index(chunk.path[width:]), *divmod(share, len(LETTERS))
        line += "".join(LETTERS[number] for number in numbers)
    return f"{width}{line}"


def chosen(cases: Sequence[tuple[list[LawDimension], float]], blocks: Sequence[ChunkBlock], entries: int) -> list[str]:
    """Lines of so many blocks, the next one always that with the least squares of all excesses over the climbs."""
    lines = list(dict.fromkeys(line_of(block) for block in blocks if len(block.chunks) <= MOST_EQUAL_CHUNKS))
    climbed = np.array([makespan(case[0], block, 2, case[1]) for case, block in zip(cases, blocks, strict=True)])
    excess = times_of(cases, starts_of(lines, len(cases[0][0]), 2)) / climbed - 1
    best, picked = np.full(len(cases), 1.0), []
    for _ in range(min(entries, len(lines))):
        entry = int((np.minimum(excess, best) ** 2).sum(axis=1).argmin())
        best = np.minimum(best, excess[entry])
        picked.append(lines[entry])
    print(
        f"{len(cases)} networks, {len(picked)} of {len(lines)}: mean {best.mean():.4f}, worst {best.max():.4f}",
        flush=True,
    )
    return list(dict.fromkeys(picked))


def times_of(cases: Sequence[tuple[list[LawDimension], float]], starts: Starts) -> FloatArray:
    """Makespan of every start, row by row, on every network."""
    times = np.zeros((len(starts.number), len(cases)))
    for number, (network, size) in enumerate(cases):
        length = 2 * len(network)
        space = climb_space(len(network), MOST_EQUAL_CHUNKS, length, 0)
        row = np.zeros(len(starts.number))
        TIMES.compiled(columns_of(network), starts, size, space, row)
        times[:, number] = row
    return times


def time_starts(dimensions: FloatArray, starts: Starts, size: float, space: ClimbSpace, times: FloatArray) -> None:
    """Fill in the makespan of every start."""
    for e in range(len(times)):
        begin(dimensions, size, starts, e, space.tried)
        times[e] = serve_all(dimensions, space.tried, space, np.inf)


TIMES = Compilable(time_starts, chunk_climb)

if __name__ == "__main__":
    main()
