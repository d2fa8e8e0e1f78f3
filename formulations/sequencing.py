r"""Sequencing: start times when the path of every job is given, a mixed-integer linear programme.

Sets and data
    Jobs :math:`i`, each with a class, a release :math:`r_i` and a given path; class and path make its stages
    :math:`o = 1..n_i`.  Stage o holds machine :math:`k_{io}` for the integer :math:`d_{io}`, its result is ready the
    integer :math:`l_{io}` later.  Jobs are *alike* if class and path are equal; :math:`i'` is the next one alike after
    i.  A horizon H.

Variables
    - :math:`s_{io} \in [r_i, H]`, start of a stage, and :math:`T \in [0, H]`, the makespan, both integer;
    - :math:`y_{ab} \in \{0, 1\}` for stages a and b on one machine whose order is open: whether a is served first.

Objective
    minimise :math:`T`

Constraints
    1. *precedence*: :math:`s_{i,o+1} \ge s_{io} + d_{io} + l_{io}`;
    2. *order*: :math:`s_b \ge s_a + d_a - H (1 - y_{ab})` and :math:`s_a \ge s_b + d_b - H y_{ab}`;
    3. *makespan*: :math:`T \ge s_{io} + d_{io} + l_{io}` of the last stage;
    4. *symmetry*: alike jobs never overtake each other, :math:`s_{i'o} \ge s_{io} + d_{io}`.

Two stages of one job, and the same stage of two alike jobs, have a known order, and no y.  A start is at most H, so
that the row of (2) that does not count holds anyway.

Results along a path come one after the other, so a phase that follows the last result of the phase before follows all
of them.  (4) loses no makespan: in a schedule of alike jobs, let the j-th of them take the j-th earliest start on every
stage.  A stage of each job starts at least a constant after the stage before, so the j-th earliest of the one starts
at least that constant after the j-th earliest of the other, and the machines serve the same intervals as before.

The optimum is exact for the integer data; with durations and lags rounded down it bounds the true makespan **of these
paths only**: other paths may be faster.

A. S. Manne, *On the job-shop scheduling problem*, Operations Research 8 (1960).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from typing import NamedTuple

from ortools.linear_solver import pywraplp

from formulations.lattice import JobClass

JobPath = tuple[tuple[int, ...], ...]  # per phase the machines in the order visited
JobPaths = Sequence[Sequence[JobPath]]  # per class, the paths of its jobs


@dataclass(frozen=True)
class PathStage:
    """A visit to a machine on a given path, and the resource that it holds."""

    resource: int
    duration: int
    lag: int


def stages_along(job: JobClass, path: JobPath) -> tuple[PathStage, ...]:
    """The stages of a job on a path."""
    stages = []
    for phase, order in zip(job.phases, path, strict=True):
        before = accumulate((1 << machine for machine in order), initial=0)
        for machine, visited in zip(order, before, strict=False):
            stages.append(
                PathStage(phase.held(machine), int(phase.duration[visited, machine]), int(phase.lag[machine]))
            )
    return tuple(stages)


class _Visit(NamedTuple):
    """A stage of a job: its start and duration, and what says whether the order of two is known."""

    start: pywraplp.Variable
    duration: int
    job: tuple[int, int]
    alike: tuple[int, JobPath, int]


def num_order_variables(jobs: Sequence[JobClass], paths: JobPaths) -> int:
    """Most variables y that the programme has: pairs of stages on one machine."""
    visits: dict[int, int] = defaultdict(int)
    for job, paths_of_class in zip(jobs, paths, strict=True):
        for path in paths_of_class:
            for stage in stages_along(job, path):
                visits[stage.resource] += 1
    return sum(count * (count - 1) // 2 for count in visits.values())


def sequencing_milp(jobs: Sequence[JobClass], paths: JobPaths, horizon: int) -> pywraplp.Solver:
    """The programme, not solved.

    `paths`: per class one path for each of its jobs; a path is, per phase, the tuple of machines in the order visited.
    `horizon`: an upper bound on the makespan of some feasible schedule on these paths.
    """
    solver = pywraplp.Solver.CreateSolver("SCIP")
    makespan = solver.IntVar(0, horizon, "makespan")
    on_machine: dict[int, list[_Visit]] = defaultdict(list)
    for j, (job, paths_of_class) in enumerate(zip(jobs, paths, strict=True)):
        alike: dict[JobPath, list[list[_Visit]]] = defaultdict(list)
        for i, path in enumerate(paths_of_class):
            visits = _add_job(solver, job, path, (j, i), horizon, makespan)
            alike[path].append(visits)
            for stage, visit in zip(stages_along(job, path), visits, strict=True):
                on_machine[stage.resource].append(visit)
        for group in alike.values():
            for one, following in pairwise(group):
                for visit, later in zip(one, following, strict=True):
                    solver.Add(later.start >= visit.start + visit.duration)  # (4)
    for visits in on_machine.values():
        _add_orders(solver, visits, horizon)
    solver.Minimize(makespan)
    return solver


def _add_job(
    solver: pywraplp.Solver,
    job: JobClass,
    path: JobPath,
    number: tuple[int, int],
    horizon: int,
    makespan: pywraplp.Variable,
) -> list[_Visit]:
    """The variables of a job, with (1) and (3)."""
    stages, (j, i) = stages_along(job, path), number
    starts = [solver.IntVar(int(job.release), horizon, f"start_{j}_{i}_{o}") for o in range(len(stages))]
    for stage, start, following in zip(stages, starts, [*starts[1:], makespan], strict=True):
        solver.Add(following >= start + stage.duration + stage.lag)
    return [_Visit(start, stages[o].duration, number, (j, path, o)) for o, start in enumerate(starts)]


def _add_orders(solver: pywraplp.Solver, visits: Sequence[_Visit], horizon: int) -> None:
    """(2)."""
    for number, (a, b) in enumerate(combinations(visits, 2)):
        if a.job == b.job or a.alike == b.alike:
            continue
        first = solver.BoolVar(f"order_{a.start.name()}_{b.start.name()}_{number}")
        solver.Add(b.start >= a.start + a.duration - horizon * (1 - first))
        solver.Add(a.start >= b.start + b.duration - horizon * first)


def as_text(solver: pywraplp.Solver, form: str) -> str:
    """A programme in the form ``lp`` or ``mps``."""
    text: str = solver.ExportModelAsLpFormat(False) if form == "lp" else solver.ExportModelAsMpsFormat(False, False)
    return text
