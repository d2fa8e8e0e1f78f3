"""HiGHS (https://highs.dev) on the programme that ``themis-opt export --to model:form=mps`` writes of Themis' paths."""

import numpy as np
from ortools.linear_solver.python import model_builder

from themis_opt.formats.solver_models import SolverModel
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def solve(instance: Instance, seconds: float) -> Schedule:
    """Themis' paths in the order of its best start times; Themis itself where it has none."""
    start = simulate(instance, make_policy("themis+scf")(instance))
    ((_, text),) = SolverModel("mps").files(start)
    model, solver = model_builder.Model(), model_builder.Solver("highs")
    model.import_from_mps_string(str(text))
    solver.set_time_limit_in_seconds(seconds)
    if solver.solve(model) not in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
        return start
    values = {variable.name: solver.value(variable) for variable in model.get_variables()}
    starts = np.array([value for name, value in values.items() if name.startswith("start")])
    return min(start, simulate(instance, start.plan.in_order_of(instance, starts)), key=lambda each: each.makespan)
