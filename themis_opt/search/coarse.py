"""A step of a search: few chunks are searched in the place of very many, and then cut evenly."""

from dataclasses import dataclass, field
from typing import ClassVar

from themis_opt.schedules.refinement import even_counts, refined
from themis_opt.search.anneal import Anneal
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.start import starting_schedule

COARSE_CHUNKS = 64
"""Chunks per collective that stand for more: their schedules are within a per mille of the bounds."""


@dataclass(frozen=True)
class Coarse:
    """A plan of fewer equal chunks, refined (:mod:`themis_opt.schedules.refinement`).

    Parameters
    ----------
    anneal : Anneal
        How the few chunks are searched.
    """

    anneal: Anneal = field(default_factory=Anneal)
    engine: ClassVar[str] = "annealing"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether chunks are equal and very many."""
        most = max(exchange.chunks for exchange in incumbent.instance.exchanges)
        return not incumbent.free_sizes and most > COARSE_CHUNKS

    def run(self, incumbent: Incumbent) -> None:
        """Anneal a schedule of few chunks, and offer it with each of them cut."""
        few = incumbent.beside(starting_schedule(incumbent.instance.at_most(COARSE_CHUNKS)), incumbent.bound)
        if self.anneal.applies(few):
            self.anneal.run(few)
        counts = even_counts(few.best, incumbent.instance)
        incumbent.offer_plan(refined(few.best.enforced_plan(), incumbent.instance, counts))
