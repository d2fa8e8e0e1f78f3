"""A short climb from chunks that suited random networks, where chunks cost something (docs/law.md, section 6).

The loop is plain code of arrays and numbers, which runs interpreted as well as compiled, with the same result.
"""

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from string import ascii_letters, digits
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.policies.chunk_law import MOST_EQUAL_CHUNKS, Chunk, ChunkBlock, LawDimension

WORK = 100_000  # stages that a climb serves, about 3 ms
BEAMS = 3  # blocks to climb from with half of the work, before the best block of all has the rest
STARTS_SPREAD = 0.1  # part of the time by which a start may be worse than another one
HEAT = 0.006  # part of the time that a change may cost at first
STARTS = Path(__file__).with_name("chunk_starts.txt")  # of benchmarks/chunk_starts.py
LETTERS = ascii_letters + digits
NPUS, PER_BYTE, START_UP, LAG = range(4)  # columns of dimensions


class Few(NamedTuple):
    """Few chunks.

    `number`, shape (1,): of the chunks; `paths`, shape (most chunks, stages): dimensions; `shares`: of the data;
    `held`, shape (most chunks, stages): time for which each stage holds its dimension.
    """

    number: IntArray
    paths: IntArray
    shares: FloatArray
    held: FloatArray


class Starts(NamedTuple):
    """Chunks that suited random networks, of dimensions from fast to slow.

    `number`, shape (starts,); `paths`, shape (starts, chunks, stages); `shares`, shape (starts, chunks).
    """

    number: IntArray
    paths: IntArray
    shares: FloatArray


class ClimbSpace(NamedTuple):
    """Work space: per dimension and chunk when it is free or ready, idle time left, and where in its path a chunk is.

    `best`, `now`, `tried`: the best chunks, chunks to change, and changed ones.
    `served`: chunks in the order of their stages.  `times`: of starts.  `state`, shape (2,): of the random numbers, and
    stages served.
    """

    best: Few
    now: Few
    tried: Few
    free: FloatArray
    spare: FloatArray
    ready: FloatArray
    places: IntArray
    served: IntArray
    times: FloatArray
    state: IntArray


@cache
def shipped_starts(width: int, phases: int) -> Starts:
    """The shipped starts of so many dimensions."""
    lines = STARTS.read_text(encoding="ascii").split()
    return starts_of([line for line in lines if line[0] == str(width)], width, phases)


