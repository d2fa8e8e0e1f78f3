"""Each gradient alone, as soon as it is ready."""

from dataclasses import dataclass

from themis_opt.policies.launching.common import Launching, first_need, fusible, launches_alone, next_iteration, whole
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, Order


@dataclass(frozen=True)
class WaitFree(Launching):
    """Wait-free backpropagation: launch every tensor when it is ready, wait for it where it is needed.

    H. Zhang et al., *Poseidon*, USENIX ATC 2017, https://www.usenix.org/conference/atc17/technical-sessions/presentation/zhang.

    `barrier`: whether the iteration ends with the last collective, as in frameworks whose optimizer updates all
      parameters in one step, rather than each layer waits for its gradients alone.
    """

    barrier: bool = False

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        before = next_iteration if self.barrier else first_need
        each = [(tensor,) for bucket in fusible(instance) for tensor in bucket]
        launches = (whole(instance, tensor, before=before(instance, tensor)) for tensor in each)
        return (*launches_alone(instance), *launches)


@dataclass(frozen=True, kw_only=True)
class Priority(WaitFree):
    """Launch every tensor when it is ready; dimensions serve those first that the next forward pass needs first.

    Chunks are what a waiting tensor can overtake at.  Y. Peng et al., *A Generic Communication Scheduler for
    Distributed DNN Training Acceleration* (ByteScheduler), SOSP 2019, https://doi.org/10.1145/3341301.3359642.
    """

    order: Order = "layer"
