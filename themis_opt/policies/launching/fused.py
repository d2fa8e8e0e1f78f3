"""All gradients in one collective."""

from dataclasses import dataclass

from themis_opt.policies.launching.common import Launching, fusible, of_runs
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch


@dataclass(frozen=True)
class Fused(Launching):
    """Launch all data-parallel tensors of one kind together when the last of them is ready.

    Nothing of it overlaps the backward pass (Themis, ISCA 2022, section 5).
    """

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        return tuple(of_runs(instance, fusible(instance)))
