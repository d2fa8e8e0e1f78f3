"""Each gradient on its own, as soon as it is ready."""

from dataclasses import dataclass

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.launching.common import fusible, launches_alone, whole
from themis_opt.iterations.plan import Launch, Order


@dataclass(frozen=True)
class WaitFree:
    """Wait-free backpropagation: launch every tensor when it is ready, wait for it where it is needed.

    H. Zhang et al., *Poseidon*, USENIX ATC 2017, https://www.usenix.org/conference/atc17/technical-sessions/presentation/zhang.
    """

    order: Order = "ready"

    def __call__(self, instance: IterationInstance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        each = [whole(instance, (tensor,)) for bucket in fusible(instance) for tensor in bucket]
        return (*launches_alone(instance), *each)
