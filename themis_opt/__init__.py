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

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from themis_opt.base.version import __version__ as __version__

if TYPE_CHECKING:
    from themis_opt.batches.experiment_run import run_experiment as run_experiment
    from themis_opt.designing.design import Design as Design
    from themis_opt.designing.design import design as design
    from themis_opt.designing.problem import DesignProblem as DesignProblem
    from themis_opt.families.calls import calibrate as calibrate
    from themis_opt.families.calls import export as export
    from themis_opt.families.calls import plan as plan
    from themis_opt.families.calls import workload as workload
    from themis_opt.families.door import bounds as bounds
    from themis_opt.families.door import compare as compare
    from themis_opt.families.door import explain as explain
    from themis_opt.families.door import load as load
    from themis_opt.families.door import make_policy as make_policy
    from themis_opt.families.door import measured as measured
    from themis_opt.families.door import plot as plot
    from themis_opt.families.door import robustness as robustness
    from themis_opt.families.door import simulate as simulate
    from themis_opt.families.door import solve as solve
    from themis_opt.families.door import sweep as sweep
    from themis_opt.families.door import validate as validate
    from themis_opt.graphs.problem import GraphInstance as GraphInstance
    from themis_opt.pipelines.problem import Pipeline as Pipeline
    from themis_opt.problem.exchanges import Collective as Collective
    from themis_opt.problem.exchanges import Exchange as Exchange
    from themis_opt.problem.exchanges import Tensor as Tensor
    from themis_opt.problem.instance import Instance as Instance
    from themis_opt.problem.iteration import ComputeTask as ComputeTask
    from themis_opt.problem.iteration import Iteration as Iteration
    from themis_opt.problem.iteration import Split as Split
    from themis_opt.problem.network import Dimension as Dimension
    from themis_opt.problem.network import Network as Network
    from themis_opt.problem.network import Packet as Packet
    from themis_opt.problem.network import Rail as Rail
    from themis_opt.reports import make_report as make_report
    from themis_opt.schedules.plan import Chunks as Chunks
    from themis_opt.schedules.plan import Launch as Launch
    from themis_opt.schedules.plan import Plan as Plan
    from themis_opt.schedules.plan import TaskOf as TaskOf
    from themis_opt.schedules.schedule import Schedule as Schedule
    from themis_opt.schedules.verification import verify as verify
    from themis_opt.study.comparison import Comparison as Comparison
    from themis_opt.study.comparison import Result as Result
    from themis_opt.study.robustness import Execution as Execution
    from themis_opt.study.robustness import executions as executions
    from themis_opt.study.robustness import loss_distributions as loss_distributions
    from themis_opt.tuning import tune as tune


_NAMES: Mapping[str, tuple[str, ...]] = {
    "batches.experiment_run": ("run_experiment",),
    "designing.design": ("Design", "design"),
    "designing.problem": ("DesignProblem",),
    "families.calls": ("calibrate", "export", "plan", "workload"),
    "families.door": (
        "bounds",
        "compare",
        "explain",
        "load",
        "make_policy",
        "measured",
        "plot",
        "robustness",
        "simulate",
        "solve",
        "sweep",
        "validate",
    ),
    "graphs.problem": ("GraphInstance",),
    "pipelines.problem": ("Pipeline",),
    "problem.exchanges": ("Collective", "Exchange", "Tensor"),
    "problem.instance": ("Instance",),
    "problem.iteration": ("ComputeTask", "Iteration", "Split"),
    "problem.network": ("Dimension", "Network", "Packet", "Rail"),
    "reports": ("make_report",),
    "schedules.plan": ("Chunks", "Launch", "Plan", "TaskOf"),
    "schedules.schedule": ("Schedule",),
    "schedules.verification": ("verify",),
    "study.comparison": ("Comparison", "Result"),
    "study.robustness": ("Execution", "executions", "loss_distributions"),
    "tuning": ("tune",),
}
"""Public names by the module that defines them."""

_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without the solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'themis_opt' has no attribute '{name}'")
    return getattr(import_module(f"themis_opt.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
