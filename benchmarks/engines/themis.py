"""Themis, with smallest chunks first."""

from typing import Any

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate


def solve(instance: Instance, sizes: str, seconds: float, watch: Any) -> None:
    """The schedule of the rule, which needs no time limit and has equal chunks."""
    watch(simulate(instance, make_policy("themis+scf")(instance)))
