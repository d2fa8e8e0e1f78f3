"""How many chunks take each path in :mod:`themis_opt.policies.hourglass.policy`: loads balanced in whole chunks.

The functions below :func:`empty_pool` are compiled with the search that uses them.
"""

from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.policies.hourglass.tables import Tables, add_load, cheapest_path, num_layers, swapped

MOST_CHANGES = 100  # changes after the chunks are dealt out, should rounding make them go round in circles
ROUNDING = 1e-6  # relative difference below which two finishes count as equal
# Batches in which the chunks of a layer are dealt out at most, for thousands of chunks not to take longer
MOST_BATCHES = 64
# Power of its finish that prices a dimension: the steeper, the more the latest finish counts beside the others
STEEPNESS = 15

EVENNESS = 1e-4  # weight of uneven finishes beside the latest one, which decides between equal ones
IDLE_PRICE = 1e-9  # price of a dimension that has nothing to do so far, for paths to differ in it


class Pool(NamedTuple):
    """The paths in use, arrays of shape (paths,) unless stated, and work space.

    `path`, `collective`, `layer`, `chunks`: a path, where it belongs, and how many chunks take it.
    `load`, shape (paths, resources): picoseconds for which one chunk holds each dimension.
    `middle`: picoseconds of one chunk in stages between its first scatter and its last gather.
    `credit`: how far each path is behind its share while chunks are lined up.
    `size`, shape (1,): how many paths there are.
    `total`, shape (resources,): load of all chunks.
    `total_middle`, shape (1,): sum of `middle` over the chunks.
    `price`, `change`, shape (resources,): prices of the dimensions, and the difference in load between two paths.
    `cost`, `choice`, shape (2**widest,): work space of :func:`~themis_opt.policies.hourglass.tables.cheapest_path`.
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


def empty_pool(tables: Tables, num_resources: int) -> Pool:
    """A pool with room for all paths that :func:`choose_paths` can meet."""
    capacity = int(2 * np.minimum(tables.chunks, MOST_BATCHES).sum()) + MOST_CHANGES
    column, num_masks = np.zeros(capacity, dtype=np.int64), tables.duration.shape[2]
    return Pool(
        path=column,
        collective=column.copy(),
        layer=column.copy(),
        chunks=column.copy(),
        load=np.zeros((capacity, num_resources)),
        middle=np.zeros(capacity),
        credit=column.copy(),
        size=np.zeros(1, dtype=np.int64),
        total=np.zeros(num_resources),
        total_middle=np.zeros(1),
        price=np.zeros(num_resources),
        change=np.zeros(num_resources),
        cost=np.zeros(num_masks),
        choice=np.zeros(num_masks, dtype=np.int64),
    )


def choose_paths(tables: Tables, pool: Pool, tail: FloatArray, weight: float) -> float:
    """Fill the pool; returns the latest finish of a resource: its load and its `tail`, shape (resources,).

    The latest finish is minimised, plus `weight` times the mean over the dimensions of the time in middle stages.
    First every batch of chunks takes the path that is cheapest at prices which rise with the finish of a dimension.
    Then chunks change to their path with two dimensions swapped while that pays.
    """
    deal_out(tables, pool, tail, weight)
    for _ in range(MOST_CHANGES):
        if not change_best(tables, pool, tail, weight):
            break
    return latest_finish(pool.total, tail)


def deal_out(tables: Tables, pool: Pool, tail: FloatArray, weight: float) -> None:
    """Give every chunk a path, batch by batch."""
    pool.size[0], pool.total_middle[0] = 0, 0.0
    pool.total[:] = 0.0
    for collective in range(len(tables.width)):
        chunks = tables.chunks[collective]
        batches = min(chunks, MOST_BATCHES)
        for batch in range(batches):
            count = chunks * (batch + 1) // batches - chunks * batch // batches
            for layer in range(num_layers(tables, collective)):
                surcharge = weight * set_prices(pool, tail) / len(pool.price)
                path = cheapest_path(tables, collective, layer, pool.price, surcharge, pool.cost, pool.choice)
                add(pool, in_pool(tables, pool, collective, layer, path), count)


def set_prices(pool: Pool, tail: FloatArray) -> float:
    """Price the dimensions by a high power of their finish; returns the sum of the prices."""
    latest, total = max(latest_finish(pool.total, tail), 1.0), 0.0
    for k in range(len(pool.price)):
        finish, power = (pool.total[k] + tail[k]) / latest, 1.0
        for _ in range(STEEPNESS):  # not `**`, which compiled and interpreted code round differently
            power *= finish
        pool.price[k] = IDLE_PRICE + power
        total += pool.price[k]
    return total


def in_pool(tables: Tables, pool: Pool, collective: int, layer: int, path: int) -> int:
    """Where a path is in the pool; it is put there if it is new."""
    new: int = pool.size[0]
    for i in range(new):
        if pool.path[i] == path and pool.collective[i] == collective and pool.layer[i] == layer:
            return i
    pool.size[0] += 1
    pool.path[new], pool.collective[new], pool.layer[new], pool.chunks[new] = path, collective, layer, 0
    pool.change[:] = 0.0
    pool.middle[new] = add_load(tables, pool.change, collective, layer, path)
    for k in range(len(pool.change)):
        pool.load[new, k] = pool.change[k]
    return new


def add(pool: Pool, i: int, count: int) -> None:
    """Add chunks on a path of the pool, or take them off."""
    pool.chunks[i] += count
    pool.total_middle[0] += count * pool.middle[i]
    for k in range(len(pool.total)):
        pool.total[k] += count * pool.load[i, k]


def latest_finish(total: FloatArray, tail: FloatArray) -> float:
    """The latest finish of a dimension."""
    latest = 0.0
    for k in range(len(total)):
        latest = max(latest, total[k] + tail[k])
    return latest


def change_best(tables: Tables, pool: Pool, tail: FloatArray, weight: float) -> bool:
    """Make the best change of chunks from a path to the one with two dimensions swapped; returns whether one pays."""
    best = value_after(pool, tail, 0, weight * pool.total_middle[0]) * (1 - ROUNDING)
    changed, best_path, best_count = -1, 0, 0
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
                value = value_after(pool, tail, count, price)
                if value < best:
                    best, changed, best_path, best_count = value, i, path, count
                count *= 2
    if changed >= 0:
        to = in_pool(tables, pool, pool.collective[changed], pool.layer[changed], best_path)
        add(pool, changed, -best_count)
        add(pool, to, best_count)
    return changed >= 0


def value_after(pool: Pool, tail: FloatArray, count: int, price_of_middle: float) -> float:
    """What is minimised, after a change of so many chunks of a path whose loads change by `pool.change`."""
    latest, squares = 1.0, 0.0
    for k in range(len(pool.total)):
        finish = pool.total[k] + tail[k] + count * pool.change[k]
        latest = max(latest, finish)
        squares += finish * finish
    return latest * (1 + EVENNESS * squares / (latest * latest)) + price_of_middle / len(pool.change)
