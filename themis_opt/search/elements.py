"""A step of a search: where chunks have few elements, single ones move from one chunk to another."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from themis_opt.base.arrays import IntArray
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.orders import Orders
from themis_opt.solving.sizing import granule, with_sizes

FEW_PARTS = 16
"""Parts of a chunk, in which sizes are rounded, of which one is a large share."""

MOVE_SHARE = 0.2
"""Share of the time left in which CP-SAT seeks the orders that suit a move."""


@dataclass(frozen=True)
class MoveElements:
    """Every move of one element, with the orders that suit the sizes after it.

    An element is a large share of such a chunk, so that rounding loses what a linear programme gains.
    """

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether sizes are free and coarse, and the plan is small enough."""
        instance = incumbent.instance
        is_coarse = any(has_few_elements(instance, exchange) for exchange in instance.exchanges)
        return incumbent.free_sizes and is_coarse and Orders().applies(incumbent)

    def run(self, incumbent: Incumbent) -> None:
        """Move elements until no move gains."""
        moved_from = None
        while moved_from is not incumbent.best:
            moved_from = incumbent.best
            for sizes in moves_of_elements(moved_from):
                if incumbent.done:
                    return
                moved = simulate(incumbent.instance, with_sizes(moved_from.enforced_plan(), sizes))
                given = incumbent.beside(moved, incumbent.bound, free_sizes=False)
                with incumbent.turn(MOVE_SHARE * incumbent.left):
                    Orders().run(given)
                incumbent.offer(given.best)


def has_few_elements(instance: Instance, exchange: Exchange) -> bool:
    """Whether rounding decides about the sizes of its chunks."""
    return exchange.size < FEW_PARTS * exchange.chunks * granule(instance, exchange)


def moves_of_elements(schedule: Schedule) -> Iterator[list[IntArray]]:
    """Sizes of the chunks of all launches after a move of one element, one move for each two sizes of a launch."""
    sizes = [chunks.sizes for chunks in schedule.plan.chunks]
    for number, exchange in enumerate(schedule.launched):
        first_of = {size: chunk for chunk, size in reversed(list(enumerate(sizes[number].tolist())))}
        last_of = {size: chunk for chunk, size in enumerate(sizes[number].tolist())}
        for origin in first_of.values():
            for target in last_of.values():
                if origin != target and has_few_elements(schedule.instance, exchange):
                    moved = sizes[number].copy()
                    moved[[origin, target]] += (-exchange.element_bytes, exchange.element_bytes)
                    yield [*sizes[:number], moved, *sizes[number + 1 :]]
