"""What the linear programmes share: flows through the lattice, and weights that give bounds."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from formulations.interruption import SECONDS_LEFT, TimeUp
from formulations.lattice import Arc, JobClass, arcs

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


NO_CYCLING = "max_number_of_iterations: 10000"
"""Parameter of GLOP, which may cycle for ever on degenerate data: any weights give a bound, so it may give up."""

LEAST_MILLISECONDS = 10  # what a solver is given at least: 0 would be no limit

LIMITED = (pywraplp.Solver.FEASIBLE, pywraplp.Solver.NOT_SOLVED)  # how a solver ends whose time is over

RowKey = TypeVar("RowKey", bound=Hashable)


def solve_in_time(solver: pywraplp.Solver) -> bool:
    """Whether an optimum is there; raises TimeUp where time is over before."""
    left = SECONDS_LEFT.get()
    if left is not None:
        solver.SetTimeLimit(max(int(min(left(), 1e6) * 1000), LEAST_MILLISECONDS))
    status = solver.Solve()
    if left is not None and (status in LIMITED or (status != pywraplp.Solver.OPTIMAL and left() <= 0)):
        raise TimeUp
    return bool(status == pywraplp.Solver.OPTIMAL)


def add_unit_flow(solver: pywraplp.Solver, job: JobClass) -> dict[Arc, pywraplp.Variable]:
    """The variables of a flow of one unit from the empty set to the full one, by arc."""
    flows: dict[Arc, pywraplp.Variable] = {}
    balance: dict[int, pywraplp.Constraint] = {}
    for visited, machine in arcs(job.machines):
        flow = flows[visited, machine] = solver.NumVar(0, 1, f"flow_{visited:b}_{machine}")
        for node, sign in ((visited, -1), (visited | 1 << machine, +1)):
            if node not in balance:
                supply = (node == job.everything) - (node == 0)
                balance[node] = solver.Constraint(supply, supply)
            balance[node].SetCoefficient(flow, sign)
    return flows


class LoadProgramme:
    """The least makespan that is at least a constant and some durations times flows in each row; `unit` is its unit."""

    def __init__(self, unit: float) -> None:
        self.solver, self._unit = pywraplp.Solver.CreateSolver("GLOP"), unit
        self.solver.SetSolverSpecificParametersAsString(NO_CYCLING)
        self._makespan = self.solver.NumVar(0, self.solver.infinity(), "makespan")
        self.solver.Minimize(self._makespan)

    @property
    def makespan(self) -> float:
        """The optimum, once it is found."""
        return float(self._makespan.solution_value() * self._unit)

    def row(self, constant: float) -> pywraplp.Constraint:
        """The makespan is at least a constant, and what is loaded on the row."""
        row = self.solver.Constraint(constant / self._unit, self.solver.infinity())
        row.SetCoefficient(self._makespan, 1)
        return row

    def load(self, row: pywraplp.Constraint, flow: pywraplp.Variable, duration: float) -> None:
        """Add a duration times a flow to a row."""
        row.SetCoefficient(flow, row.GetCoefficient(flow) - duration / self._unit)

    def weights(self, rows: Mapping[RowKey, pywraplp.Constraint]) -> tuple[dict[RowKey, float], bool]:
        """Solve; duals of some rows, scaled to sum 1, and whether it was solved: else they are equal."""
        is_solved = self.solver.Solve() == pywraplp.Solver.OPTIMAL
        duals = {key: max(row.dual_value(), 0.0) if is_solved else 0.0 for key, row in rows.items()}
        total = sum(duals.values())
        return {key: dual / total if total else 1 / len(rows) for key, dual in duals.items()}, is_solved
