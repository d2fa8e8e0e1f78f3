"""Candidates of :mod:`themis_opt.policies.hourglass`, timed by the kernel, and the best of them improved.

The functions from :func:`search` on run interpreted as well as compiled, with the same result.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from themis_opt import event_loop
from themis_opt.cost import FloatArray
from themis_opt.policies import hourglass_dispatch, hourglass_paths, hourglass_tables
from themis_opt.policies.hourglass_dispatch import State, evaluate, place, place_all
from themis_opt.policies.hourglass_paths import Pool, choose_paths
from themis_opt.policies.hourglass_tables import BITS, Tables, num_layers, swapped

WEIGHTS = (0.3, 0.0, 0.1, 0.5, 0.03, 0.2)
"""Weights of the time in middle stages for which paths are chosen, two and two, each with every kind of tail."""

RULES = 2
"""Rules for who goes first among stages of one rank, see :func:`order_of`."""

CLOSE = 1e-6
"""Relative distance from the balanced load at which a makespan cannot get much better."""

INTERPRETED_BUDGET = 50_000
"""Stages times trials to interpret in one process, about a second's worth; after that it is compiled, which takes some
seconds, or a moment from the cache."""

_interpreted = 0


def run(tables: Tables, pool: Pool, state: State, tails: FloatArray, trials: int, most_candidates: int) -> None:
    """:func:`search`, interpreted or compiled."""
    global _interpreted
    lattice = max(1, 2 ** int(tables.width.max()) // 16)  # paths over many dimensions take most of the time
    work = len(state.resource) * (trials + most_candidates) * lattice
    if _interpreted + work <= INTERPRETED_BUDGET:
        _interpreted += work
        search(tables, pool, state, tails, trials, most_candidates)
    else:
        compiled()(tables, pool, state, tails, trials, most_candidates)


@cache
def compiled() -> Any:
    """:func:`search` compiled to machine code, from the cache on disk where there is one."""
    import numba
    from numba.extending import register_jitable

    modules = (event_loop, hourglass_tables, hourglass_paths, hourglass_dispatch)
    own = (search, line_up, line_up_fixed, is_known, best_candidate, keep_best, improve)
    for helper in (*(function for module in modules[1:] for function in module.COMPILED), *own):
        register_jitable(helper)
    edition = sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in modules)).hexdigest()

    # The cache only looks at this file and at what the function encloses, so that it has to enclose the others.
    def search_of_edition(tables: Any, pool: Any, state: Any, tails: Any, trials: Any, most_candidates: Any) -> None:
        if edition:
            search(tables, pool, state, tails, trials, most_candidates)

    # Without reference counting: nothing is allocated inside.
    try:
        return numba.njit(cache=True, _nrt=False)(search_of_edition)
    except RuntimeError:  # no folder to cache in is writable
        return numba.njit(_nrt=False)(search_of_edition)


def search(tables: Any, pool: Any, state: Any, tails: Any, trials: Any, most_candidates: Any) -> None:
    """Find a plan; it is left in `state.path`, timed.

    Every weight gives two candidates: `tails`, shape (2, thresholds, dimensions), hold what a dimension finishes after
    its load, first with the lag of its last result and then without, as suits many and few bytes.  The last one
    is the fixed order, which suits few bytes on networks whose first dimensions are fast.  Every candidate is
    timed with every rule, and the best ones are improved in turn until the `trials` are used up.  A makespan that meets
    the balanced load ends the search.
    """
    state.best[0] = -1
    target, num_candidates = np.inf, 0
    for number in range(most_candidates + 1):
        if number < most_candidates:
            tail, weight = tails[number // 2 % 2], WEIGHTS[number // 4 * 2 + number % 2]
            finish = choose_paths(tables, pool, tail, weight)
            if number // 2 % 2 == 0:
                target = min(target, finish * (1 + CLOSE))
            line_up(tables, pool, state, num_candidates)
        else:
            line_up_fixed(tables, state, num_candidates)
        if is_known(state, num_candidates):
            continue
        for rule in range(RULES):
            place_all(tables, state, num_candidates, rule)
            state.candidate_makespan[num_candidates, rule] = keep_best(state, evaluate(state), rule)
        num_candidates += 1
        if number > 0 and state.best[0] <= target:
            break
    while trials > 0 and state.best[0] > target:
        choice = best_candidate(state, num_candidates)
        if choice < 0:
            break
        makespan = state.candidate_makespan[choice // RULES, choice % RULES]
        state.candidate_makespan[choice // RULES, choice % RULES] = -1
        place_all(tables, state, choice // RULES, choice % RULES)
        trials = improve(tables, state, choice % RULES, makespan, target, trials)
    for chunk in range(len(state.collective)):
        for layer in range(2):
            state.path[chunk, layer] = state.best_path[chunk, layer]
        place(tables, state, chunk, state.best[1])
    evaluate(state)


def line_up(tables: Any, pool: Any, state: Any, candidate: Any) -> None:
    """Give the chunks of a candidate the paths of the pool, each path at even distances.

    Every place goes to the path that is most behind its share; the first place to the path of most chunks.
    """
    first = 0
    for collective in range(len(tables.width)):
        chunks = tables.chunks[collective]
        for layer in range(num_layers(tables, collective)):
            for i in range(pool.size[0]):
                pool.credit[i] = pool.chunks[i]
            for place_in_line in range(chunks):
                most = -1
                for i in range(pool.size[0]):
                    belongs = pool.collective[i] == collective and pool.layer[i] == layer and pool.chunks[i] > 0
                    if belongs and (most < 0 or pool.credit[i] > pool.credit[most]):
                        most = i
                state.candidate_path[candidate, first + place_in_line, layer] = pool.path[most]
                for i in range(pool.size[0]):
                    pool.credit[i] += pool.chunks[i]
                pool.credit[most] -= chunks
        first += chunks


def line_up_fixed(tables: Any, state: Any, candidate: Any) -> None:
    """Let all chunks of a candidate scatter from the first dimension to the last, and gather backwards."""
    for chunk in range(len(state.collective)):
        collective = state.collective[chunk]
        width = tables.width[collective]
        for layer in range(num_layers(tables, collective)):
            gathers = layer == 1 or (not tables.opens[collective] and tables.closes[collective])
            path = 0
            for position in range(width):
                local = width - 1 - position if gathers else position
                path |= local << (BITS * position)
            state.candidate_path[candidate, chunk, layer] = path


def is_known(state: Any, candidate: Any) -> Any:
    """Whether one of the candidates before is the same."""
    for other in range(candidate):
        differs = False
        for chunk in range(state.candidate_path.shape[1]):
            for layer in range(2):
                here, there = state.candidate_path[candidate, chunk, layer], state.candidate_path[other, chunk, layer]
                differs = differs or here != there
        if not differs:
            return True
    return False


def best_candidate(state: Any, num_candidates: Any) -> Any:
    """Number of the candidate and rule of least makespan among those not yet improved, or -1."""
    choice = -1
    for number in range(num_candidates * RULES):
        makespan = state.candidate_makespan[number // RULES, number % RULES]
        best = state.candidate_makespan[choice // RULES, choice % RULES]
        if makespan >= 0 and (choice < 0 or makespan < best):
            choice = number
    return choice


def keep_best(state: Any, makespan: Any, rule: Any) -> Any:
    """Keep the plan in hand if it is the best so far; returns its makespan."""
    if state.best[0] < 0 or makespan < state.best[0]:
        state.best[0], state.best[1] = makespan, rule
        for chunk in range(len(state.collective)):
            for layer in range(2):
                state.best_path[chunk, layer] = state.path[chunk, layer]
    return makespan


def improve(tables: Any, state: Any, rule: Any, makespan: Any, target: Any, trials: Any) -> Any:
    """Swap two positions of the path of a chunk where that shortens the makespan; returns the trials that are left.

    Near positions come first, and each pair of positions is tried in one chunk after another; all is tried again until
    nothing helps.
    """
    chunks, widest = len(state.collective), tables.span.shape[1]
    before = makespan + 1
    while makespan < before:
        before = makespan
        for number in range(2 * (widest - 1) * widest * chunks):
            if trials <= 0 or makespan <= target:
                return trials
            chunk, layer, one = number % chunks, number // chunks % 2, number // chunks // 2 % widest
            two = one + 1 + number // chunks // 2 // widest
            collective = state.collective[chunk]
            if layer < num_layers(tables, collective) and two < tables.width[collective]:
                trials -= 1
                old = state.path[chunk, layer]
                state.path[chunk, layer] = swapped(old, one, two)
                place(tables, state, chunk, rule)
                found = evaluate(state)
                if found <= makespan:
                    makespan = keep_best(state, found, rule)
                else:
                    state.path[chunk, layer] = old
                    place(tables, state, chunk, rule)
    return trials
