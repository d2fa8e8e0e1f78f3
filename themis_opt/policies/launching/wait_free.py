"""Each gradient alone, as soon as it is ready."""

from dataclasses import dataclass

from themis_opt.policies.launching.common import NEXT_ITERATION, Launching, fusible, launches_alone, whole
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch


@dataclass(frozen=True)
class WaitFree(Launching):
    """Wait-free backpropagation: launch every tensor when it is ready, wait for it where it is needed.

    H. Zhang et al., *Poseidon*, USENIX ATC 2017, https://www.usenix.org/conference/atc17/technical-sessions/presentation/zhang.

    Parameters
    ----------
    barrier : bool
        Whether the iteration ends with the last collective, as in frameworks whose optimizer updates all parameters in
        one step, rather than each layer waits for its gradients alone.
    """

    barrier: bool = False

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        before = NEXT_ITERATION if self.barrier else None
        each = [whole(instance, (tensor,), before=before) for bucket in fusible(instance) for tensor in bucket]
        return (*launches_alone(instance), *each)
