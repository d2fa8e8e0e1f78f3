"""The model of training iterations: against brute force, solved by hand, and each constraint in both directions."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, count, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from formulations import period_variables
from formulations.job_plans import JobTimes
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits
from formulations.period import PeriodModel
from formulations.period_variables import LaunchJobs, Moment, PeriodJobs, PeriodTimes

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)


def ignore(objective: float, bound: float) -> None:
    """SolverProgress to nobody."""


def optimum(period: PeriodJobs, horizon: int = 60) -> int:
    """The proven least period."""
    outcome = PeriodModel(period, horizon).solve(EXACTLY, ignore)
    assert outcome.status == "optimal"
    assert outcome.times is not None
    assert obeys(period, outcome.times)
    assert outcome.bound == outcome.times.period
    return outcome.bound


def launch(duration: int, after: int, before: Moment, *, machine: int = 0, lag: int = 0, count: int = 1) -> LaunchJobs:
    """Jobs of one stage on one machine."""
    phase = JobPhase(duration={(0, machine): duration}, lag={machine: lag})
    return LaunchJobs((JobClass((machine,), (phase,), count),), (after, 0), before)


def obeys(period: PeriodJobs, times: PeriodTimes) -> bool:
    """Whether a schedule, unrolled, is legal; independent of the model."""
    ends = [start + duration for start, duration in zip(times.tasks, period.tasks, strict=True)]
    following = [*times.tasks[1:], times.period]
    if times.tasks[0] or any(end > start for end, start in zip(ends, following, strict=True)):
        return False
    held: dict[int, list[tuple[int, int]]] = {}
    ready: list[int] = []
    for launch, plans in zip(period.launches, times.launches, strict=True):
        (task, later), others = launch.after, [ready[n] for n in launch.after_launches]
        release = max([ends[task] + later * times.period, *others])
        ready.append(0)
        for job, all_times in zip(launch.jobs, plans, strict=True):
            for job_times in all_times:
                done = passed(job, job_times, release, held)
                if done is None:
                    return False
                ready[-1] = max(ready[-1], done)
        if ready[-1] > times.tasks[launch.before[0]] + launch.before[1] * times.period:
            return False
    return all(disjoint(stages, times.period) for stages in held.values())


def passed(job: JobClass, times: JobTimes, now: int, held: dict[int, list[tuple[int, int]]]) -> int | None:
    """When a job has all results, None if it starts a stage too early; `held` takes up its stages by resource."""
    for phase, path, starts in zip(job.phases, times.paths, times.starts, strict=True):
        visited = 0
        for machine, start in zip(path, starts, strict=True):
            if start < now:
                return None
            end = start + int(phase.duration[visited, machine])
            held.setdefault(phase.held(machine), []).append((start, end))
            now, visited = end + int(phase.lag[machine]), visited | 1 << machine
    return now


def disjoint(stages: list[tuple[int, int]], period: int) -> bool:
    """Whether stages, repeated in four periods, never overlap."""
    repeated = [(start + n * period, end + n * period) for start, end in stages for n in range(4)]
    return all(one[1] <= other[0] or other[1] <= one[0] for one, other in combinations(repeated, 2))


def brute_force(period: PeriodJobs) -> int:
    """The least period, by trying all starts of one-phase jobs."""
    for length in count(max(1, sum(period.tasks))):
        if any(obeys(period, times) for times in all_times(period, length)):
            return length
    raise AssertionError


def all_times(period: PeriodJobs, length: int) -> Iterator[PeriodTimes]:
    """All starts within two periods."""
    jobs = [job for launch in period.launches for job in launch.jobs]
    paths = product(*(permutations(job.machines) for job in jobs))
    for chosen in paths:
        for starts in product(*(product(range(2 * length), repeat=len(job.machines)) for job in jobs)):
            launches = [[[JobTimes((path,), (at,))]] for path, at in zip(chosen, starts, strict=True)]
            for tasks in product(range(length + 1), repeat=len(period.tasks) - 1):
                yield PeriodTimes(length, (0, *tasks), tuple(launches))


needs = st.sampled_from([(0, 1), (1, 1), (1, 0)])


@st.composite
def periods(draw: st.DrawFn) -> PeriodJobs:
    launches = []
    for _ in range(2):
        before = draw(needs)
        after = 0 if before == (1, 0) else draw(st.integers(0, 1))
        launches.append(launch(draw(st.integers(1, 3)), after, before, lag=draw(st.integers(0, 1))))
    return PeriodJobs((draw(st.integers(1, 2)), draw(st.integers(0, 2))), tuple(launches))


@settings(max_examples=30)
@given(periods())
def test_optimum_equals_brute_force(period: PeriodJobs) -> None:
    assert optimum(period) == brute_force(period)


@pytest.mark.parametrize("resources", [(0, 1), (0, 0)])
@pytest.mark.parametrize("before", [(0, 1), (1, 1)])
def test_optimum_over_paths_equals_brute_force(resources: tuple[int, int], before: Moment) -> None:
    phase = JobPhase(duration={(0, 0): 2, (0, 1): 3, (1, 1): 1, (2, 0): 1}, lag={0: 1, 1: 0})
    phase = replace(phase, resource=dict(enumerate(resources)))
    period = PeriodJobs((1, 1), (LaunchJobs((JobClass((0, 1), (phase,)),), (1, 0), before),))
    assert optimum(period) == brute_force(period)


def test_a_collective_between_the_last_and_the_first_task_is_exposed_in_full() -> None:
    assert optimum(PeriodJobs((5,), (launch(4, 0, (0, 1), lag=2),))) == 5 + 4 + 2


def test_a_collective_beside_a_longer_task_is_hidden() -> None:
    assert optimum(PeriodJobs((2, 9), (launch(8, 0, (0, 1), lag=1),))) == 11


def test_the_tensor_needed_first_overtakes_the_one_ready_first() -> None:
    """Forward 0-1, forward 1-11, backward; both are ready at its end, and that of the second task can wait."""
    period = PeriodJobs((1, 10, 1), (launch(4, 2, (1, 1)), launch(3, 2, (0, 1))))
    assert optimum(period) == 12 + 3 + 3


def test_a_stage_may_be_under_way_when_the_period_ends() -> None:
    """It begins at the end of the second task and ends in the middle of the first task of the next period."""
    assert optimum(PeriodJobs((5, 5, 1), (launch(5, 2, (1, 1)),))) == 11


def test_what_wraps_around_may_not_overlap_the_start_of_the_next_period() -> None:
    """The second launch has the machine as soon as the first task ends, unless the first one still has it."""
    alone = PeriodJobs((1, 8, 1), (launch(3, 0, (1, 0)),))
    wrapped = replace(alone, launches=(*alone.launches, launch(4, 2, (1, 1))))
    assert optimum(alone) == 1 + 3 + 8 + 1
    assert optimum(wrapped) == 1 + 7 + 8 + 1 - 1


def test_a_launch_waits_for_the_launches_it_names() -> None:
    first, second = launch(4, 0, (0, 1)), launch(3, 0, (0, 1), machine=1)
    free, bound = (first, second), (first, replace(second, after_launches=(0,)))
    assert [optimum(PeriodJobs((2,), launches)) for launches in (free, bound)] == [6, 9]


def test_a_launch_of_the_next_period_is_released_by_its_task() -> None:
    late = replace(launch(3, 0, (1, 1)), after=(0, 1))
    assert optimum(PeriodJobs((2, 2), (late,))) == 2 + 3 + 2


def test_gathers_that_mirror_scatters_reverse_their_paths() -> None:
    """Scattering is fast over machine 0 first; gathering too, which the mirror forbids."""
    phase = JobPhase(duration={(0, 0): 1, (0, 1): 5, (1, 1): 1, (2, 0): 5}, lag={0: 0, 1: 0})
    scatter = LaunchJobs((JobClass((0, 1), (phase,)),), (0, 0), (0, 1))
    gather = replace(scatter, after_launches=(0,))
    free = PeriodJobs((1,), (scatter, gather))
    mirrored = PeriodJobs((1,), (scatter, replace(gather, mirrors=0)))
    assert (optimum(free), optimum(mirrored)) == (1 + 2 + 2, 1 + 2 + 10)


TWO_TASKS = PeriodJobs((2, 3), (launch(4, 1, (1, 1), lag=1, count=2),))
"""Two chunks ready at 5, needed by the second task of the next period."""


LEGAL = PeriodTimes(12, (0, 2), (([JobTimes(((0,),), ((5,),)), JobTimes(((0,),), ((9,),))],),))
"""Chunks 5-9 and 9-13, their results at 10 and 14, when the second task of the next period starts."""


def test_a_resource_cannot_work_longer_than_the_period() -> None:
    """(7)."""
    long = PeriodJobs((1,), (launch(6, 0, (0, 1), count=2),))
    assert PeriodModel(long, horizon=12).solve(EXACTLY, ignore).status == "infeasible"
    assert PeriodModel(long, horizon=13).solve(EXACTLY, ignore).bound == 13


@pytest.mark.parametrize(("length", "status"), [(9, "optimal"), (8, "infeasible")])
def test_windows_are_as_long_as_the_launches_inside_need(length: int, status: str) -> None:
    """(8): the two chunks of 4 and the lag of 1 in the window from 5 to the start of the second task."""
    model = PeriodModel(TWO_TASKS, 30)
    model.model.add(model.windows[0].length <= length)
    assert model.solve(EXACTLY, ignore).status == status


def test_the_period_stays_within_its_bounds() -> None:
    """(10)."""
    assert optimum(TWO_TASKS) == LEGAL.period
    assert PeriodModel(TWO_TASKS, LEGAL.period - 1).solve(EXACTLY, ignore).status == "infeasible"
    assert PeriodModel(TWO_TASKS, 30, LEGAL.period + 1).solve(EXACTLY, ignore).bound == LEGAL.period + 1


def test_a_hinted_schedule_is_accepted() -> None:
    model = PeriodModel(TWO_TASKS, 30)
    model.hint(LEGAL)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert solver.solve(model.model) == cp_model.OPTIMAL
    assert len(model.model.proto.solution_hint.vars) == len(model.model.proto.variables)


def test_a_task_waits_for_those_of_other_chains() -> None:
    """The second stage computes 4 after the first pass of 3, and the last pass of 2 waits for it."""
    tasks, chains = (3, 4, 2), ((0, 2), (1,))
    period = PeriodJobs(tasks, (launch(1, 2, (0, 1)),), chains, waits=((0, 1), (1, 2)))
    outcome = PeriodModel(period, 60).solve(EXACTLY, ignore)
    assert outcome.times is not None
    assert (outcome.bound, outcome.times.tasks) == (3 + 4 + 2 + 1, (0, 3, 7))
    assert PeriodModel(replace(period, waits=()), 60).solve(EXACTLY, ignore).bound == 3 + 2 + 1


@pytest.mark.parametrize("seed", range(20))
def test_windows_hold_more_than_those_inside(seed: int) -> None:
    chance = random.Random(seed)
    ends = [(task, task + chance.randint(1, 3)) for task in (chance.randrange(4) for _ in range(5))]
    launches = [launch(1, ready, (need % 4, need // 4)) for ready, need in ends]
    period = PeriodJobs((1, 1, 1, 1), tuple(launches))
    inside = {
        (after, before): tuple(n for n, (ready, need) in enumerate(ends) if ready >= after and need <= before)
        for after, before in product(range(4), range(8))
    }
    expected = {
        ((after, 0), (before % 4, before // 4), numbers)
        for (after, before), numbers in inside.items()
        if numbers and numbers not in (inside.get((after + 1, before)), inside.get((after, before - 1)))
    }
    assert {*period_variables.windows_of(period)} == expected


def test_of_many_events_some_begin_and_end_windows() -> None:
    count, most = 40, period_variables.MAX_EVENTS
    period = PeriodJobs((1,) * count, tuple(launch(1, n, (count - 1, 1)) for n in range(count)))
    windows = [*period_variables.windows_of(period)]
    assert len(windows) == most
    assert windows[0] == ((0, 0), (count - 1, 1), tuple(range(count)))
