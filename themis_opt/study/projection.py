"""Steps on more NPUs than were measured, with the error on measured steps that the projection was not fitted to.

Compute comes from the instance, whose layers may be measured.  One number is fitted: the share of every bandwidth with
which the step on the fewest NPUs takes as long as measured.  Steps on more NPUs are held back and predicted, which is
the accuracy that ParaDL states for its projections (A. Kahira et al., https://arxiv.org/abs/2104.09075, section 5).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, format_time
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.study.sweep import measured_share, varied


@dataclass(frozen=True)
class Projection:
    """The share of bandwidths that was fitted, on how many NPUs, and predicted over measured steps, minus 1."""

    share: float
    fitted: int
    errors: Mapping[int, float]

    def __str__(self) -> str:
        held_back = ", ".join(f"{100 * error:+.2f} % on {npus}" for npus, error in self.errors.items())
        words = f"Fitted on {self.fitted} NPUs, the network gives {format_percent(self.share)} of its bandwidths"
        return f"{words}; steps that were held back err by {held_back or 'nothing: none was held back'}."


def project(instance: Instance, policy: str, measured: Mapping[int, int]) -> Projection:
    """Fit a policy to the measured step on the fewest NPUs, in picoseconds, and predict the others.

    Raises InputError if the instance has no compute, or no share of the bandwidths explains the first step.
    """
    if not instance.tasks or not measured:
        raise InputError("needs a training iteration and measured steps", field="measured", value=len(measured))
    fitted = min(measured)
    share = measured_share(instance, policy, measured[fitted], npus=fitted)
    if share is None:
        rule = "is explained by no share of the bandwidths: state other times of compute"
        raise InputError(rule, field="measured", value=f"{fitted}={format_time(measured[fitted])}")
    errors = {}
    for npus in sorted(measured.keys() - {fitted}):
        changed = varied(instance, {"npus": npus, "share": share})
        errors[npus] = simulate(changed, make_policy(policy)(changed)).makespan / measured[npus] - 1
    return Projection(share, fitted, errors)
