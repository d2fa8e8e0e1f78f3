"""The search for schedules of training iterations: a table of steps."""

from themis_opt.search.anneal import Anneal
from themis_opt.search.groups import Groups
from themis_opt.search.launches import Launches
from themis_opt.search.rounds import Rounds
from themis_opt.search.steps import Turn
from themis_opt.search.table import STEPS

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
"""Steps, and the share of what is left that each may take."""
