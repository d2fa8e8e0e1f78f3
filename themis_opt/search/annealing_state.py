"""What the compiled loop of :mod:`themis_opt.search.annealing` works on: named tuples of arrays and numbers."""

from math import ceil
from typing import NamedTuple

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.schedules.event_loop import Operations, Workspace
from themis_opt.solving.lowering import OccupancyParts

CURRENT, BEST = 0, 1  # where `State.makespans` holds the makespan of the current and of the best plan
MAX_TOUCHED = 2  # most chunks that one step changes, if it does not move a launch


class MoveParams(NamedTuple):
    """How often a step changes what; a named tuple, because compiled code takes no dataclass.

    `launch`: share of steps in which all stages of a launch are moved, where iterations are repeated.
    `resize`: share of the other changes that move bytes, where sizes are free.  One half of the rest are of paths, and
      one half of priorities.
    """

    launch: float = 0.6
    resize: float = 0.3


USUAL_MOVES = MoveParams()
COSTLY_MOVES = MoveParams(resize=0.6)  # where chunks cost something


class AnnealingProblem(NamedTuple):
    """What does not change during the search.

    `iterations`: how many are simulated in a row, all alike; one where nothing is repeated.
    `num_tasks`, `num_operations`: tasks, which come first among the operations of an iteration, and all operations of
      an iteration.
    `first_stage`, `num_phases`, `num_dimensions`, shape (chunks,): the stages of a chunk are numbered ``first_stage +
      phase * num_dimensions + position``.
    `retraces`, shape (chunks,): whether a chunk gathers along the path on which it was scattered, backwards.
    `pinned`, shape (chunks,): whether the path of a chunk stays, because chunks of another launch must reverse it.
    `launch`, `size_class`, shape (chunks,): where a chunk finds its part of the tables.
    `first_chunk`, shape (launches + 1,): the chunks of each launch are numbered one after the other.
    `resource`, shape (launches, phases, dimensions): what a stage on each *local* dimension of a launch holds.
    `duration`, shape (size classes, phases, 2**dimensions, dimensions): picoseconds a stage holds its dimension, by
      mask of the local dimensions visited in the phase, and by itself.
    `lag`, shape (launches, phases, dimensions): picoseconds from then to the result.
    `resizes`: whether steps move bytes between chunks too; then `parts` say how long stages are, and not `duration`.
    `parts`: those of all launches, one after the other.
    `granule`, shape (launches,): bytes of which the parts that steps move are multiples.
    `moves`: what one step changes.
    """

    iterations: int
    num_tasks: int
    num_operations: int
    first_stage: IntArray
    launch: IntArray
    size_class: IntArray
    num_phases: IntArray
    num_dimensions: IntArray
    retraces: BoolArray
    pinned: BoolArray
    first_chunk: IntArray
    resource: IntArray
    duration: IntArray
    lag: IntArray
    resizes: bool
    parts: OccupancyParts
    granule: FloatArray
    moves: MoveParams


class ChunkLayout(NamedTuple):
    """A plan of the chunks of a schedule.

    `path`, shape (stages,): local dimension of every stage of one iteration.
    `key`, shape (stages,): priority of a chunk on a local dimension, at ``first_stage + phase * num_dimensions + local
      dimension``: when it is served, counted from the begin of its iteration.
    `size`, shape (chunks,): bytes of every chunk; a chunk without any takes no time.
    """

    path: IntArray
    key: FloatArray
    size: FloatArray


class State(NamedTuple):
    """What the search changes, arrays of shape (stages,), those of one iteration, unless stated.

    `candidate`, `current`, `best`: a changed plan, the one that was changed, and the best so far.
    `operations`: the candidate as the kernel sees it; its `major` are the keys, from one iteration to the next as much
      later as an iteration takes, and no resource enforces a sequence.
    `load`, shape (resources,): total duration on each resource in one iteration of the candidate.
    `touched`, shape (MAX_TOUCHED + most chunks of a launch,): chunks in which the candidate differs from the current
      plan, some perhaps twice.
    `makespans`, shape (2,): of the current and the best plan, picoseconds; where iterations are repeated, the time of
      one.
    `workspace`: the start times of the candidate, once it is simulated.
    `known`, `known_ready`, shape (operations,): when the stages of the current plan start, and since when they wait;
      ``NEVER`` before a plan was accepted, and where iterations are repeated.
    `tail`, shape (operations,): picoseconds from the end of a stage of the candidate to the result of the last stage of
      its chunk.
    `remaining`, shape (resources,): what the candidate has still to serve.
    `arriving`, shape (resources, 2): where the operations on their way to each resource are among the arrivals, the
      first and after the last.
    """

    candidate: ChunkLayout
    current: ChunkLayout
    best: ChunkLayout
    operations: Operations
    load: IntArray
    touched: IntArray
    makespans: IntArray
    workspace: Workspace
    known: IntArray
    known_ready: IntArray
    tail: IntArray
    remaining: IntArray
    arriving: IntArray


def duration_of(problem: AnnealingProblem, chunk: int, phase: int, visited: int, local: int, size: float) -> int:
    """Picoseconds for which a stage of a chunk of so many bytes holds its dimension.

    `visited`: mask of the local dimensions visited in the phase before it.
    `size`: only where sizes are free.
    """
    if not problem.resizes:
        known: int = problem.duration[problem.size_class[chunk], phase, visited, local]
        return known
    if size <= 0:
        return 0
    launch, parts = problem.launch[chunk], problem.parts
    variable = parts.rate[launch, phase, visited, local] * size
    if parts.header[launch, local] > 0:
        variable += ceil(parts.packets[launch, phase, visited, local] * size) * parts.header[launch, local]
    duration: int = parts.fixed[launch, phase, visited, local] + ceil(variable)
    return duration
