"""Collectives, and training iterations, on products of dimensions.

Solvers are imported where they are first needed, so that a simulation starts without them.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.families.family import Family, lazily
from themis_opt.graphs.registry import has_policy as is_of_graphs
from themis_opt.policies.registry import LAUNCHING, POLICIES, REFERENCE, specify
from themis_opt.problem.catalog import instance_text
from themis_opt.problem.instance import Instance
from themis_opt.schedules.explanation import explain
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

if TYPE_CHECKING:
    from themis_opt.schedules.envelope import Summary
    from themis_opt.study.robustness import LossDistribution


def has_policy(specification: str) -> bool:
    """Whether a registry has the name at the head of the specification, or it is an import path."""
    head, *others = re.split("[+:/]", specification)
    return head in POLICIES or head in LAUNCHING or (bool(others) and ":" in specification)


def read_solution(path: Path, problem: Instance | None = None) -> "tuple[Schedule, Summary]":
    """As :func:`themis_opt.schedules.schedule_file.read_solution`, validated; or what an order table comes to."""
    from themis_opt.formats.order_table import ORDER_FORMAT, read_order_table
    from themis_opt.schedules.envelope import Summary
    from themis_opt.schedules.schedule_file import read_solution

    try:
        schedule, summary = read_solution(path, problem)
    except InputError as error:
        if error.value != ORDER_FORMAT:
            error.rule += f", or '{ORDER_FORMAT}' of an order table" if error.field == "format" else ""
            raise
        schedule, summary = read_order_table(path, problem), Summary(policy="order table")
    validate(schedule)
    return schedule, summary


def changed(problem: Instance, changes: Mapping[str, Any]) -> Instance:
    """The instance with other sizes, chunks, orders or costs."""
    from themis_opt.problem.cost import check_clock
    from themis_opt.problem.cost_overrides import with_costs
    from themis_opt.problem.cost_terms import COST_TERMS
    from themis_opt.problem.documents import errors_of

    costs = {name: value for name, value in changes.items() if name in COST_TERMS}
    with errors_of("command line"):
        changed = problem.overridden(**{name: value for name, value in changes.items() if name not in costs})
    check_clock(changed)
    return with_costs(changed, **costs) if costs else changed


def on_graph(problem: Instance, policies: Sequence[str], *, needed: bool) -> Any:
    """The instance, or the collective on the graph of its network."""
    names = set(policies) - {REFERENCE}
    if not needed and not (names and all(map(is_of_graphs, names))):
        return problem
    from themis_opt.graphs.conversion import as_graph

    return as_graph(problem)


def robustness(problem: Instance, schedules: Mapping[str, Schedule], **options: Any) -> "tuple[LossDistribution, ...]":
    """As :func:`themis_opt.study.robustness.loss_distributions`, of the plans of schedules."""
    from themis_opt.study.robustness import executions, loss_distributions

    ways = {name: way for policy, one in schedules.items() for name, way in executions(policy, one).items()}
    return loss_distributions(problem, ways, **options)


PRODUCT_FAMILY = Family(
    name="instances on dimensions",
    solve=lazily("themis_opt.study.comparison:solve"),
    compare=lazily("themis_opt.study.comparison:compare"),
    bounds=lazily("themis_opt.solving.bounds:bounds"),
    has_policy=has_policy,
    make_policy=lazily("themis_opt.policies.registry:make_policy"),
    simulate=simulate,
    validate=validate,
    explain=explain,
    plot=lazily("themis_opt.formats.plot:plot"),
    export=lazily("themis_opt.families.files:export"),
    sweep=lazily("themis_opt.study.sweep:sweep"),
    read_solution=read_solution,
    text=instance_text,
    in_short=lazily("themis_opt.problem.description:in_short"),
    changed=changed,
    on_graph=on_graph,
    doubts=lambda problem: lazily("themis_opt.problem.network:doubts")(problem.network),
    robustness=robustness,
    rival=partial(specify, "themis+scf"),
)
