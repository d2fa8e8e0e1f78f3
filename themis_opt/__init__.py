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

from themis_opt.version import __version__ as __version__

if TYPE_CHECKING:
    from themis_opt.batches.experiment_run import run_experiment
    from themis_opt.catalog import load
    from themis_opt.comparison import compare, solve
    from themis_opt.explanation import explain
    from themis_opt.instance import Collective, Dimension, Instance, Network, Packet
    from themis_opt.iteration import ComputeTask, Iteration, Split, Tensor
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.iterations.bounds import iteration_bounds
    from themis_opt.iterations.comparison import compare_iterations
    from themis_opt.iterations.registry import make_iteration_policy
    from themis_opt.iterations.simulator import simulate_iterations
    from themis_opt.iterations.validation import validate_iterations
    from themis_opt.lower_bounds import bounds
    from themis_opt.plan import Chunks, Plan
    from themis_opt.policies.registry import make_policy
    from themis_opt.reports import make_report
    from themis_opt.robustness import Execution, executions, loss_distributions
    from themis_opt.schedule import Schedule
    from themis_opt.simulator import simulate
    from themis_opt.tuning import tune
    from themis_opt.validation import validate
    from themis_opt.verification import verify


_HOME = {
    "Chunks": "plan",
    "Collective": "instance",
    "ComputeTask": "iteration",
    "Dimension": "instance",
    "Execution": "robustness",
    "Instance": "instance",
    "Iteration": "iteration",
    "IterationInstance": "iteration_instance",
    "Network": "instance",
    "Packet": "instance",
    "Plan": "plan",
    "Schedule": "schedule",
    "Split": "iteration",
    "Tensor": "iteration",
    "bounds": "lower_bounds",
    "compare": "comparison",
    "compare_iterations": "iterations.comparison",
    "executions": "robustness",
    "explain": "explanation",
    "iteration_bounds": "iterations.bounds",
    "load": "catalog",
    "loss_distributions": "robustness",
    "make_iteration_policy": "iterations.registry",
    "make_policy": "policies.registry",
    "make_report": "reports",
    "run_experiment": "batches.experiment_run",
    "simulate": "simulator",
    "simulate_iterations": "iterations.simulator",
    "solve": "comparison",
    "tune": "tuning",
    "validate": "validation",
    "validate_iterations": "iterations.validation",
    "verify": "verification",
}

__all__ = [
    "Chunks",
    "Collective",
    "ComputeTask",
    "Dimension",
    "Execution",
    "Instance",
    "Iteration",
    "IterationInstance",
    "Network",
    "Packet",
    "Plan",
    "Schedule",
    "Split",
    "Tensor",
    "bounds",
    "compare",
    "compare_iterations",
    "executions",
    "explain",
    "iteration_bounds",
    "load",
    "loss_distributions",
    "make_iteration_policy",
    "make_policy",
    "make_report",
    "run_experiment",
    "simulate",
    "simulate_iterations",
    "solve",
    "tune",
    "validate",
    "validate_iterations",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without the solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'themis_opt' has no attribute '{name}'")
    return getattr(import_module(f"themis_opt.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
