"""Schedules of collective communication on multi-dimensional networks, with proven gaps.

Examples
--------
>>> import themis_opt
>>> instance = themis_opt.load("fig5.all_reduce.256MB")
>>> comparison = themis_opt.solve(instance, time_limit=10)
>>> [result.policy for result in comparison.results]
['baseline+fifo', 'themis+fifo', 'themis+scf', 'hourglass', 'exact']
>>> comparison.best.status
'optimal'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from themis_opt.catalog import load
    from themis_opt.comparison import compare, solve
    from themis_opt.explanation import explain
    from themis_opt.instance import Collective, Dimension, Instance, Network, Packet
    from themis_opt.lower_bounds import bounds
    from themis_opt.plan import Chunks, Plan
    from themis_opt.policies.registry import make_policy
    from themis_opt.robustness import Execution, executions, loss_distributions
    from themis_opt.schedule import Schedule
    from themis_opt.simulator import simulate
    from themis_opt.validation import validate
    from themis_opt.verification import verify

__version__ = "0.1.0"

_HOME = {
    "Chunks": "plan",
    "Collective": "instance",
    "Dimension": "instance",
    "Execution": "robustness",
    "Instance": "instance",
    "Network": "instance",
    "Packet": "instance",
    "Plan": "plan",
    "Schedule": "schedule",
    "bounds": "lower_bounds",
    "compare": "comparison",
    "executions": "robustness",
    "explain": "explanation",
    "load": "catalog",
    "loss_distributions": "robustness",
    "make_policy": "policies.registry",
    "simulate": "simulator",
    "solve": "comparison",
    "validate": "validation",
    "verify": "verification",
}

__all__ = [
    "Chunks",
    "Collective",
    "Dimension",
    "Execution",
    "Instance",
    "Network",
    "Packet",
    "Plan",
    "Schedule",
    "bounds",
    "compare",
    "executions",
    "explain",
    "load",
    "loss_distributions",
    "make_policy",
    "simulate",
    "solve",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without the solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'themis_opt' has no attribute '{name}'")
    return getattr(import_module(f"themis_opt.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
