"""The steps of the reference, in the order in which they take turns, and the shares of what is left for them."""

from themis_opt.search.anneal import Anneal, Coarse
from themis_opt.search.elements import MoveElements
from themis_opt.search.groups import Groups
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import Launches
from themis_opt.search.orders import Orders, Sequences
from themis_opt.search.refute_counts import RefuteCounts
from themis_opt.search.refute_ends import RefuteEnds
from themis_opt.search.rounds import Rounds
from themis_opt.search.steps import Turn

SMALL_STAGES = 100
"""Plans that CP-SAT improves and proves soon."""


def is_small(incumbent: Incumbent) -> bool:
    """Whether CP-SAT has good prospects."""
    return incumbent.best.plan.num_stages <= SMALL_STAGES or RefuteCounts().applies(incumbent)


STEPS = (
    Turn(Coarse(), 0.2),
    Turn(Anneal(patience=2, when=is_small), 0.3),
    Turn(Anneal(when=lambda incumbent: not is_small(incumbent)), 0.85),
    Turn(RefuteCounts(), 0.7),
    Turn(RefuteEnds(), 0.8),
    Turn(Orders(), 0.5),
    Turn(Sequences(), 0.5),
    Turn(MoveElements(), 0.5),
    Turn(Anneal(when=lambda incumbent: incumbent.free_sizes), 1.0),
)
"""The search for the schedule of collectives."""

PERIOD_ANNEAL = Anneal(hot=1e-7, cold=1e-8)
"""Colder than for collectives: an iteration is mostly compute, and only a little of it is at stake."""

PERIOD_STEPS = (
    Turn(Launches(), 0.45),
    Turn(Groups(STEPS, apart=True), 0.9),
    Turn(Groups(STEPS, apart=False), 0.1),
    Turn(PERIOD_ANNEAL, 0.3),
    Turn(Rounds(), 1.0),
    Turn(PERIOD_ANNEAL, 1.0),
)
"""The search for schedules of training iterations."""
