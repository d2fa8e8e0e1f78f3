"""HiGHS (https://highs.dev) on the programme that ``themis-opt export --to model:form=mps`` writes of Themis' paths."""

from ortools.linear_solver.python import model_builder

from formulations.job_plans import JobTimes
from themis_opt.formats.solver_models import LINEAR_RESOLUTION, SolverModel
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.lowering import enforced_plan, in_ticks, job_plans


def solve(instance: Instance, seconds: float) -> Schedule:
    """Themis' paths in the order of its best start times; Themis itself where it has none."""
    start = simulate(instance, make_policy("themis+scf")(instance))
    ((_, text),) = SolverModel("mps").files(start)
    model, solver = model_builder.Model(), model_builder.Solver("highs")
    model.import_from_mps_string(str(text))
    solver.set_time_limit_in_seconds(seconds)
    if solver.solve(model) not in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
        return start
    begins = {variable.name: round(solver.value(variable)) for variable in model.get_variables()}
    data = in_ticks(start, LINEAR_RESOLUTION)
    plans = [
        [_timed(times, f"start_{j}_{i}_", begins) for i, times in enumerate(jobs)]
        for j, jobs in enumerate(job_plans(data, start))
    ]
    return min(start, simulate(instance, enforced_plan(instance, data, plans)), key=lambda each: each.makespan)


def _timed(times: JobTimes, prefix: str, begins: dict[str, int]) -> JobTimes:
    """The plan of a job with the start times of the programme."""
    values = iter([begins[f"{prefix}{number}"] for number in range(sum(map(len, times.paths)))])
    return JobTimes(times.paths, tuple(tuple(next(values) for _ in order) for order in times.paths))