def starts_of(lines: Sequence[str], width: int, phases: int) -> Starts:
    """Starts from lines of a digit and four letters a chunk: for its scatters, its gathers, and two for its share."""
    orders = list(permutations(range(width) if lines else ()))
    number = np.array([len(line) // 4 for line in lines], dtype=np.int64)
    paths = np.zeros((len(lines), MOST_EQUAL_CHUNKS, width * phases), dtype=np.int64)
    shares = np.zeros((len(lines), MOST_EQUAL_CHUNKS))
    for e, line in enumerate(lines):
        values = np.array([LETTERS.index(letter) for letter in line[1:]]).reshape(-1, 4)
        paths[e, : number[e]] = [(orders[row[0]] + orders[row[1]])[: width * phases] for row in values]
        parts = values[:, 2] * len(LETTERS) + values[:, 3]
        shares[e, : number[e]] = parts / parts.sum()
    return Starts(number, paths, shares)


def climbed_block(
    network: Sequence[LawDimension],
    phases: int,
    size: float,
    start: ChunkBlock,
    most_chunks: int,
    work: int = WORK,
    starts: Starts | None = None,
) -> ChunkBlock:
    """The best block of a climb from the chunks of another block or from starts, by default the shipped ones."""
    most = max(min(most_chunks, MOST_EQUAL_CHUNKS), len(start.chunks))
    length, width = len(start.chunks[0].path), len(network)
    starts = shipped_starts(width, phases) if starts is None else starts
    space = climb_space(width, most, length, len(starts.number))
    best = space.best
    by_time = sorted(range(width), key=lambda k: network[k].byte_time * (1 - 1 / network[k].npus))
    best.number[0] = len(start.chunks)
    for i, chunk in enumerate(start.chunks):
        best.paths[i], best.shares[i] = [by_time.index(k) for k in chunk.path], chunk.share
    run = CLIMB.function if CLIMB.interprets(work) else CLIMB.compiled
    run(columns_of([network[k] for k in by_time]), starts, float(size), work, space)
    count, places = int(best.number[0]), [0] * most
    stages = []
    for i in space.served[: count * length].tolist():
        stages.append((i, places[i]))
        places[i] += 1
    chunks = [Chunk(float(best.shares[i]), tuple(by_time[k] for k in best.paths[i].tolist())) for i in range(count)]
    return ChunkBlock(chunks, stages, is_solid=False)


def climb_space(width: int, most: int, length: int, num_starts: int) -> ClimbSpace:
    """Work space for so many dimensions and chunks, with paths of so many stages."""
    free, spare, ready, times = np.zeros(width), np.zeros(width), np.zeros(most), np.full(num_starts + 1, np.inf)
    places, served, state = np.zeros(most, np.int64), np.zeros(most * length, np.int64), np.array([1, 0])
    rows, ints = (most, length), np.int64
    best, now, tried = (Few(np.zeros(1, ints), np.zeros(rows, ints), np.zeros(most), np.zeros(rows)) for _ in range(3))
    return ClimbSpace(best, now, tried, free, spare, ready, places, served, times, state)


def columns_of(network: Sequence[LawDimension]) -> FloatArray:
    """The dimensions as rows of numbers."""
    return np.array([(d.npus, d.held(1) - d.fixed, d.fixed, d.lag) for d in network], dtype=np.float64)


def climb(dimensions: FloatArray, starts: Starts, size: float, work: int, space: ClimbSpace) -> None:
    """Climb from the best starts, and on from the best block of all; fills `space.served` with its stages."""
    best, now, tried = space.best, space.now, space.tried
    for i in range(best.number[0]):
        hold(dimensions, size, best, i)
    least = bound = serve_all(dimensions, best, space, np.inf)
    for e in range(len(starts.number)):
        if starts.number[e] <= len(best.shares):
            begin(dimensions, size, starts, e, tried)
            space.times[e] = serve_all(dimensions, tried, space, (1 + STARTS_SPREAD) * bound)
            bound = min(bound, space.times[e])
    for beam in range(BEAMS):
        copy(best, now)
        time, e = least, int(space.times.argmin())
        if beam > 0 and space.times[e] < np.inf:
            begin(dimensions, size, starts, e, now)
            time, space.times[e] = space.times[e], np.inf
            if time < least:
                least = time
                copy(now, best)
        least = improve(dimensions, size, work * (beam + 1) // (2 * BEAMS), time, least, space)
    copy(best, now)
    improve(dimensions, size, work, least, least, space)
    serve_all(dimensions, best, space, np.inf)


def improve(dimensions: FloatArray, size: float, work: int, time: float, least: float, space: ClimbSpace) -> float:
    """Change chunks at random, as long as the work lasts; the makespan of the best.

    A change is kept if it costs at most a random part of the time, which falls to zero.
    """
    now, tried, before = space.now, space.tried, space.state[1]
    while space.state[1] < work:
        chance = draw(space, 4096) / 4096
        limit = time * (1 + HEAT * chance * chance * (work - space.state[1]) / (work - before))
        copy(now, tried)
        change(dimensions, size, tried, space)
        while draw(space, 3) == 0:
            change(dimensions, size, tried, space)
        space.state[1] += tried.number[0] * tried.paths.shape[1] // 4
        changed = serve_all(dimensions, tried, space, limit)
        if changed <= limit:
            time = changed
            copy(tried, now)
        if changed < least:
            least = changed
            copy(tried, space.best)
    return least


def begin(dimensions: FloatArray, size: float, starts: Starts, e: int, few: Few) -> None:
    """Fill in the chunks of a start."""
    few.number[0] = starts.number[e]
    for i in range(starts.number[e]):
        few.shares[i] = starts.shares[e, i]
        for place in range(few.paths.shape[1]):
            few.paths[i, place] = starts.paths[e, i, place]
        hold(dimensions, size, few, i)


def hold(dimensions: FloatArray, size: float, few: Few, i: int) -> None:
    """Fill in for how long each stage of a chunk holds its dimension."""
    part, width = few.shares[i] * size, len(dimensions)
    for place in range(few.paths.shape[1]):
        k = few.paths[i, place]
        if place >= width:
            part *= dimensions[k, NPUS]
        few.held[i, place] = part * dimensions[k, PER_BYTE] + dimensions[k, START_UP]
        if place < width:
            part /= dimensions[k, NPUS]


def serve_all(dimensions: FloatArray, few: Few, space: ClimbSpace, limit: float) -> float:
    """Makespan if what can begin first is served first; infinite if it is above a limit.

    The middle of a chunk goes before first scatters and last gathers.  A dimension may be idle for what the limit
    leaves beside its load.
    """
    count, length, width = few.number[0], few.paths.shape[1], len(dimensions)
    last = 2 * width - 1
    end = 0.0
    for k in range(width):
        space.free[k] = 0.0
        space.spare[k] = limit - dimensions[k, LAG]
    for i in range(count):
        space.ready[i], space.places[i] = 0.0, 0
        for place in range(length):
            space.spare[few.paths[i, place]] -= few.held[i, place]
    for k in range(width):
        if space.spare[k] < 0:
            return np.inf
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
        place = space.places[chosen]
        k = few.paths[chosen, place]
        space.spare[k] -= begin - space.free[k]
        space.state[1] += 1
        if space.spare[k] < 0:
            return np.inf
        space.free[k] = begin + few.held[chosen, place]
        space.ready[chosen] = space.free[k] + dimensions[k, LAG]
        space.places[chosen] += 1
        space.served[number] = chosen
        end = max(end, space.ready[chosen])
    return end


def change(dimensions: FloatArray, size: float, few: Few, space: ClimbSpace) -> None:
    """Exchange two dimensions of a path, or the paths of two chunks, move bytes, or split or join chunks."""
    count, width, length = few.number[0], len(dimensions), few.paths.shape[1]
    kind, i, j = draw(space, 16), draw(space, count), draw(space, count)
    share = few.shares[i]
    if kind < 5:
        first = width * draw(space, length // width)
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
    elif kind == 14 and count < len(few.shares):
        j = count
        few.shares[j] = share * draw(space, 4096) / 4096
        few.shares[i] -= few.shares[j]
        for place in range(length):
            few.paths[j, place] = few.paths[i, place]
        few.number[0] += 1
    elif kind == 15 and i != j:
        few.shares[j] += share
        few.shares[i] = few.shares[count - 1]
        for place in range(length):
            few.paths[i, place] = few.paths[count - 1, place]
        few.number[0] -= 1
        if j == count - 1:
            j = i
        if i == count - 1:
            i = j
    hold(dimensions, size, few, i)
    hold(dimensions, size, few, j)


def copy(few: Few, to: Few) -> None:
    """Copy chunks."""
    to.number[0] = few.number[0]
    for i in range(few.number[0]):
        to.shares[i] = few.shares[i]
        for place in range(few.paths.shape[1]):
            to.paths[i, place], to.held[i, place] = few.paths[i, place], few.held[i, place]


def draw(space: ClimbSpace, most: int) -> int:
    """A random number below `most`."""
    space.state[0] = (space.state[0] * 1103515245 + 12345) % 2147483648
    return int(space.state[0] // 256 % most)


CLIMB = Compilable(climb, patience=2 * WORK)
"""The climb; interpreting it takes a second, as long as loading numba and machine code, and less than compiling."""
