"""Schedules of collective communication on multi-dimensional networks, with proven gaps.

Examples
--------
>>> import themis_opt
>>> instance = themis_opt.load("fig5.all_reduce.256MB")
>>> comparison = themis_opt.solve(instance, time_limit=10)
>>> [result.policy for result in comparison.results]
['baseline+fifo', 'nccl', 'themis+fifo', 'themis+scf', 'hourglass', 'exact']
>>> comparison.best.status
'optimal'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from themis_opt.base.version import __version__ as __version__

if TYPE_CHECKING:
    from themis_opt.batches.experiment_run import run_experiment
    from themis_opt.designing.design import Design, design, pareto
    from themis_opt.designing.problem import DesignProblem
    from themis_opt.formats.plot import plot
    from themis_opt.formats.readers.registry import load
    from themis_opt.policies.registry import make_policy
    from themis_opt.problem.exchanges import Collective, Exchange, Tensor
    from themis_opt.problem.instance import Instance
    from themis_opt.problem.iteration import ComputeTask, Iteration, Split
    from themis_opt.problem.network import Dimension, Network, Packet, Rail
    from themis_opt.reports import make_report
    from themis_opt.schedules.explanation import explain
    from themis_opt.schedules.plan import Chunks, Launch, Plan, TaskOf
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.simulator import simulate
    from themis_opt.schedules.validation import validate
    from themis_opt.schedules.verification import verify
    from themis_opt.solving.bounds import bounds
    from themis_opt.study.comparison import Comparison, Result, compare, solve
    from themis_opt.study.robustness import Execution, executions, loss_distributions
    from themis_opt.study.sweep import sweep
    from themis_opt.tuning import tune


_HOME = {
    "Chunks": "schedules.plan",
    "Collective": "problem.exchanges",
    "Comparison": "study.comparison",
    "ComputeTask": "problem.iteration",
    "Design": "designing.design",
    "DesignProblem": "designing.problem",
    "Dimension": "problem.network",
    "Exchange": "problem.exchanges",
    "Execution": "study.robustness",
    "Instance": "problem.instance",
    "Iteration": "problem.iteration",
    "Launch": "schedules.plan",
    "Network": "problem.network",
    "Packet": "problem.network",
    "Plan": "schedules.plan",
    "Rail": "problem.network",
    "Result": "study.comparison",
    "Schedule": "schedules.schedule",
    "Split": "problem.iteration",
    "TaskOf": "schedules.plan",
    "Tensor": "problem.exchanges",
    "bounds": "solving.bounds",
    "compare": "study.comparison",
    "design": "designing.design",
    "executions": "study.robustness",
    "explain": "schedules.explanation",
    "load": "formats.readers.registry",
    "loss_distributions": "study.robustness",
    "make_policy": "policies.registry",
    "make_report": "reports",
    "pareto": "designing.design",
    "plot": "formats.plot",
    "run_experiment": "batches.experiment_run",
    "simulate": "schedules.simulator",
    "solve": "study.comparison",
    "sweep": "study.sweep",
    "tune": "tuning",
    "validate": "schedules.validation",
    "verify": "schedules.verification",
}

__all__ = [
    "Chunks",
    "Collective",
    "Comparison",
    "ComputeTask",
    "Design",
    "DesignProblem",
    "Dimension",
    "Exchange",
    "Execution",
    "Instance",
    "Iteration",
    "Launch",
    "Network",
    "Packet",
    "Plan",
    "Rail",
    "Result",
    "Schedule",
    "Split",
    "TaskOf",
    "Tensor",
    "bounds",
    "compare",
    "design",
    "executions",
    "explain",
    "load",
    "loss_distributions",
    "make_policy",
    "make_report",
    "pareto",
    "plot",
    "run_experiment",
    "simulate",
    "solve",
    "sweep",
    "tune",
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
