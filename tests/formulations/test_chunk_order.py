"""The chunk-order model against brute force, and on whole instances."""

from dataclasses import replace

import pytest
from brute_force import along, brute_force, recomputed_makespan
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from planning import schedule_of
from strategies import tiny_instances

from formulations.chunk_order import ChunkOrder
from formulations.job_plans import JobPlans, JobTimes
from formulations.lattice import JobClass, JobPhase, arcs
from formulations.limits import Limits
from formulations.order_count import order_count_bound
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.solving.lowering import RESOLUTION, chunk_order_data, job_plans

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)
LITTLE_WORK = Limits(seconds=1.0, deterministic=True, gap=0.0)
"""A limit that does not depend on the load of the machine."""
TWO_MACHINES = (0, 1)


def ignore(objective: float, bound: float) -> None:
    """SolverProgress to nobody."""


@st.composite
def phases(draw: st.DrawFn, machines: tuple[int, ...]) -> JobPhase:
    return JobPhase(
        duration={arc: draw(st.integers(0, 9)) for arc in arcs(machines)},
        lag={k: draw(st.integers(0, 4)) for k in machines},
    )


@st.composite
def job_classes(draw: st.DrawFn, num_phases: int, count: int) -> JobClass:
    machines = draw(st.sampled_from([TWO_MACHINES, TWO_MACHINES, (0,), (1,)]))
    return JobClass(
        machines,
        tuple(draw(phases(machines)) for _ in range(num_phases)),
        count=count,
        release=draw(st.sampled_from([0, 0, 1, 5])),
        mirrored=num_phases == 2 and draw(st.booleans()),
    )


two_jobs = st.lists(st.integers(1, 2).flatmap(lambda n: job_classes(num_phases=n, count=1)), min_size=2, max_size=2)
two_equal_jobs = st.integers(1, 2).flatmap(lambda n: job_classes(num_phases=n, count=2)).map(lambda job: [job])
three_one_phase_jobs = st.tuples(job_classes(1, 2), job_classes(1, 1)).map(list)


def solved(jobs: list[JobClass]) -> tuple[int, int, str]:
    """Recomputed makespan, bound and status of the model, without any help."""
    outcome = ChunkOrder(jobs, horizon=400).solve(EXACTLY, ignore)
    assert outcome.jobs is not None
    return recomputed_makespan(jobs, outcome.jobs), outcome.bound, outcome.status


@given(two_jobs | two_equal_jobs | three_one_phase_jobs)
def test_optimum_equals_brute_force(jobs: list[JobClass]) -> None:
    best = brute_force(jobs)
    assert solved(jobs) == (best, best, "optimal")


def one_after_another(jobs: list[JobClass]) -> JobPlans:
    """A feasible plan: each job starts when the one before has all results."""
    now, plans = 0, []
    for job in jobs:
        times = []
        for _ in range(job.count):
            now = max(now, int(job.release))
            paths = (job.machines, job.machines[::-1])[: len(job.phases)]
            starts = []
            for phase, order in zip(job.phases, paths, strict=True):
                starts.append([])
                for _, duration, lag in along(phase, order):
                    starts[-1].append(now)
                    now += duration + lag
            times.append(JobTimes(paths, tuple(map(tuple, starts))))
        plans.append(times)
    return plans


@given(two_jobs | two_equal_jobs | three_one_phase_jobs)
def test_hinted_optimum_equals_brute_force_with_little_work(jobs: list[JobClass]) -> None:
    best, plans = brute_force(jobs), one_after_another(jobs)
    model = ChunkOrder(jobs, horizon=recomputed_makespan(jobs, plans))
    model.hint(plans)
    outcome = model.solve(LITTLE_WORK, ignore)
    assert (outcome.bound, outcome.status) == (best, "optimal")


