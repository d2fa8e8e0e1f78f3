"""How many chunks take each path in :mod:`themis_opt.policies.hourglass`: loads balanced in whole chunks.

The functions below :func:`empty_pool` are compiled with the search that uses them.
"""

from typing import Any, NamedTuple

import numpy as np

from themis_opt.cost import FloatArray, IntArray
from themis_opt.policies.hourglass_tables import (
    Tables,
    add_load,
    cheapest_path,
    num_layers,
    swapped,
)

MOST_BATCHES, FEWEST_BATCHES = 256, 8
"""In how many batches the chunks of a layer are dealt out: more than that do not balance better."""

DEALING_WORK = 2**16
"""Arcs of the lattice to look at while the chunks of all collectives are dealt out, if the batches are not too few."""

EVENNESS = 1e-4
"""Weight of uneven finishes beside the latest one."""

MOST_CHANGES = 100
"""Most changes after the chunks are dealt out."""

GAIN = 1e-6
"""Relative gain below which a change is not made."""


class Pool(NamedTuple):
    """The paths in use, arrays of shape (paths,) unless stated, and work space.

    Attributes
    ----------
    path, collective, layer, chunks : int64
        A path, where it belongs, and how many chunks take it.
    load : float64, shape (paths, dimensions)
        Picoseconds for which one chunk holds each dimension.
    middle : float64
        Picoseconds of one chunk in stages between its first scatter and its last gather.
    credit : int64
        How far each path is behind its share while chunks are lined up.
    size : int64, shape (1,)
        How many paths there are.
    total : float64, shape (thresholds, dimensions)
        Load of the chunks that are released at or after each threshold.
    total_middle : float64, shape (1,)
        Sum of `middle` over the chunks.
    price, change : float64, shape (dimensions,)
        Prices of the dimensions, and the difference in load between two paths.
    cost, choice : float64 and int64, shape (2**widest,)
        Work space of :func:`~themis_opt.policies.hourglass_tables.cheapest_path`.
    """

    path: IntArray
    collective: IntArray
    layer: IntArray
    chunks: IntArray
    load: FloatArray
    middle: FloatArray
    credit: IntArray
    size: IntArray
    total: FloatArray
    total_middle: FloatArray
    price: FloatArray
    change: FloatArray
    cost: FloatArray
    choice: IntArray


def empty_pool(tables: Tables, num_dimensions: int) -> Pool:
    """A pool with room for all paths that :func:`choose_paths` can meet."""
    batches = sum(2 * num_batches(tables, collective) for collective in range(len(tables.width)))
    capacity = batches + MOST_CHANGES
    column, num_masks = np.zeros(capacity, dtype=np.int64), tables.duration.shape[2]
    return Pool(
        path=column,
        collective=column.copy(),
        layer=column.copy(),
        chunks=column.copy(),
        load=np.zeros((capacity, num_dimensions)),
        middle=np.zeros(capacity),
        credit=column.copy(),
        size=np.zeros(1, dtype=np.int64),
        total=np.zeros((len(tables.threshold), num_dimensions)),
        total_middle=np.zeros(1),
        price=np.zeros(num_dimensions),
        change=np.zeros(num_dimensions),
        cost=np.zeros(num_masks),
        choice=np.zeros(num_masks, dtype=np.int64),
    )


def num_batches(tables: Any, collective: Any) -> Any:
    """In how many batches the chunks of a collective are dealt out."""
    width = tables.width[collective]
    affordable = DEALING_WORK // (width * (1 << (width - 1)) * len(tables.width))
    return min(tables.chunks[collective], MOST_BATCHES, max(FEWEST_BATCHES, affordable))


def choose_paths(tables: Any, pool: Any, tail: Any, weight: Any) -> Any:
    """Fill the pool; returns the latest finish of a dimension: its load and its `tail`, shape (thresholds, dimensions).

    The latest finish is minimised, plus `weight` times the mean over the dimensions of the time in middle stages.
    First every batch of chunks takes the path that is cheapest at prices which rise with the finish of a dimension.
    Then chunks change to their path with two dimensions swapped while that pays.
    """
    deal_out(tables, pool, tail, weight)
    for _ in range(MOST_CHANGES):
        if not change_best(tables, pool, tail, weight):
            break
    return latest_finish(pool.total, tail)


def deal_out(tables: Any, pool: Any, tail: Any, weight: Any) -> None:
    """Give every chunk a path, batch by batch."""
    pool.size[0], pool.total_middle[0] = 0, 0.0
    for h in range(pool.total.shape[0]):
        for k in range(pool.total.shape[1]):
            pool.total[h, k] = 0.0
    for collective in range(len(tables.width)):
        chunks, batches = tables.chunks[collective], num_batches(tables, collective)
        for batch in range(batches):
            count = chunks * (batch + 1) // batches - chunks * batch // batches
            for layer in range(num_layers(tables, collective)):
                surcharge = weight * set_prices(tables, pool, tail, collective) / len(pool.price)
                path = cheapest_path(tables, collective, layer, pool.price, surcharge, pool.cost, pool.choice)
                add(tables, pool, in_pool(tables, pool, collective, layer, path), count)


