"""Candidates of :mod:`themis_opt.policies.hourglass.policy`: laid out for the kernel, timed, and the best improved.

The functions from :func:`search` on run interpreted as well as compiled, with the same result.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.policies.hourglass import paths as hourglass_paths
from themis_opt.policies.hourglass import tables as hourglass_tables
from themis_opt.policies.hourglass.paths import ROUNDING, Pool, choose_paths
from themis_opt.policies.hourglass.tables import (
    BITS,
    FIRST,
    LAST,
    MIDDLE,
    Portion,
    Tables,
    dimension_at,
    least_lags,
    num_layers,
    swapped,
)
from themis_opt.problem.instance import Instance
from themis_opt.schedules import event_loop, kernel
from themis_opt.schedules.event_loop import Operations, Workspace, makespan_of
from themis_opt.schedules.plan import Chunks, Plan

FEWEST_TIMED = 2  # candidates that are timed before one may end the search


class Candidates(NamedTuple):
    """Candidates, and the plan in hand.

    `collective`, `first_stage`, shape (chunks,): the collective of each chunk, and its first stage.
    `path`, shape (chunks, 2): path of each chunk in each layer of the plan in hand.
    `candidate_path`, shape (candidates, chunks, 2): paths of the candidates.
    `candidate_makespan`, shape (candidates,): makespans of the candidates in picoseconds; -1 of those that are not
      timed, or improved already.
    `best_path`, shape (chunks, 2): paths of the best plan.
    `best`, shape (1,): its makespan, -1 if there is none.
    `operations`: the plan in hand as the kernel sees it.
    `workspace`: its start times, once it is timed.
    """

    collective: IntArray
    first_stage: IntArray
    path: IntArray
    candidate_path: IntArray
    candidate_makespan: IntArray
    best_path: IntArray
    best: IntArray
    operations: Operations
    workspace: Workspace


class Aims(NamedTuple):
    """What the paths of each candidate are balanced for.

    `weight`, shape (candidates,): weight of the time in middle stages.
    `tail`, shape (candidates, resources): picoseconds that a dimension finishes after its load.
    `is_bound`, shape (candidates,): whether the tail holds the least lags, so that no plan of these paths ends before
      the latest finish.
    `is_mirrored`, shape (candidates,): whether chunks gather in the reverse of the order in which they scatter, as few
      or as many of them last on a dimension as first: where lags are long, a dimension with many last ones waits for
      them in the middle.
    """

    weight: FloatArray
    tail: FloatArray
    is_bound: BoolArray
    is_mirrored: BoolArray


def aims_of(tables: Tables, num_resources: int, weights: Sequence[float], most: int) -> Aims:
    """The aims of at most so many candidates: with and without the lag of the last result, as suits many and few bytes.

    All follow again with mirrored paths, where some collective has these and the problem does not ask for them anyway.
    """
    release = np.full(num_resources, float(tables.release.min()))
    tails = (release + least_lags(tables, num_resources), release)
    sides = (False, True) if (tables.mirrors > tables.mirrored).any() else (False,)
    aims = [(weight, kind, side) for side in sides for kind in range(len(tails)) for weight in weights][:most]
    return Aims(
        weight=np.array([weight for weight, _, _ in aims]),
        tail=np.stack([tails[kind] for _, kind, _ in aims]),
        is_bound=np.array([kind == 0 for _, kind, _ in aims]),
        is_mirrored=np.array([side for _, _, side in aims]),
    )


def empty_candidates(tables: Tables, num_resources: int, num_candidates: int) -> Candidates:
    """Arrays for plans of the tables."""
    collective = np.repeat(np.arange(len(tables.width)), tables.chunks)
    num_stages = (tables.phases * tables.width)[collective]
    return Candidates(
        collective=collective,
        first_stage=np.cumsum(num_stages) - num_stages,
        path=np.zeros((len(collective), 2), dtype=np.int64),
        candidate_path=np.zeros((num_candidates, len(collective), 2), dtype=np.int64),
        candidate_makespan=np.full(num_candidates, -1, dtype=np.int64),
        best_path=np.zeros((len(collective), 2), dtype=np.int64),
        best=np.array([-1]),
        operations=_empty_operations(np.repeat(tables.release[collective], num_stages), num_stages, num_resources),
        workspace=kernel.workspace(int(num_stages.sum()), num_resources),
    )


def _empty_operations(release: IntArray, num_stages: IntArray, num_resources: int) -> Operations:
    """One operation per stage; those of a chunk wait for each other in turn."""
    zeros = np.zeros_like(release)
    continues = np.ones_like(release)
    continues[np.cumsum(num_stages) - 1] = 0
    return Operations(
        resource=zeros.copy(),
        duration=zeros.copy(),
        lag=zeros.copy(),
        release=release,
        # A stage has one successor, the next one, unless it is the last of its chunk.
        successor_start=np.concatenate([[0], np.cumsum(continues)]),
        successor=np.flatnonzero(continues) + 1,
        num_predecessors=np.concatenate([[0], continues[:-1]]),
        major=np.zeros(len(zeros)),
        minor=zeros.copy(),
        time_sign=zeros,
        enforced=np.zeros(num_resources, dtype=np.bool_),
    )


def plan_of(instance: Instance, portions: Sequence[Portion], tables: Tables, candidates: Candidates) -> Plan:
    """The plan in hand with its sequences enforced, once it is timed."""
    numbers = np.array([portion.number for portion in portions])[candidates.collective]
    sizes = np.concatenate([portion.sizes for portion in portions])
    chunks = []
    for number, collective in enumerate(instance.exchanges):
        chosen, span = numbers == number, collective.span
        path = candidates.path[chosen]
        orders = [dimension_at(path[:, :1], np.arange(len(span))), dimension_at(path[:, 1:], np.arange(len(span)))]
        if instance.ag_order == "reverse" and collective.kind.rule.mirrors:
            orders[1] = orders[0][:, ::-1]
        local = np.concatenate(orders[: len(collective.kind.rule.phases)], axis=1)
        chunks.append(Chunks(sizes[chosen], np.array(span)[local]))
    return Plan(tuple(chunks)).in_order_of(instance, candidates.workspace.start)


def run(tables: Tables, pool: Pool, candidates: Candidates, aims: Aims, trials: int) -> None:
    """:func:`search`, interpreted or compiled."""
    mirrored = tables._replace(mirrored=tables.mirrors)
    lattice = max(1, 2 ** int(tables.width.max()) // 16)  # paths over many dimensions take most of the time
    stages = len(candidates.operations.resource) * lattice
    if SEARCH.interprets(stages * (trials + len(aims.weight))):
        search(tables, mirrored, pool, candidates, aims, trials)
    elif not opens_well(tables, mirrored, pool, candidates, aims, stages):
        SEARCH.compiled(tables, mirrored, pool, candidates, aims, trials)


def opens_well(tables: Tables, mirrored: Tables, pool: Pool, candidates: Candidates, aims: Aims, stages: int) -> bool:
    """Whether the first candidates already end the search, which are interpreted where that is less work than loading.

    The search would find the same; if they do not, it starts over.
    """
    work = stages * FEWEST_TIMED
    if SEARCH.is_loaded or len(aims.weight) < FEWEST_TIMED or not OPENINGS.interprets(work):
        return False
    if time_candidates(tables, mirrored, pool, candidates, aims, FEWEST_TIMED) < candidates.best[0]:
        return False
    take_best(tables, candidates)
    return True


def search(tables: Tables, mirrored: Tables, pool: Pool, candidates: Candidates, aims: Aims, trials: int) -> None:
    """Find a plan; it is left in `candidates.path`, timed.

    Every candidate is timed, and the best ones are improved in turn until the `trials` are used up.  A makespan that
    meets the balanced load ends the search.
    """
    target = time_candidates(tables, mirrored, pool, candidates, aims, len(aims.weight))
    while trials > 0 and candidates.best[0] > target:
        candidate = best_candidate(candidates)
        if candidate < 0:
            break
        makespan = candidates.candidate_makespan[candidate]
        candidates.candidate_makespan[candidate] = -1
        place_all(tables, candidates, candidate)
        trials = improve(tables, candidates, makespan, target, trials)
    take_best(tables, candidates)


def take_best(tables: Tables, candidates: Candidates) -> None:
    """Leave the best plan in `candidates.path`, timed."""
    for chunk in range(len(candidates.collective)):
        for layer in range(2):
            candidates.path[chunk, layer] = candidates.best_path[chunk, layer]
        place(tables, candidates, chunk)
    makespan_of(candidates.operations, candidates.workspace)


def time_candidates(
    tables: Tables, mirrored: Tables, pool: Pool, candidates: Candidates, aims: Aims, most: int
) -> float:
    """Time the candidates, `most` of them, or until one meets the balanced load; returns that load."""
    target = np.inf
    for number in range(most):
        side = mirrored if aims.is_mirrored[number] else tables
        finish = choose_paths(side, pool, aims.tail[number], aims.weight[number])
        if aims.is_bound[number]:
            target = min(target, finish * (1 + ROUNDING))
        line_up(side, pool, candidates, number)
        place_all(tables, candidates, number)
        makespan = makespan_of(candidates.operations, candidates.workspace)
        candidates.candidate_makespan[number] = keep_best(candidates, makespan)
        if number >= FEWEST_TIMED - 1 and candidates.best[0] <= target:
            break
    return target


def line_up(tables: Tables, pool: Pool, candidates: Candidates, candidate: int) -> None:
    """Give the chunks of a candidate the paths of the pool, each path at even distances."""
    first = 0
    for collective in range(len(tables.width)):
        for layer in range(num_layers(tables, collective)):
            for i in range(pool.size[0]):
                pool.credit[i] = pool.chunks[i]
            for chunk in range(first, first + tables.chunks[collective]):
                i = most_behind(pool, collective, layer)
                candidates.candidate_path[candidate, chunk, layer] = pool.path[i]
                if tables.mirrored[collective]:
                    candidates.candidate_path[candidate, chunk, 1] = backwards(pool.path[i], tables.width[collective])
                pool.credit[i] -= tables.chunks[collective]
                for other in range(pool.size[0]):
                    pool.credit[other] += pool.chunks[other]
        first += tables.chunks[collective]


def backwards(path: int, width: int) -> int:
    """The path that visits the dimensions in the reverse order."""
    other = 0
    for position in range(width):
        other |= dimension_at(path, position) << (BITS * (width - 1 - position))
    return other


def most_behind(pool: Pool, collective: int, layer: int) -> int:
    """The path of a layer that is most behind its share; in the first place that is the path of most chunks."""
    most = -1
    for i in range(pool.size[0]):
        belongs = pool.collective[i] == collective and pool.layer[i] == layer and pool.chunks[i] > 0
        if belongs and (most < 0 or pool.credit[i] > pool.credit[most]):
            most = i
    return most


def best_candidate(candidates: Candidates) -> int:
    """The candidate of least makespan among those not yet improved; -1 if there is none."""
    best, least = -1, np.inf
    for candidate in range(len(candidates.candidate_makespan)):
        if 0 <= candidates.candidate_makespan[candidate] < least:
            best, least = candidate, candidates.candidate_makespan[candidate]
    return best


def keep_best(candidates: Candidates, makespan: int) -> int:
    """Keep the plan in hand if it is the best so far; returns its makespan."""
    if candidates.best[0] < 0 or makespan < candidates.best[0]:
        candidates.best[0] = makespan
        for chunk in range(len(candidates.collective)):
            for layer in range(2):
                candidates.best_path[chunk, layer] = candidates.path[chunk, layer]
    return makespan


def improve(tables: Tables, candidates: Candidates, makespan: int, target: float, trials: int) -> int:
    """Swap two positions of the path of a chunk where that is no worse, until it helps no more.

    Returns the trials that are left; none is made once the makespan meets the target.
    """
    before = makespan + 1
    while makespan < before:
        before = makespan
        makespan, trials = try_swaps(tables, candidates, makespan, target, trials)
    return trials


def try_swaps(tables: Tables, candidates: Candidates, makespan: int, target: float, trials: int) -> tuple[int, int]:
    """Try all swaps once, near positions first, each in one chunk after another; returns makespan and trials left."""
    widest = tables.resource.shape[2]
    for distance in range(1, widest):
        for one in range(widest - distance):
            for layer in range(2):
                for chunk in range(len(candidates.collective)):
                    if trials <= 0 or makespan <= target:
                        return makespan, trials
                    collective = candidates.collective[chunk]
                    if layer < num_layers(tables, collective) and one + distance < tables.width[collective]:
                        makespan = try_swap(tables, candidates, makespan, chunk, layer, one, one + distance)
                        trials -= 1
    return makespan, trials


def try_swap(tables: Tables, candidates: Candidates, makespan: int, chunk: int, layer: int, one: int, two: int) -> int:
    """Swap two positions of a path unless that lengthens the makespan; returns the makespan."""
    old = candidates.path[chunk, layer]
    candidates.path[chunk, layer] = swapped(old, one, two)
    place(tables, candidates, chunk)
    changed = makespan_of(candidates.operations, candidates.workspace)
    if changed <= makespan:
        return keep_best(candidates, changed)
    candidates.path[chunk, layer] = old
    place(tables, candidates, chunk)
    return makespan


def place_all(tables: Tables, candidates: Candidates, candidate: int) -> None:
    """Take a candidate in hand."""
    for chunk in range(len(candidates.collective)):
        for layer in range(2):
            candidates.path[chunk, layer] = candidates.candidate_path[candidate, chunk, layer]
        place(tables, candidates, chunk)


def place(tables: Tables, candidates: Candidates, chunk: int) -> None:
    """Tell the kernel's arrays the path of a chunk, and its places in the order: by rank, and then along the path."""
    collective, first, operations = candidates.collective[chunk], candidates.first_stage[chunk], candidates.operations
    num_stages = tables.phases[collective] * tables.width[collective]
    for phase in range(tables.phases[collective]):
        place_phase(tables, candidates, chunk, phase)
    for number in range(num_stages):
        column = LAST if number == num_stages - 1 else FIRST if number == 0 else MIDDLE
        operations.major[first + number], operations.minor[first + number] = tables.rank[collective, column], number


def place_phase(tables: Tables, candidates: Candidates, chunk: int, phase: int) -> None:
    """Tell the kernel's arrays which dimensions a chunk visits in a phase, and for how long."""
    collective, operations = candidates.collective[chunk], candidates.operations
    width, visited = tables.width[collective], 0
    for position in range(width):
        if tables.mirrored[collective] and phase == 1:
            local = dimension_at(candidates.path[chunk, 0], width - 1 - position)
        else:
            local = dimension_at(candidates.path[chunk, phase], position)
        stage = candidates.first_stage[chunk] + phase * width + position
        operations.resource[stage] = tables.resource[collective, phase, local]
        operations.duration[stage] = tables.duration[collective, phase, visited, local]
        operations.lag[stage] = tables.lag[collective, phase, local]
        visited |= 1 << local


SEARCH = Compilable(search, event_loop, hourglass_tables, hourglass_paths, patience=50_000)
"""The search; interpreting 50,000 stages times trials takes about a second, compiling without a cache several."""

OPENINGS = Compilable(time_candidates, patience=5_000)
"""The first candidates, which are never compiled alone; interpreting 5,000 stages takes a sixth of a second, loading
the compiled search half of one."""
