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
    from themis_opt.designing.design import Design, design
    from themis_opt.designing.problem import DesignProblem
    from themis_opt.families.calls import calibrate, export, plan, workload
    from themis_opt.families.door import (
        bounds,
        compare,
        explain,
        load,
        make_policy,
        measured,
        plot,
        robustness,
        simulate,
        solve,
        sweep,
        validate,
    )
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.pipelines.problem import Pipeline
    from themis_opt.problem.exchanges import Collective, Exchange, Tensor
    from themis_opt.problem.instance import Instance
    from themis_opt.problem.iteration import ComputeTask, Iteration, Split
    from themis_opt.problem.network import Dimension, Network, Packet, Rail
    from themis_opt.reports import make_report
    from themis_opt.schedules.plan import Chunks, Launch, Plan, TaskOf
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.verification import verify
    from themis_opt.study.comparison import Comparison, Result
    from themis_opt.study.robustness import Execution, executions, loss_distributions
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
    "GraphInstance": "graphs.problem",
    "Instance": "problem.instance",
    "Iteration": "problem.iteration",
    "Launch": "schedules.plan",
    "Network": "problem.network",
    "Packet": "problem.network",
    "Pipeline": "pipelines.problem",
    "Plan": "schedules.plan",
    "Rail": "problem.network",
    "Result": "study.comparison",
    "Schedule": "schedules.schedule",
    "Split": "problem.iteration",
    "TaskOf": "schedules.plan",
    "Tensor": "problem.exchanges",
    "bounds": "families.door",
    "calibrate": "families.calls",
    "export": "families.calls",
    "plan": "families.calls",
    "workload": "families.calls",
    "compare": "families.door",
    "design": "designing.design",
    "executions": "study.robustness",
    "explain": "families.door",
    "load": "families.door",
    "loss_distributions": "study.robustness",
    "make_policy": "families.door",
    "make_report": "reports",
    "measured": "families.door",
    "plot": "families.door",
    "run_experiment": "batches.experiment_run",
    "simulate": "families.door",
    "solve": "families.door",
    "sweep": "families.door",
    "robustness": "families.door",
    "tune": "tuning",
    "validate": "families.door",
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
    "GraphInstance",
    "Instance",
    "Iteration",
    "Launch",
    "Network",
    "Packet",
    "Pipeline",
    "Plan",
    "Rail",
    "Result",
    "Schedule",
    "Split",
    "TaskOf",
    "Tensor",
    "bounds",
    "calibrate",
    "compare",
    "design",
    "executions",
    "explain",
    "export",
    "load",
    "loss_distributions",
    "make_policy",
    "make_report",
    "measured",
    "plan",
    "plot",
    "robustness",
    "run_experiment",
    "simulate",
    "solve",
    "sweep",
    "tune",
    "validate",
    "verify",
    "workload",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without the solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'themis_opt' has no attribute '{name}'")
    return getattr(import_module(f"themis_opt.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