def set_prices(tables: Any, pool: Any, tail: Any, collective: Any) -> Any:
    """Price the dimensions for a collective, by the 15th power of their finish; returns the sum of the prices."""
    latest, total = max(latest_finish(pool.total, tail), 1.0), 0.0
    for k in range(len(pool.price)):
        pool.price[k] = 1e-9
        for h in range(pool.total.shape[0]):
            if tables.threshold[h] <= tables.release[collective]:
                finish = (pool.total[h, k] + tail[h, k]) / latest
                square = finish * finish
                # Spelled out because compiled and interpreted powers round differently.
                pool.price[k] += finish * square * (square * square) * (square * square) * (square * square)
        total += pool.price[k]
    return total


def in_pool(tables: Any, pool: Any, collective: Any, layer: Any, path: Any) -> Any:
    """Where a path is in the pool; it is put there if it is new."""
    new = pool.size[0]
    for i in range(new):
        if pool.path[i] == path and pool.collective[i] == collective and pool.layer[i] == layer:
            return i
    pool.size[0] += 1
    pool.path[new], pool.collective[new], pool.layer[new], pool.chunks[new] = path, collective, layer, 0
    for k in range(len(pool.change)):
        pool.change[k] = 0.0
    pool.middle[new] = add_load(tables, pool.change, collective, layer, path)
    for k in range(len(pool.change)):
        pool.load[new, k] = pool.change[k]
    return new


def add(tables: Any, pool: Any, i: Any, count: Any) -> None:
    """Add chunks on a path of the pool, or take them off."""
    pool.chunks[i] += count
    pool.total_middle[0] += count * pool.middle[i]
    for h in range(pool.total.shape[0]):
        if tables.threshold[h] <= tables.release[pool.collective[i]]:
            for k in range(pool.total.shape[1]):
                pool.total[h, k] += count * pool.load[i, k]


def latest_finish(total: Any, tail: Any) -> Any:
    """The latest finish of a dimension."""
    latest = 0.0
    for h in range(total.shape[0]):
        for k in range(total.shape[1]):
            latest = max(latest, total[h, k] + tail[h, k])
    return latest


def change_best(tables: Any, pool: Any, tail: Any, weight: Any) -> Any:
    """Make the best change of chunks from a path to the one with two dimensions swapped; returns whether one pays."""
    best = value_after(tables, pool, tail, 0, 0, weight * pool.total_middle[0]) * (1 - GAIN)
    found, found_path, found_count = -1, 0, 0
    for i in range(pool.size[0]):
        width = tables.width[pool.collective[i]]
        for pair in range(width * width):
            one, two = pair // width, pair % width
            if one >= two or pool.chunks[i] == 0:
                continue
            path = swapped(pool.path[i], one, two)
            for k in range(len(pool.change)):
                pool.change[k] = -pool.load[i, k]
            middle = add_load(tables, pool.change, pool.collective[i], pool.layer[i], path) - pool.middle[i]
            count = 1
            while count <= pool.chunks[i]:
                price = weight * (pool.total_middle[0] + count * middle)
                value = value_after(tables, pool, tail, i, count, price)
                if value < best:
                    best, found, found_path, found_count = value, i, path, count
                count *= 2
    if found >= 0:
        to = in_pool(tables, pool, pool.collective[found], pool.layer[found], found_path)
        add(tables, pool, found, -found_count)
        add(tables, pool, to, found_count)
    return found >= 0


def value_after(tables: Any, pool: Any, tail: Any, i: Any, count: Any, price_of_middle: Any) -> Any:
    """What is minimised, after a change of some chunks of a path whose loads change by `pool.change`."""
    latest, squares = 1.0, 0.0
    for h in range(pool.total.shape[0]):
        counts = count if tables.threshold[h] <= tables.release[pool.collective[i]] else 0
        for k in range(pool.total.shape[1]):
            finish = pool.total[h, k] + tail[h, k] + counts * pool.change[k]
            latest = max(latest, finish)
            squares += finish * finish
    return latest * (1 + EVENNESS * squares / (latest * latest)) + price_of_middle / len(pool.change)


COMPILED = (
    num_batches,
    choose_paths,
    deal_out,
    set_prices,
    in_pool,
    add,
    latest_finish,
    change_best,
    value_after,
)
"""What the search compiles with itself."""
