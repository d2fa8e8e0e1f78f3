"""A short climb from blocks of the law of chunks, for networks where chunks cost something (docs/law.md, section 6).

The loop is plain code of arrays and numbers, which runs interpreted as well as compiled, with the same result.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.policies.chunk_law import MOST_EQUAL_CHUNKS, Chunk, ChunkBlock, LawDimension

WORK = 100_000  # stages that a climb serves, about 4 ms
HEAT = 0.02  # part of the time that a change may cost at first
NPUS, PER_BYTE, START_UP, LAG = range(4)  # columns of dimensions


class Few(NamedTuple):
    """Few chunks.

    `number`, shape (1,): of the chunks; `paths`, shape (most chunks, stages): dimensions; `shares`: of the data.
    """

    number: IntArray
    paths: IntArray
    shares: FloatArray


class ClimbSpace(NamedTuple):
    """Work space: per dimension and chunk when it is free, ready, where in its path, and with how many bytes.

    `served`: chunks in the order of their stages.  `state`, shape (1,): of the random numbers.
    """

    free: FloatArray
    ready: FloatArray
    places: IntArray
    parts: FloatArray
    served: IntArray
    state: IntArray


def climbed_block(
    network: Sequence[LawDimension], phases: int, size: float, start: ChunkBlock, most_chunks: int
) -> ChunkBlock:
    """The best block of a climb from the chunks of another block."""
    most, length = max(min(most_chunks, MOST_EQUAL_CHUNKS), len(start.chunks)), len(start.chunks[0].path)
    best, now, tried = (
        Few(np.zeros(1, np.int64), np.zeros((most, length), np.int64), np.zeros(most)) for _ in range(3)
    )
    best.number[0] = len(start.chunks)
    for i, chunk in enumerate(start.chunks):
        best.paths[i], best.shares[i] = chunk.path, chunk.share
    served, state = np.zeros(most * length, np.int64), np.ones(1, np.int64)
    space = ClimbSpace(np.zeros(len(network)), np.zeros(most), np.zeros(most, np.int64), np.zeros(most), served, state)
    dimensions = np.array([(d.npus, d.held(1) - d.fixed, d.fixed, d.lag) for d in network], dtype=np.float64)
    run = CLIMB.function if CLIMB.interprets(WORK) else CLIMB.compiled
    run(dimensions, phases, float(size), most, best, now, tried, space)
    count, places = int(best.number[0]), [0] * most
    stages = []
    for i in served[: count * length].tolist():
        stages.append((i, places[i]))
        places[i] += 1
    chunks = [Chunk(float(best.shares[i]), tuple(best.paths[i].tolist())) for i in range(count)]
    return ChunkBlock(chunks, stages, is_solid=False)


def climb(
    dimensions: FloatArray, phases: int, size: float, most: int, best: Few, now: Few, tried: Few, space: ClimbSpace
) -> None:
    """Change `best` at random, as long as the work lasts; fills `space.served` with the order of its stages.

    A change is kept if it costs at most a random part of the time, which falls to zero.
    """
    time = least = serve_all(dimensions, phases, size, best, space, np.inf)
    copy(best, now)
    left = WORK
    while left > 0:
        chance = draw(space, 4096) / 4096
        limit = time * (1 + HEAT * chance * chance * left / WORK)
        copy(now, tried)
        change(tried, most, phases, space)
        while draw(space, 3) == 0:
            change(tried, most, phases, space)
        changed = serve_all(dimensions, phases, size, tried, space, limit)
        stages = tried.number[0] * tried.paths.shape[1]
        left -= stages // 2 if changed == np.inf else stages
        if changed <= limit:
            time = changed
            copy(tried, now)
        if changed < least:
            least = changed
            copy(tried, best)
    serve_all(dimensions, phases, size, best, space, np.inf)


def serve_all(dimensions: FloatArray, phases: int, size: float, few: Few, space: ClimbSpace, limit: float) -> float:
    """Makespan if what can begin first is served first; infinite if it is above a limit.

    The middle of a chunk goes before first scatters and last gathers.
    """
    count, length, width = few.number[0], few.paths.shape[1], len(dimensions)
    last = 2 * width - 1
    end = 0.0
    for k in range(width):
        space.free[k] = 0.0
    for i in range(count):
        space.ready[i], space.places[i], space.parts[i] = 0.0, 0, few.shares[i] * size
    for number in range(count * length):
        begin, chosen, is_end = np.inf, 0, True
        for i in range(count):
            place = space.places[i]
            if place == length:
                continue
            earliest = max(space.ready[i], space.free[few.paths[i, place]])
            if earliest < begin:
                begin, chosen, is_end = earliest, i, place == 0 or place == last
            elif is_end and earliest == begin and 0 < place != last:
                chosen, is_end = i, False
        if begin >= limit:
            return np.inf
        place = space.places[chosen]
        k = few.paths[chosen, place]
        npus = dimensions[k, NPUS]
        if place >= width:
            space.parts[chosen] *= npus
        space.free[k] = begin + space.parts[chosen] * dimensions[k, PER_BYTE] + dimensions[k, START_UP]
        if place < width:
            space.parts[chosen] /= npus
        space.ready[chosen] = space.free[k] + dimensions[k, LAG]
        space.places[chosen] += 1
        space.served[number] = chosen
        end = max(end, space.ready[chosen])
    return end


def change(few: Few, most: int, phases: int, space: ClimbSpace) -> None:
    """Exchange two dimensions of a path, or the paths of two chunks, move bytes, or split or join chunks."""
    count, width = few.number[0], few.paths.shape[1] // phases
    kind, i, j = draw(space, 16), draw(space, count), draw(space, count)
    share = few.shares[i]
    if kind < 5:
        first = width * draw(space, phases)
        one, two = first + draw(space, width), first + draw(space, width)
        few.paths[i, one], few.paths[i, two] = few.paths[i, two], few.paths[i, one]
    elif kind < 9:
        for place in range(few.paths.shape[1]):
            few.paths[i, place], few.paths[j, place] = few.paths[j, place], few.paths[i, place]
        if kind < 7:
            few.shares[i], few.shares[j] = few.shares[j], share
    elif kind < 14:
        moved = share * draw(space, 4096) / 4096 * draw(space, 4096) / 4096 * draw(space, 4096) / 4096
        few.shares[i] -= moved
        few.shares[j] += moved
    elif kind == 14 and count < most:
        few.shares[count] = share * draw(space, 4096) / 4096
        few.shares[i] -= few.shares[count]
        copy_path(few.paths, i, count)
        few.number[0] += 1
    elif kind == 15 and i != j:
        few.shares[j] += share
        few.shares[i] = few.shares[count - 1]
        copy_path(few.paths, count - 1, i)
        few.number[0] -= 1


def copy(few: Few, to: Few) -> None:
    """Copy chunks."""
    to.number[0] = few.number[0]
    for i in range(few.number[0]):
        to.shares[i] = few.shares[i]
        for place in range(few.paths.shape[1]):
            to.paths[i, place] = few.paths[i, place]


def copy_path(paths: IntArray, i: int, to: int) -> None:
    """Copy the path of a chunk to another one."""
    for place in range(paths.shape[1]):
        paths[to, place] = paths[i, place]


def draw(space: ClimbSpace, most: int) -> int:
    """A random number below `most`."""
    space.state[0] = (space.state[0] * 1103515245 + 12345) % 2147483648
    return int(space.state[0] // 256 % most)


CLIMB = Compilable(climb, patience=2 * WORK)
"""The climb; interpreting it takes a second, as long as loading numba and machine code, and less than compiling."""
