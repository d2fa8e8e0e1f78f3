"""Each gradient alone, the front layers first."""

from dataclasses import dataclass

from themis_opt.policies.launching.wait_free import WaitFree
from themis_opt.schedules.plan import Order


@dataclass(frozen=True, kw_only=True)
class Priority(WaitFree):
    """Launch every tensor when it is ready; dimensions serve those first that the next forward pass needs first.

    Chunks are what a waiting tensor can overtake at.  Y. Peng et al., *A Generic Communication Scheduler for
    Distributed DNN Training Acceleration* (ByteScheduler), SOSP 2019, https://doi.org/10.1145/3341301.3359642.
    """

    order: Order = "layer"
