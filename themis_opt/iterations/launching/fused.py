"""All gradients in one collective."""

from dataclasses import dataclass

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.launching.common import fusible, launches_alone, whole
from themis_opt.iterations.plan import Launch, Order


@dataclass(frozen=True)
class Fused:
    """Launch all data-parallel tensors of one kind together when the last of them is ready.

    Nothing of it overlaps the backward pass (Themis, ISCA 2022, section 5).
    """

    order: Order = "ready"

    def __call__(self, instance: IterationInstance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        return (*launches_alone(instance), *(whole(instance, bucket) for bucket in fusible(instance)))