@given(tiny_instances())
def test_optimum_hinted_by_themis_equals_brute_force_with_little_work(instance: Instance) -> None:
    schedule = schedule_of(instance, "themis+scf")
    tick = max(1, schedule.makespan // RESOLUTION)
    data = chunk_order_data(instance, tuple(c.sizes for c in schedule.plan.chunks), tick)
    model = ChunkOrder(data.jobs, horizon=-(-schedule.makespan // tick))
    model.hint(job_plans(data, schedule))
    outcome = model.solve(LITTLE_WORK, ignore)
    assert (outcome.bound, outcome.status) == (brute_force(list(data.jobs)), "optimal")


@given(two_jobs | two_equal_jobs | three_one_phase_jobs)
def test_order_count_never_exceeds_brute_force(jobs: list[JobClass]) -> None:
    assert order_count_bound(jobs, EXACTLY) <= brute_force(jobs)


@settings(max_examples=3)
@given(job_classes(num_phases=2, count=3))
def test_optimum_of_three_equal_two_phase_jobs_equals_brute_force(job: JobClass) -> None:
    best = brute_force([job])
    assert solved([job]) == (best, best, "optimal")


COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
@pytest.mark.parametrize("latency", ["0 ns", "30 us"])
def test_optimum_of_two_chunks_equals_brute_force(figure_5: Instance, kind: str, ag_order: str, latency: str) -> None:
    slower = tuple(d.replace(latency=latency) for d in figure_5.network.dimensions)
    collective = figure_5.collectives[0].replace(kind=kind, chunks=2)
    instance = figure_5.replace(
        network=figure_5.network.replace(dimensions=slower), collectives=(collective,), ag_order=ag_order
    )
    jobs = list(chunk_order_data(instance, (equal_sizes(instance.exchanges[0]),), tick=10**6).jobs)
    best = brute_force(jobs)
    outcome = ChunkOrder(jobs, horizon=2 * best).solve(EXACTLY, ignore)
    assert outcome.bound == best


def test_figure_5_is_proven_optimal_at_seven_units_without_hint_and_lower_bound(figure_5: Instance) -> None:
    """Themis (ISCA 2022), section 4.2, figure 5: seven units; a unit is 1 ms, a quarter of it a tick."""
    unit = 10**9
    data = chunk_order_data(figure_5, (equal_sizes(figure_5.exchanges[0]),), tick=unit // 4)
    outcome = ChunkOrder(data.jobs, horizon=8 * 4).solve(EXACTLY, ignore)
    assert (outcome.status, outcome.bound) == ("optimal", 7 * 4)


def test_the_makespan_stays_within_its_bounds() -> None:
    """Two jobs back to back take 8 on the machine and 1 of lag."""
    jobs = [JobClass((0,), (JobPhase(duration={(0, 0): 4}, lag={0: 1}),), count=2)]
    assert ChunkOrder(jobs, horizon=9).solve(EXACTLY, ignore).bound == 9
    assert ChunkOrder(jobs, horizon=8).solve(EXACTLY, ignore).status == "infeasible"
    assert ChunkOrder(jobs, horizon=100, lower_bound=50).solve(EXACTLY, ignore).bound == 50


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_hint_of_a_simulated_schedule_is_accepted(hetero: Instance, ag_order: str) -> None:
    instance = hetero.overridden(chunks=5, ag_order=ag_order)
    schedule = schedule_of(instance, "themis+scf")
    tick = schedule.makespan // 2**22
    data = chunk_order_data(instance, tuple(c.sizes for c in schedule.plan.chunks), tick)
    model = ChunkOrder(data.jobs, horizon=-(-schedule.makespan // tick))
    model.hint(job_plans(data, schedule))
    assert hint_is_feasible(model)


@pytest.mark.parametrize("path", [(0, 1), (1, 0)])
def test_a_hint_tells_on_which_machines_no_job_begins_or_ends(path: tuple[int, ...]) -> None:
    """Two jobs that go the same way, given in the other order, or one job after a later release."""
    phase = JobPhase(dict.fromkeys(arcs(TWO_MACHINES), 3), dict.fromkeys(TWO_MACHINES, 1))
    job = JobClass(TWO_MACHINES, (phase,), count=2)
    model = ChunkOrder([job, replace(job, count=1, release=8)], horizon=30)
    times = [JobTimes((path,), ((start, start + 4),)) for start in (3, 0, 8)]
    model.hint([times[:2], times[2:]])
    assert hint_is_feasible(model)


def hint_is_feasible(model: ChunkOrder) -> bool:
    """Whether the values hinted to all variables obey every constraint."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    return solver.solve(model.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
