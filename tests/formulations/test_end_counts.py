"""Cells of begin and end counts: together they hold the best schedule, and nothing better."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from brute_force import brute_force
from ortools.sat.python import cp_model

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import BeginCounts, EndCells, add_direction, is_reversible
from formulations.lattice import JobClass, JobPhase, arcs
from formulations.limits import Limits

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)


def random_class(seed: int) -> JobClass:
    """Two or three jobs on two or three machines, in one phase or two that may be reversible or mirrored."""
    generator = random.Random(seed)
    count, machines, num_phases = [(3, (0, 1), 2), (3, (0, 2), 1), (2, (0, 1, 2), 1), (2, (1, 2), 2)][seed % 4]
    lag = {k: generator.randint(0, 4) for k in machines}
    phases = [JobPhase({arc: generator.randint(0, 9) for arc in arcs(machines)}, lag) for _ in range(num_phases)]
    job = JobClass(machines, tuple(phases), count, release=generator.choice([0, 5]))
    if num_phases == 2 and seed % 8 < 4:
        return replace(
            job, phases=(phases[0], JobPhase({job.mirror(arc): d for arc, d in phases[0].duration.items()}, lag))
        )
    return replace(job, mirrored=num_phases == 2 and generator.random() < 0.5)


def statuses(job: JobClass, horizon: int, cells: Iterable[BeginCounts]) -> set[str]:
    """What is known of cells with a horizon."""
    return {ChunkOrder([job], horizon, begin=cell).solve(EXACTLY, lambda *_: None).status for cell in cells}


@pytest.mark.parametrize("seed", range(16))
def test_some_cell_has_the_best_schedule_and_none_a_better_one(seed: int) -> None:
    job = random_class(seed)
    best = brute_force([job])
    cells = EndCells(job, best)
    assert "optimal" in statuses(job, best, cells)
    assert cells.are_all
    assert statuses(job, best - 1, EndCells(job, best - 1)) <= {"infeasible"}


def two_machines(lag: int = 0) -> JobClass:
    """Two jobs on two machines, whose stages take 10 where they are the first or last of all, and 1 elsewhere."""
    first, last = {(0, 0): 10, (0, 1): 10, (1, 1): 1, (2, 0): 1}, {(0, 0): 1, (0, 1): 1, (1, 1): 10, (2, 0): 10}
    return JobClass((0, 1), (JobPhase(first, {0: lag, 1: lag}), JobPhase(last, {0: lag, 1: lag})), count=2)


def test_a_short_horizon_leaves_few_cells() -> None:
    """Each machine holds 22 if every machine begins one job and ends one, and else 31 at least."""
    assert list(EndCells(two_machines(), 21)) == []
    assert list(EndCells(two_machines(), 22)) == [(1, 1)]
    assert len(list(EndCells(two_machines(), 31))) > 1


def test_cells_are_met_once_and_in_one_direction_of_time() -> None:
    job = two_machines()
    assert is_reversible(job)
    cells = list(EndCells(job, 38))
    assert sorted(cells) == [(0, 2), (1, 1)]
    one_way = replace(job, phases=(job.phases[0], replace(job.phases[1], lag={0: 0, 1: 5})))
    assert not is_reversible(one_way)
    assert sorted(EndCells(one_way, 38)) == [(0, 2), (1, 1), (2, 0)]


def test_a_cell_has_schedules_in_one_direction_of_time_alone() -> None:
    """Its two jobs begin on the first machine, and read backwards they would on the one on which they end."""
    job, model = two_machines(), cp_model.CpModel()
    end = [model.new_int_var(0, 2, "") for _ in range(2)]
    add_direction(model, 2, (2, 0), end)
    model.add(sum(end) == 2)
    model.maximize(end[1])
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    assert solver.objective_value == 0
    assert statuses(job, 99, [(2, 0)]) == {"optimal"}
