"""Cells of begin and end counts: together they hold the best schedule, and nothing better."""

import random
from dataclasses import replace
from itertools import product

import pytest
from brute_force import brute_force

from formulations.budget import Budget
from formulations.chunk_order import ChunkOrder
from formulations.end_counts import EndCells, EndCounts, EndPairs, is_reversible
from formulations.lattice import JobClass, Leg, arcs

EXACTLY = Budget(seconds=600.0, workers=1, gap=0.0)


def random_class(seed: int) -> JobClass:
    """Two or three jobs on two or three machines, in one leg or two that may be reversible or mirrored."""
    generator = random.Random(seed)
    count, machines, num_legs = [(3, (0, 1), 2), (3, (0, 2), 1), (2, (0, 1, 2), 1), (2, (1, 2), 2)][seed % 4]
    lag = {k: generator.randint(0, 4) for k in machines}
    legs = [Leg({arc: generator.randint(0, 9) for arc in arcs(machines)}, lag) for _ in range(num_legs)]
    job = JobClass(machines, tuple(legs), count, release=generator.choice([0, 5]))
    if num_legs == 2 and seed % 8 < 4:
        return replace(job, legs=(legs[0], Leg({job.mirror(arc): d for arc, d in legs[0].duration.items()}, lag)))
    return replace(job, mirrored=num_legs == 2 and generator.random() < 0.5)


def statuses(job: JobClass, horizon: int) -> list[str]:
    """What is known of each cell of a horizon."""
    cells = EndCells(job, horizon)
    found = [ChunkOrder([job], horizon, ends=cell).solve(EXACTLY, lambda *_: None).status for cell in cells]
    assert cells.are_all
    return found


@pytest.mark.parametrize("seed", range(16))
def test_some_cell_has_the_best_schedule_and_none_a_better_one(seed: int) -> None:
    job = random_class(seed)
    best = brute_force([job])
    assert "optimal" in statuses(job, best)
    assert set(statuses(job, best - 1)) <= {"infeasible"}


@pytest.mark.parametrize("seed", range(16))
def test_the_parts_of_the_cells_say_the_same(seed: int) -> None:
    job = random_class(seed)
    best = brute_force([job])

    def found(horizon: int) -> set[str]:
        parts = [part for cell in EndCells(job, horizon) for part in cell.pairs()]
        return {ChunkOrder([job], horizon, ends=part).solve(EXACTLY, lambda *_: None).status for part in parts}

    assert "optimal" in found(best)
    assert found(best - 1) <= {"infeasible"}


def test_a_cell_is_divided_into_all_tables_with_its_sums() -> None:
    cell = EndCounts((2, 1, 0), (1, 1, 1))
    parts = list(cell.pairs())
    grid = product(range(3), repeat=9)
    tables = (tuple(counts[row : row + 3] for row in (0, 3, 6)) for counts in grid)
    assert set(parts) == {part for part in map(EndPairs, tables) if part.cell == cell}
    assert len(parts) == len(set(parts)) == 3


def two_machines(lag: int = 0) -> JobClass:
    """Two jobs on two machines, whose stages take 10 where they are the first or last of all, and 1 elsewhere."""
    first, last = {(0, 0): 10, (0, 1): 10, (1, 1): 1, (2, 0): 1}, {(0, 0): 1, (0, 1): 1, (1, 1): 10, (2, 0): 10}
    return JobClass((0, 1), (Leg(first, {0: lag, 1: lag}), Leg(last, {0: lag, 1: lag})), count=2)


def test_a_short_horizon_leaves_few_cells() -> None:
    """Each machine holds 22 if every machine begins one job and ends one, and else 31 at least."""
    spread = EndCounts((1, 1), (1, 1))
    assert list(EndCells(two_machines(), 21)) == []
    assert list(EndCells(two_machines(), 22)) == [spread]
    assert len(list(EndCells(two_machines(), 31))) > 1


def test_cells_are_met_once_and_in_one_direction_of_time() -> None:
    job = two_machines()
    assert is_reversible(job)
    cells = list(EndCells(job, 99))
    assert len(cells) == len(set(cells)) == 6
    one_way = replace(job, legs=(job.legs[0], replace(job.legs[1], lag={0: 0, 1: 5})))
    assert not is_reversible(one_way)
    assert len(list(EndCells(one_way, 99))) == 9


def test_mirrored_jobs_end_where_they_begin() -> None:
    cells = list(EndCells(replace(two_machines(), mirrored=True), 99))
    assert sorted(cell.begin for cell in cells) == [(0, 2), (1, 1), (2, 0)]
    assert all(cell.begin == cell.end for cell in cells)
