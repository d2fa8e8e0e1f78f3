"""Collectives, and training iterations, on products of dimensions.

Solvers are imported where they are first needed, so that a simulation starts without them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from themis_opt.families.family import Family
from themis_opt.problem.instance import Instance
from themis_opt.schedules.explanation import Explanation, explain
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.study.comparison import Comparison
    from themis_opt.study.robustness import LossDistribution


class ProductFamily(Family):
    """Every question has an answer here."""

    name = "instances on dimensions"

    def solve(self, problem: Instance, **options: Any) -> "Comparison":
        """As :func:`themis_opt.study.comparison.solve`."""
        from themis_opt.study.comparison import solve

        return solve(problem, **options)

    def compare(self, problem: Instance, policies: Sequence[Any], **options: Any) -> "Comparison":
        """As :func:`themis_opt.study.comparison.compare`."""
        from themis_opt.study.comparison import compare

        return compare(problem, policies, **options)

    def bounds(self, problem: Instance, **options: Any) -> Mapping[str, float]:
        """As :func:`themis_opt.solving.bounds.bounds`."""
        from themis_opt.solving.bounds import bounds

        return bounds(problem, **options)

    def make_policy(self, specification: str, **knobs: Any) -> Any:
        """As :func:`themis_opt.policies.registry.make_policy`."""
        from themis_opt.policies.registry import make_policy

        return make_policy(specification, **knobs)

    def simulate(self, problem: Instance, plan: Plan, **options: Any) -> Schedule:
        """As :func:`themis_opt.schedules.simulator.simulate`."""
        return simulate(problem, plan, **options)

    def validate(self, schedule: Schedule) -> None:
        """As :func:`themis_opt.schedules.validation.validate`."""
        validate(schedule)

    def explain(self, schedule: Schedule) -> Explanation:
        """As :func:`themis_opt.schedules.explanation.explain`."""
        return explain(schedule)

    def plot(self, schedule: Schedule, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """As :func:`themis_opt.formats.plot.plot`."""
        from themis_opt.formats.plot import plot

        return plot(schedule, ax, **options)

    def sweep(self, problem: Instance, over: Mapping[str, Sequence[Any]], policies: Any = None, **limits: Any) -> Any:
        """As :func:`themis_opt.study.sweep.sweep`."""
        from themis_opt.study.sweep import sweep

        return sweep(problem, over, policies, **limits)

    def robustness(self, problem: Instance, policies: Sequence[str], **options: Any) -> "tuple[LossDistribution, ...]":
        """As :func:`themis_opt.study.robustness.loss_distributions`, of the plans that policies make."""
        from themis_opt.policies.registry import make_policy
        from themis_opt.study.robustness import executions, loss_distributions

        schedules = {name: simulate(problem, make_policy(name)(problem)) for name in policies}
        ways = {name: way for policy, one in schedules.items() for name, way in executions(policy, one).items()}
        return loss_distributions(problem, ways, **options)
