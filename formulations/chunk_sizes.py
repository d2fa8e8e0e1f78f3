r"""Chunk sizes: the best sizes of jobs whose paths and sequences are fixed, a linear programme.

Sets and data
    Events :math:`i`: tasks, and operations of jobs :math:`c(i)`, jobs of groups :math:`g(c)`; time :math:`a_i y + b_i`
    when the job has the share :math:`y` of its group, lag :math:`l_i`, release :math:`r_i`.  Waits
    :math:`(i, j) \in W` of height :math:`h_{ij}`: j waits for the i of so many periods before, or after if it is
    negative, and for its result where :math:`\lambda_{ij} = 1`.  Where nothing is repeated all heights are 0, and the
    end waits for :math:`i \in E`.

Variables
    :math:`y_c \ge 0`, the share of job c; :math:`s_i \ge r_i`, starts; :math:`T`, the makespan or the period.

Objective
    minimise :math:`T`

Constraints
    1. :math:`\sum_{c \in g} y_c = 1` for every group;
    2. :math:`s_j + h_{ij} T \ge s_i + a_i y_{c(i)} + b_i + \lambda_{ij} l_i` for :math:`(i, j) \in W`;
    3. :math:`T \ge s_i + a_i y_{c(i)} + b_i + l_i` for :math:`i \in E`.

The optimum is exact for affine times.  Without fixed times and lags a linear system is enough where dimensions have
bandwidth to spare (docs/law.md, theorem 3).  A job with share 0 can be dropped, which frees what its operations cost
without bytes.
"""

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.linear import FloatArray, IntArray

MOST_WORK = "max_deterministic_time: 1.0"  # parameter of GLOP: the work after which it gives up
END = -1  # in the place of j in a wait: (3), as a wait of height 1


@dataclass(frozen=True)
class SizingData:
    """Data of the programme; arrays of shape (events,) unless stated.

    `rate`, `fixed`, `lag`, `release`: as :math:`a`, :math:`b`, :math:`l` and :math:`r` above, in one unit of time;
      tasks have no rate.
    `job`: job of each event, any for tasks.
    `group`, shape (jobs,): group of each job.
    `waits`, shape (waits, 4): events i and j of each wait, its height, and whether it is for the result.
    """

    rate: FloatArray
    fixed: FloatArray
    lag: FloatArray
    release: FloatArray
    job: IntArray
    group: IntArray
    waits: IntArray


def best_shares(data: SizingData) -> FloatArray:
    """Share of every job in its group, shape (jobs,).

    Raises ArithmeticError if the programme has no solution, as when waits form a cycle, or none that takes little work.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    scale = float(data.rate.sum() + data.fixed.sum() + data.lag.sum() + data.release.max()) or 1.0
    share = [solver.NumVar(0, 1, f"share{c}") for c in range(len(data.group))]
    start = [solver.NumVar(float(r) / scale, solver.infinity(), f"start{i}") for i, r in enumerate(data.release)]
    makespan = solver.NumVar(0, solver.infinity(), "makespan")
    for group in np.unique(data.group):
        total = solver.Constraint(1, 1)
        for job in np.flatnonzero(data.group == group):
            total.SetCoefficient(share[job], 1)
    rate, fixed, lag = ((array / scale).tolist() for array in (data.rate, data.fixed, data.lag))
    share_of_event = [share[c] for c in data.job.tolist()]
    for one, other, height, is_for_result in data.waits.tolist():
        row = solver.Constraint(fixed[one] + is_for_result * lag[one], solver.infinity())
        if other != END and other != one:
            row.SetCoefficient(start[other], 1)
        if other != one:
            row.SetCoefficient(start[one], -1)
        row.SetCoefficient(makespan, height)
        row.SetCoefficient(share_of_event[one], -rate[one])
    solver.Minimize(makespan)
    solver.SetSolverSpecificParametersAsString(MOST_WORK)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise ArithmeticError("the solver gave no chunk sizes")
    return np.array([variable.solution_value() for variable in share])
