"""What a gap is called, in every family of problems."""

from formulations.limits import PROVEN_GAP

NEAR_OPTIMAL = 0.01  # gap up to which a schedule is called so: less than a change of the runtime is worth


def status_of(gap: float) -> str:
    """``optimal`` up to a gap of 1e-4, ``near-optimal`` up to a hundredth, else ``feasible``."""
    if gap <= PROVEN_GAP:
        return "optimal"
    return "near-optimal" if gap <= NEAR_OPTIMAL else "feasible"
