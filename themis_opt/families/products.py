"""Collectives, and training iterations, on products of dimensions.

Solvers are imported where they are first needed, so that a simulation starts without them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.families.family import Family
from themis_opt.graphs.registry import has_policy
from themis_opt.policies.registry import LAUNCHING, POLICIES, REFERENCE
from themis_opt.problem.catalog import instance_text
from themis_opt.problem.instance import Instance
from themis_opt.schedules.explanation import explain
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.timed import Explanation
from themis_opt.schedules.validation import validate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.schedules.schedule_file import Summary
    from themis_opt.study.comparison import Comparison
    from themis_opt.study.robustness import LossDistribution


class ProductFamily(Family):
    """Batches, tuning and workloads ask other modules what has no method here."""

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

    def has_policy(self, specification: str) -> bool:
        """Whether a registry has the name at the head of the specification, or it is an import path."""
        head, *others = re.split("[+:/]", specification)
        return head in POLICIES or head in LAUNCHING or (bool(others) and ":" in specification)

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

    def export(self, schedule: Schedule, to: str, folder: Path, *, check: bool = False) -> tuple[list[Path], list[str]]:
        """As :func:`themis_opt.formats.exports.export`."""
        from themis_opt.formats.exports import export, in_sentences, make_exporter

        exporter = make_exporter(to)
        files = export(schedule, exporter, folder)
        return files, in_sentences(exporter.check(schedule, folder)) if check else []

    def sweep(self, problem: Instance, over: Mapping[str, Sequence[Any]], policies: Any = None, **limits: Any) -> Any:
        """As :func:`themis_opt.study.sweep.sweep`."""
        from themis_opt.study.sweep import sweep

        return sweep(problem, over, policies, **limits)

    def read_solution(self, path: Path, problem: Instance | None = None) -> "tuple[Schedule, Summary]":
        """As :func:`themis_opt.schedules.schedule_file.read_solution`, validated; or what an order table comes to."""
        from themis_opt.formats.order_table import ORDER_FORMAT, read_order_table
        from themis_opt.schedules.schedule_file import Summary, read_solution

        try:
            schedule, summary = read_solution(path, problem)
        except InputError as error:
            if error.value != ORDER_FORMAT:
                raise
            schedule, summary = read_order_table(path, problem), Summary(policy="order table")
        validate(schedule)
        return schedule, summary

    def text(self, problem: Instance) -> str:
        """As :func:`themis_opt.problem.catalog.instance_text`."""
        return instance_text(problem)

    def in_short(self, problem: Instance) -> str:
        """As :func:`themis_opt.problem.description.in_short`."""
        from themis_opt.problem.description import in_short

        return in_short(problem)

    def changed(self, problem: Instance, changes: Mapping[str, Any]) -> Instance:
        """The instance with other sizes, chunks, orders or costs."""
        from pydantic import ValidationError

        from themis_opt.problem.cost import check_clock
        from themis_opt.problem.cost_overrides import with_costs
        from themis_opt.problem.cost_terms import COST_TERMS
        from themis_opt.problem.fields import located

        costs = {name: value for name, value in changes.items() if name in COST_TERMS}
        try:
            changed = problem.overridden(**{name: value for name, value in changes.items() if name not in costs})
        except ValidationError as error:
            raise located(error).within("command line") from None
        except InputError as error:
            raise error.within("command line") from None
        check_clock(changed)
        return with_costs(changed, **costs) if costs else changed

    def doubts(self, problem: Instance) -> Iterable[str]:
        """As :func:`themis_opt.problem.network.doubts`."""
        from themis_opt.problem.network import doubts

        return doubts(problem.network)

    def on_graph(self, problem: Instance, policies: Sequence[str], *, needed: bool) -> Any:
        """The instance, or the collective on the graph of its network."""
        names = set(policies) - {REFERENCE}
        if not needed and not (names and all(map(has_policy, names))):
            return problem
        from themis_opt.graphs.conversion import as_graph

        return as_graph(problem)

    def robustness(self, problem: Instance, policies: Sequence[str], **options: Any) -> "tuple[LossDistribution, ...]":
        """As :func:`themis_opt.study.robustness.loss_distributions`, of the plans that policies make."""
        from themis_opt.policies.registry import make_policy
        from themis_opt.study.robustness import executions, loss_distributions

        schedules = {name: simulate(problem, make_policy(name)(problem)) for name in policies}
        ways = {name: way for policy, one in schedules.items() for name, way in executions(policy, one).items()}
        return loss_distributions(problem, ways, **options)
