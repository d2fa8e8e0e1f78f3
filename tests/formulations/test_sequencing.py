"""Sequencing on given paths: against brute force over sequences and paths, and figure 5 of the Themis paper."""

from collections.abc import Callable
from itertools import permutations, product

import pytest
from brute_force import brute_force
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.linear_solver import pywraplp

from formulations.lattice import JobClass, JobPhase, arcs
from formulations.sequencing import JobPath, JobPaths, PathStage, sequencing_milp, stages_along
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.lowering import chunk_order_data, job_plans

HORIZON = 400
Problem = tuple[list[JobClass], list[list[JobPath]]]


def ways(job: JobClass) -> list[JobPath]:
    """All paths of a job."""
    return list(product(*(permutations(job.machines) for _ in job.phases)))


@st.composite
def job_classes(draw: st.DrawFn, num_phases: int, count: int) -> JobClass:
    machines = draw(st.sampled_from([(0, 1), (0, 1), (0,), (1,)]))
    phase = st.builds(
        JobPhase,
        duration=st.fixed_dictionaries({arc: st.integers(0, 9) for arc in arcs(machines)}),
        lag=st.fixed_dictionaries({k: st.integers(0, 4) for k in machines}),
    )
    release = draw(st.sampled_from([0, 0, 1, 5]))
    return JobClass(machines, tuple(draw(phase) for _ in range(num_phases)), count=count, release=release)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Two jobs of two phases, or four of one phase, alike or not."""
    num_phases, num_jobs = draw(st.sampled_from([(2, 2), (1, 4)]))
    counts = draw(st.sampled_from([[num_jobs], [1, num_jobs - 1]]))
    jobs = [draw(job_classes(num_phases, count)) for count in counts]
    return jobs, [[draw(st.sampled_from(ways(job))) for _ in range(job.count)] for job in jobs]


def least_makespan(jobs: list[JobClass], paths: JobPaths) -> int:
    """Least makespan over all machine sequences: stages in all interleavings, each as early as it can start."""
    ways = [stages_along(job, path) for job, paths_of_class in zip(jobs, paths, strict=True) for path in paths_of_class]
    best = HORIZON

    def extend(remaining: tuple[tuple[PathStage, ...], ...], ready: tuple[int, ...], free: dict[int, int]) -> None:
        nonlocal best
        if not any(remaining):
            best = min(best, max(ready))
        for i, stages in enumerate(remaining):
            if stages and max(ready) < best:
                end = max(ready[i], free.get(stages[0].resource, 0)) + stages[0].duration
                left = (*remaining[:i], stages[1:], *remaining[i + 1 :])
                extend(left, (*ready[:i], end + stages[0].lag, *ready[i + 1 :]), free | {stages[0].resource: end})

    extend(tuple(ways), tuple(int(job.release) for job in jobs for _ in range(job.count)), {})
    return best


def least(jobs: list[JobClass], paths: JobPaths, horizon: int = HORIZON) -> float | None:
    """The optimum of the programme; None if it has no solution."""
    solver = sequencing_milp(jobs, paths, horizon)
    return solver.Objective().Value() if solver.Solve() == pywraplp.Solver.OPTIMAL else None


@settings(max_examples=15)
@given(problems())
def test_optimum_equals_brute_force(problem: Problem) -> None:
    assert least(*problem) == pytest.approx(least_makespan(*problem))


@settings(max_examples=8)
@given(st.lists(job_classes(num_phases=2, count=1), min_size=2, max_size=2))
def test_the_least_optimum_over_all_paths_equals_that_of_chunk_order(jobs: list[JobClass]) -> None:
    paths = [[[one], [other]] for one, other in product(*map(ways, jobs))]
    assert min(least_makespan(jobs, choice) for choice in paths) == brute_force(jobs)


def test_stages_depend_on_the_machines_visited_before_in_the_phase() -> None:
    scatter = JobPhase(duration={(0, 0): 4, (0, 1): 8, (1, 1): 2, (2, 0): 1}, lag={0: 1, 1: 2})
    gather = JobPhase(duration={(0, 0): 1, (0, 1): 2, (1, 1): 8, (2, 0): 4}, lag={0: 1, 1: 2})
    job = JobClass((0, 1), (scatter, gather), count=1, release=3)
    assert stages_along(job, ((0, 1), (1, 0))) == (
        PathStage(0, 4, 1),
        PathStage(1, 2, 2),
        PathStage(1, 2, 2),
        PathStage(0, 4, 1),
    )


def test_a_horizon_below_the_optimum_is_infeasible() -> None:
    alike = JobClass((0,), (JobPhase(duration={(0, 0): 4}, lag={0: 1}),), count=2)
    assert least([alike], [[((0,),)] * 2], horizon=8) is None
    assert least([alike], [[((0,),)] * 2], horizon=9) == pytest.approx(9)


def test_figure_5_on_the_paths_of_themis_takes_seven_units(
    figure_5: Instance, run: Callable[[Instance, str], Schedule]
) -> None:
    """Themis (ISCA 2022), section 4.2, figure 5; a unit is 1 ms, a quarter of it a tick."""
    data = chunk_order_data(figure_5, (equal_sizes(figure_5.exchanges[0]),), tick=10**9 // 4)
    paths = [[times.paths for times in plans] for plans in job_plans(data, run(figure_5, "themis+fifo"))]
    assert least(list(data.jobs), paths) == pytest.approx(7 * 4)
