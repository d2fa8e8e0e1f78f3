"""The reference policy beside other solvers, all with the same wall time.

Needs the package ``pyjobshop``.  THEMIS_OPT_BENCHMARK_SECONDS sets the seconds that each solver may take, everything
included, and THEMIS_OPT_BENCHMARK_OUTPUT the folder for tables, trajectories and picture.

All solvers have the same chunks and threads and stop at the same gap; their best sequences are simulated exactly.  The
reference policy is given the bounds of :mod:`themis_opt.solving.bounds`, whose computation counts as its time.  The
constraint programmes start from nothing but a horizon in which all stages run one after another.  Those on given
paths solve a smaller problem: on the paths of Themis, and on those of the reference policy, where they
begin with half of its work done.
"""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import pytest
from anytime import ANY_PATHS, Contest, Point, Recorder, Run, draw, markdown

import themis_opt
from formulations.chunk_order import ChunkOrder
from formulations.cp_sat import SolverProgress
from formulations.job_plans import PlanOutcome
from formulations.limits import Limits
from formulations.sequencing import JobPaths, stages_along
from themis_opt.batches.rows_file import write_csv
from themis_opt.formats.tables import to_csv
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.annealing import is_ready
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds
from themis_opt.solving.lowering import ChunkOrderData, chunk_order_data, enforced_plan, job_plans

pytestmark = pytest.mark.benchmarks

SECONDS = float(os.environ.get("THEMIS_OPT_BENCHMARK_SECONDS", "20"))
OUTPUT = os.environ.get("THEMIS_OPT_BENCHMARK_OUTPUT")
WORKERS = 2
CASES = [(network, chunks) for network in ("3d-sw_sw_sw_hetero", "4d-ring_fc_ring_sw") for chunks in (8, 16)]

RESOLUTION = 2**22  # ticks into which the makespan of Themis is divided
TOLERANCE = 1e-9

OF_THEMIS, OF_REFERENCE = "of Themis", "of the reference"  # whose paths are given


class Model(Protocol):
    """A constraint programme."""

    def solve(self, budget: Limits, report: SolverProgress) -> PlanOutcome:
        """Search within a budget."""


@pytest.fixture(scope="module")
def contests() -> list[Contest]:
    """All contests so far."""
    return []


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def contest(
    request: pytest.FixtureRequest, contests: list[Contest], tmp_path_factory: pytest.TempPathFactory
) -> Contest:
    """All solvers on one instance; what is known so far is written."""
    pytest.importorskip("pyjobshop")
    network, chunks = request.param
    contests.append(held(themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=chunks)))
    write(contests, Path(OUTPUT) if OUTPUT else tmp_path_factory.mktemp("references"))
    return contests[-1]


@dataclass(frozen=True)
class Competitors:
    """The solvers that get an instance as whole ticks and start from nothing."""

    instance: Instance
    data: ChunkOrderData

    def run(self, solver: str, paths: str, build: Callable[[], Model]) -> Run:
        """Give a solver its time, and simulate its best plan."""
        record = Recorder(SECONDS, self.data.tick)
        model = build()
        outcome = model.solve(Limits(record.left, WORKERS), record)
        bound = float(outcome.bound * self.data.tick)
        if outcome.jobs is None:
            return record.run(solver, None, bound, paths)
        schedule = simulate(self.instance, enforced_plan(self.instance, self.data, outcome.jobs))
        validate(schedule)
        return record.run(solver, schedule, bound, paths)

    def choosing_paths(self, known: Schedule) -> Run:
        """The model of the reference policy alone, with the horizon that the paths of a known schedule give."""
        return self.run("chunk_order", ANY_PATHS, lambda: ChunkOrder(self.data.jobs, self.horizon(known)))

    def on_paths(self, known: Schedule, owner: str) -> Run:
        """The model that needs paths, with those of a known schedule."""
        from pyjobshop_model import JobShop

        given = self.data.jobs, self.paths(known), self.horizon(known)
        return self.run(f"PyJobShop, paths {owner}", owner, lambda: JobShop(*given))

    def paths(self, schedule: Schedule) -> JobPaths:
        """The paths of a schedule."""
        return [[times.paths for times in job] for job in job_plans(self.data, schedule)]

    def horizon(self, schedule: Schedule) -> int:
        """Makespan, in ticks, of all stages on the paths of a schedule one after another."""
        return sum(
            stage.duration + stage.lag
            for job, paths_of_job in zip(self.data.jobs, self.paths(schedule), strict=True)
            for path in paths_of_job
            for stage in stages_along(job, path)
        ) + max(int(job.release) for job in self.data.jobs)


def held(instance: Instance) -> Contest:
    """Run all solvers on an instance, one after another."""
    (collective,) = instance.collectives
    themis = simulate(instance, make_policy("themis+scf")(instance))
    proven, schedule, reference = run_reference(instance, themis)
    tick = max(1, themis.makespan // RESOLUTION)
    competitors = Competitors(instance, chunk_order_data(instance, [equal_sizes(collective)], tick))
    runs = (
        reference,
        competitors.choosing_paths(themis),
        competitors.on_paths(themis, OF_THEMIS),
        competitors.on_paths(schedule, OF_REFERENCE),
        Run("themis+scf", themis, 0.0, ANY_PATHS, (Point(0.0, themis.makespan, 0.0),), 0.0),
    )
    return Contest(instance.name, collective.chunks, SECONDS, proven, runs)


def run_reference(instance: Instance, known: Schedule) -> tuple[dict[str, float], Schedule, Run]:
    """The bounds, and the reference policy in the time that they leave; loading its compiled code does not count."""
    is_ready(None)
    record = Recorder(SECONDS)
    proven = bounds(instance)
    policy = Exact(seconds=record.left, workers=WORKERS, sizes="equal")
    solution = policy.solve(instance, max(proven.values()), record)
    validate(solution.schedule)
    return proven, solution.schedule, record.run("reference", solution.schedule, solution.bound, ANY_PATHS)


def write(contests: list[Contest], folder: Path) -> None:
    """Tables, trajectories and picture of all contests."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = ", ".join(f"{name} {version(name)}" for name in ("themis-opt", "ortools", "pyjobshop"))
    protocol = f"{WORKERS} threads on {os.cpu_count()} cores ({platform.system()} {platform.machine()}); {versions}.\n"
    (folder / "references.md").write_text("\n".join([protocol, *map(markdown, contests)]))
    (folder / "references.csv").write_text(to_csv([row for contest in contests for row in contest.rows()]))
    points = [row for contest in contests for row in contest.points()]
    write_csv(folder / "trajectories.csv.gz", list(points[0]), points)
    draw(points, folder)


def test_the_reference_is_not_worse_than_any_solver_that_it_did_not_help(
    contest: Contest, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{markdown(contest)}")
    reference, *others = contest.runs
    assert reference.makespan <= min(run.makespan for run in others if run.paths != OF_REFERENCE)


def test_no_bound_exceeds_the_makespan_of_a_schedule_for_which_it_holds(contest: Contest) -> None:
    makespans = [(run.schedule.plan.chunks, run.makespan) for run in contest.runs if run.schedule is not None]
    assert contest.bound <= min(makespan for _, makespan in makespans) * (1 + TOLERANCE)
    for run in contest.runs:
        if run.schedule is not None:
            on_its_paths = min(makespan for chunks, makespan in makespans if chunks == run.schedule.plan.chunks)
            assert run.bound <= on_its_paths * (1 + TOLERANCE), run.solver
