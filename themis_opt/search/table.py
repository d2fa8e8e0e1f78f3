"""The steps of the reference, in the order in which they take turns."""

from themis_opt.schedules.incumbent import Step
from themis_opt.search.anneal import Anneal
from themis_opt.search.launches import Launches, LaunchSizes
from themis_opt.search.orders import Orders
from themis_opt.search.refuter import RefuteCounts
from themis_opt.search.sequences import Sequences

# The search for the schedule of collectives
STEPS: tuple[Step, ...] = (Anneal(), RefuteCounts(), Orders())
# Colder than for collectives: an iteration is mostly compute, and only a little of it is at stake
PERIOD_ANNEAL = Anneal(hot=1e-7)
# The search for schedules of training iterations
PERIOD_STEPS: tuple[Step, ...] = (Launches(), PERIOD_ANNEAL, LaunchSizes(), Sequences())
