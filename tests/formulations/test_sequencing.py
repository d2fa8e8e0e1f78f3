"""Sequencing on given paths: against brute force, constraint by constraint, and on whole instances."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations, product

import pytest
from brute_force import brute_force, recomputed_makespan
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from formulations.job_plans import JobTimes
from formulations.lattice import JobClass, JobPhase, arcs
from formulations.limits import Limits
from formulations.sequencing import JobPath, JobPaths, PathStage, Sequencing, one_machine_bound, stages_along
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.lowering import ChunkOrderData, chunk_order_data, enforced_plan, job_plans

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)
HORIZON = 400
Problem = tuple[list[JobClass], list[list[JobPath]]]


def ignore(objective: float, bound: float) -> None:
    """SolverProgress to nobody."""


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


def solved(jobs: list[JobClass], paths: JobPaths) -> tuple[int, int, str]:
    """Recomputed makespan, bound and status of the model, without any help."""
    outcome = Sequencing(jobs, paths, HORIZON).solve(EXACTLY, ignore)
    assert outcome.jobs is not None
    assert [[times.paths for times in plans] for plans in outcome.jobs] == paths
    return recomputed_makespan(jobs, outcome.jobs), outcome.bound, outcome.status


@given(problems())
def test_optimum_equals_brute_force(problem: Problem) -> None:
    best = least_makespan(*problem)
    assert solved(*problem) == (best, best, "optimal")


@settings(max_examples=12)
@given(job_classes(num_phases=2, count=3), st.data())
def test_optimum_of_three_two_phase_jobs_of_one_class_equals_brute_force(job: JobClass, data: st.DataObject) -> None:
    one, other = (data.draw(st.sampled_from(ways(job))) for _ in range(2))
    best = least_makespan([job], [[one, other, one]])
    assert solved([job], [[one, other, one]]) == (best, best, "optimal")


@settings(max_examples=8)
@given(st.lists(job_classes(num_phases=2, count=1), min_size=2, max_size=2))
def test_the_least_optimum_over_all_paths_equals_that_of_chunk_order(jobs: list[JobClass]) -> None:
    paths = [[[one], [other]] for one, other in product(*map(ways, jobs))]
    assert min(solved(jobs, choice)[0] for choice in paths) == brute_force(jobs)


SCATTER = JobPhase(duration={(0, 0): 4, (0, 1): 8, (1, 1): 2, (2, 0): 1}, lag={0: 1, 1: 2})
GATHER = JobPhase(duration={(0, 0): 1, (0, 1): 2, (1, 1): 8, (2, 0): 4}, lag={0: 1, 1: 2})
ONE_JOB = JobClass((0, 1), (SCATTER, GATHER), count=1, release=3)
TO_AND_FRO: JobPath = ((0, 1), (1, 0))
LEGAL = JobTimes(paths=TO_AND_FRO, starts=((3, 8), (12, 16)))
"""Scatter 3-7 and, a lag of 1 later, 8-10; ready at 12: gather 12-14 and, a lag of 2 later, 16-20."""


def feasible(model: Sequencing, *, hinted_only: bool = False) -> bool:
    """Whether the model has a solution, or is solved by its hint."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = hinted_only
    return solver.solve(model.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def moved(phase: int, position: int, by: int) -> JobTimes:
    """The legal plan with one stage moved."""
    starts = [list(s) for s in LEGAL.starts]
    starts[phase][position] += by
    return replace(LEGAL, starts=tuple(tuple(s) for s in starts))


def test_stages_depend_on_the_machines_visited_before_in_the_phase() -> None:
    assert stages_along(ONE_JOB, TO_AND_FRO) == (
        PathStage(0, 4, 1),
        PathStage(1, 2, 2),
        PathStage(1, 2, 2),
        PathStage(0, 4, 1),
    )


ONE_PHASE = JobClass((0,), (JobPhase(duration={(0, 0): 4}, lag={0: 1}),), count=1)
TWO_ALIKE = replace(ONE_PHASE, count=2)


QUICK = JobPhase(duration=dict.fromkeys(arcs((0, 1)), 1), lag={0: 0, 1: 0})
TWO_STAGES = JobClass((0, 1), (QUICK,), count=2)


windows = st.tuples(
    st.builds(PathStage, resource=st.sampled_from([0, 0, 1]), duration=st.integers(0, 9), lag=st.just(0)),
    st.integers(0, 20),
    st.integers(0, 20),
)


@given(st.lists(windows, min_size=1, max_size=6))
def test_one_machine_bound_is_the_greatest_over_all_subsets(stages: list[tuple[PathStage, int, int]]) -> None:
    """(5): least head, load and least tail."""
    subsets = [chosen for size in range(1, len(stages) + 1) for chosen in combinations(stages, size)]
    assert one_machine_bound(stages) == max(
        min(head for _, head, _ in chosen) + sum(s.duration for s, _, _ in chosen) + min(tail for _, _, tail in chosen)
        for chosen in subsets
        if len({stage.resource for stage, _, _ in chosen}) == 1
    )


class WithoutNoOverlap(Sequencing):
    """The model without (2) and (4), so that only (5) is left to count loads."""

    def _no_overlap(self) -> None:
        pass

    def _symmetry(self, group: object) -> None:
        pass


def test_the_makespan_is_at_least_the_one_machine_bound() -> None:
    """(5): machine 0 scatters both jobs from 3 on, and its last one has 1 + 2 + 2 + 2 + 2 + 4 + 1 to follow."""
    jobs = [replace(ONE_JOB, count=2)]
    outcome = WithoutNoOverlap(jobs, [[TO_AND_FRO] * 2], horizon=100).solve(EXACTLY, ignore)
    assert outcome.bound == 3 + 2 * 4 + 14


def test_a_horizon_below_the_optimum_is_infeasible() -> None:
    outcome = Sequencing([TWO_ALIKE], [[((0,),)] * 2], horizon=8).solve(EXACTLY, ignore)
    assert (outcome.jobs, outcome.status) == (None, "infeasible")


def test_the_bound_of_bad_paths_exceeds_the_optimum_of_others() -> None:
    assert solved([ONE_JOB], [[((1, 0), (0, 1))]])[1] > brute_force([ONE_JOB])


def test_stages_of_no_length_share_an_instant() -> None:
    nothing = JobPhase(duration=dict.fromkeys(arcs((0, 1)), 0), lag={0: 0, 1: 0})
    job = JobClass((0, 1), (nothing, nothing), count=3, release=2)
    assert solved([job], [[TO_AND_FRO, TO_AND_FRO, ((1, 0), (1, 0))]]) == (2, 2, "optimal")


@pytest.fixture
def prepared(hetero: Instance, run: Callable[[Instance, str], Schedule]) -> tuple[Schedule, ChunkOrderData]:
    """Themis+SCF with five chunks, and its chunks in ticks."""
    schedule = run(hetero.overridden(chunks=5), "themis+scf")
    sizes = tuple(c.sizes for c in schedule.plan.chunks)
    return schedule, chunk_order_data(schedule.instance, sizes, tick=schedule.makespan // 2**22)


def model_of(schedule: Schedule, data: ChunkOrderData) -> Sequencing:
    """The model of the paths of a schedule, its makespan as horizon."""
    paths = [[times.paths for times in plans] for plans in job_plans(data, schedule)]
    return Sequencing(data.jobs, paths, horizon=-(-schedule.makespan // data.tick))


def test_a_simulated_schedule_hints_every_variable(prepared: tuple[Schedule, ChunkOrderData]) -> None:
    model = model_of(*prepared)
    model.hint(job_plans(prepared[1], prepared[0]))
    assert len(model.model.proto.solution_hint.vars) == len(model.model.proto.variables)


def test_the_hint_of_a_simulated_schedule_is_feasible(prepared: tuple[Schedule, ChunkOrderData]) -> None:
    model = model_of(*prepared)
    model.hint(job_plans(prepared[1], prepared[0]))
    assert feasible(model, hinted_only=True)


def test_an_infeasible_hint_is_refused() -> None:
    model = Sequencing([ONE_JOB], [[TO_AND_FRO]], horizon=100)
    model.hint([[moved(phase=1, position=0, by=-1)]])
    assert not feasible(model, hinted_only=True)


def test_a_hint_in_which_alike_jobs_overtake_is_feasible() -> None:
    model = Sequencing([TWO_STAGES], [[((0, 1),)] * 2], horizon=100)
    model.hint([[JobTimes(((0, 1),), ((0, 6),)), JobTimes(((0, 1),), ((1, 5),))]])
    assert feasible(model, hinted_only=True)


def test_the_solution_is_a_legal_plan_never_worse_than_the_hint(prepared: tuple[Schedule, ChunkOrderData]) -> None:
    schedule, data = prepared
    model = model_of(schedule, data)
    model.hint(job_plans(data, schedule))
    outcome = model.solve(EXACTLY, ignore)
    assert outcome.jobs is not None
    solution = simulate(schedule.instance, enforced_plan(schedule.instance, data, outcome.jobs))
    validate(solution)
    assert outcome.bound * data.tick <= solution.makespan <= schedule.makespan


def test_figure_5_on_the_paths_of_themis_takes_seven_units(
    figure_5: Instance, run: Callable[[Instance, str], Schedule]
) -> None:
    """Themis (ISCA 2022), section 4.2, figure 5; a unit is 1 ms, a quarter of it a tick."""
    data = chunk_order_data(figure_5, (equal_sizes(figure_5.exchanges[0]),), tick=10**9 // 4)
    paths = [[times.paths for times in plans] for plans in job_plans(data, run(figure_5, "themis+fifo"))]
    assert solved(list(data.jobs), paths) == (7 * 4, 7 * 4, "optimal")
