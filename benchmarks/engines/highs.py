"""HiGHS (https://highs.dev) on the programme that ``themis-opt export --to model:form=mps`` writes of Themis' paths."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from highspy import Highs

from formulations.job_plans import JobTimes
from themis_opt.formats.solver_models import LINEAR_RESOLUTION, SolverModel
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.lowering import enforced_plan, in_ticks, job_plans


def solve(instance: Instance, sizes: str, seconds: float, watch: Any) -> None:
    """Themis' paths, and their stages in the order of the best start times."""
    start = simulate(instance, make_policy("themis+scf")(instance))
    watch(start)
    ((name, text),) = SolverModel("mps").files(start)
    data, solver = in_ticks(start, LINEAR_RESOLUTION), Highs()
    jobs = job_plans(data, start)
    solver.silent()
    with TemporaryDirectory() as folder:
        Path(folder, name).write_text(str(text), encoding="utf-8")
        solver.readModel(str(Path(folder, name)))
    columns = solver.getLp().col_names_

    def improve(event: Any) -> None:
        begins = dict(zip(columns, map(round, event.data_out.mip_solution), strict=True))
        plans = [
            [_timed(times, f"start_{j}_{i}_", begins) for i, times in enumerate(job)] for j, job in enumerate(jobs)
        ]
        watch(simulate(instance, enforced_plan(instance, data, plans)))

    solver.cbMipImprovingSolution += improve
    solver.solve()


def _timed(times: JobTimes, prefix: str, begins: dict[str, int]) -> JobTimes:
    """The plan of a job with the start times of the programme."""
    values = iter([begins[f"{prefix}{number}"] for number in range(sum(map(len, times.paths)))])
    return JobTimes(times.paths, tuple(tuple(next(values) for _ in order) for order in times.paths))
