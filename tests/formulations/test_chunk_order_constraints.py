"""Each constraint of the chunk-order model: what obeys it is accepted, what breaks it refused."""

from dataclasses import replace

import pytest
from ortools.sat.python import cp_model

from formulations.chunk_order import ChunkOrder
from formulations.job_plans import JobPlans, JobTimes
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)


def ignore(objective: float, bound: float) -> None:
    """SolverProgress to nobody."""


SCATTER = JobPhase(duration={(0, 0): 4, (0, 1): 8, (1, 1): 2, (2, 0): 1}, lag={0: 1, 1: 2})
GATHER = JobPhase(duration={(0, 0): 1, (0, 1): 2, (1, 1): 8, (2, 0): 4}, lag={0: 1, 1: 2})
ONE_JOB = JobClass((0, 1), (SCATTER, GATHER), count=1, release=3)
LEGAL = JobTimes(paths=((0, 1), (1, 0)), starts=((3, 8), (12, 16)))
"""Scatter 3-7 and, a lag of 1 later, 8-10; ready at 12: gather 12-14 and, a lag of 2 later, 16-20."""
FINISH = 21


def accepts(plans: JobPlans, jobs: tuple[JobClass, ...] = (ONE_JOB,), horizon: int = 100, lower_bound: int = 0) -> bool:
    """Whether the model has a solution with these paths and starts."""
    model = ChunkOrder(jobs, horizon, lower_bound)
    for jobs_of_class, plans_of_class in zip(model.variables, plans, strict=True):
        for variables, times in zip(jobs_of_class, plans_of_class, strict=True):
            for phase, order, starts in zip(variables.phases, times.paths, times.starts, strict=True):
                for position, (machine, start) in enumerate(zip(order, starts, strict=True)):
                    visited = sum(1 << k for k in order[:position])
                    model.model.add(phase.taken[visited, machine] == 1)
                    model.model.add(phase.start[machine] == start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def moved(phase: int, position: int, by: int) -> JobTimes:
    """The legal plan with one stage moved."""
    starts = [list(s) for s in LEGAL.starts]
    starts[phase][position] += by
    return replace(LEGAL, starts=tuple(tuple(s) for s in starts))


def test_a_legal_plan_is_accepted() -> None:
    assert accepts([[LEGAL]])


def test_path_must_visit_every_machine_once_per_phase() -> None:
    """(1)."""
    model = ChunkOrder([ONE_JOB], 100)
    model.model.add(sum(model.variables[0][0].phases[0].taken.values()) != 2)
    assert model.solve(EXACTLY, ignore).status == "infeasible"


@pytest.mark.parametrize(("first_is_0", "status"), [(1, "optimal"), (0, "infeasible")])
def test_order_literals_agree_with_the_path(first_is_0: int, status: str) -> None:
    """(2)."""
    model = ChunkOrder([ONE_JOB], 100)
    phase = model.variables[0][0].phases[0]
    model.model.add(phase.taken[0, 0] == 1)
    model.model.add(phase.before[0, 1] == first_is_0)
    assert model.solve(EXACTLY, ignore).status == status


@pytest.mark.parametrize(("duration", "status"), [(2, "optimal"), (8, "infeasible")])
def test_duration_belongs_to_the_arc_taken(duration: int, status: str) -> None:
    """(3): machine 1 takes 2 after machine 0, and 8 before it."""
    model = ChunkOrder([ONE_JOB], 100)
    phase = model.variables[0][0].phases[0]
    model.model.add(phase.taken[0, 0] == 1)
    model.model.add(phase.duration[1] == duration)
    assert model.solve(EXACTLY, ignore).status == status


def test_a_stage_may_not_start_before_the_result_of_the_one_before_it() -> None:
    """(4): its lag included."""
    assert not accepts([[moved(phase=0, position=1, by=-1)]])


def test_the_second_phase_may_not_start_before_the_results_of_the_first() -> None:
    """(5)."""
    assert not accepts([[moved(phase=1, position=0, by=-1)]])


def test_no_stage_may_start_before_the_release() -> None:
    assert not accepts([[moved(phase=0, position=0, by=-1)]])


ONE_PHASE = JobClass((0,), (JobPhase(duration={(0, 0): 4}, lag={0: 1}),), count=1)


@pytest.mark.parametrize(("second", "accepted"), [(4, True), (3, False)])
def test_stages_on_one_machine_may_touch_but_not_overlap(second: int, accepted: bool) -> None:
    """(6)."""
    one, other = JobTimes(((0,),), ((0,),)), JobTimes(((0,),), ((second,),))
    assert accepts([[one], [other]], (ONE_PHASE, ONE_PHASE)) is accepted


@pytest.mark.parametrize(("horizon", "accepted"), [(FINISH, True), (FINISH - 1, False)])
def test_makespan_holds_the_last_result_and_stays_within_the_horizon(horizon: int, accepted: bool) -> None:
    """(7) and (10)."""
    assert accepts([[LEGAL]], horizon=horizon) is accepted


def test_load_bounds_accept_machines_that_are_never_idle() -> None:
    """(8): two jobs back to back take 8 on the machine and 1 of lag."""
    back_to_back = [JobTimes(((0,),), ((0,),)), JobTimes(((0,),), ((4,),))]
    assert accepts([back_to_back], (replace(ONE_PHASE, count=2),), horizon=9)


def test_load_bounds_refuse_more_work_than_time() -> None:
    """(8)."""
    model = ChunkOrder([replace(ONE_PHASE, count=2)], horizon=8)
    assert model.solve(EXACTLY, ignore).status == "infeasible"


@pytest.mark.parametrize(("starts", "accepted"), [((0, 4), True), ((4, 0), False)])
def test_equal_jobs_are_numbered_by_their_first_start(starts: tuple[int, int], accepted: bool) -> None:
    """(9)."""
    times = [JobTimes(((0,),), ((start,),)) for start in starts]
    assert accepts([times], (replace(ONE_PHASE, count=2),)) is accepted


MIRRORED = replace(ONE_JOB, mirrored=True)


@pytest.mark.parametrize(
    ("second", "accepted"), [(((1, 0), (12, 16)), True), (((0, 1), (12, 14)), False)], ids=["reverse", "same order"]
)
def test_a_mirrored_job_gathers_in_reverse_only(second: tuple[tuple[int, ...], ...], accepted: bool) -> None:
    times = JobTimes((LEGAL.paths[0], second[0]), (LEGAL.starts[0], second[1]))
    assert accepts([[times]], (MIRRORED,)) is accepted


def test_a_job_that_is_not_mirrored_may_gather_in_the_scatter_order() -> None:
    same_order = JobTimes((LEGAL.paths[0], (0, 1)), (LEGAL.starts[0], (12, 14)))
    assert accepts([[same_order]])


def test_a_lower_bound_above_the_optimum_is_the_bound() -> None:
    """(10)."""
    assert ChunkOrder([ONE_JOB], horizon=100, lower_bound=50).solve(EXACTLY, ignore).bound == 50


def test_without_the_lower_bound_the_optimum_is_found() -> None:
    """(10)."""
    assert ChunkOrder([ONE_JOB], horizon=100).solve(EXACTLY, ignore).bound == FINISH
