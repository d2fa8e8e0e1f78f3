r"""Chunk sizes: the best sizes of jobs whose paths and sequences are fixed, a linear programme.

Sets and data
    Operations :math:`i` of jobs :math:`c(i)`, jobs of groups :math:`g(c)`; holding time :math:`a_i y + b_i` when
    the job has the share :math:`y` of its group, lag :math:`l_i`, release :math:`r_i`; pairs :math:`(i, j) \in R`
    where j needs the result of i, and :math:`(i, j) \in Q` where j follows i on a machine.

Variables
    :math:`y_c \ge 0`, the share of job c; :math:`s_i \ge r_i`, starts; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. :math:`\sum_{c \in g} y_c = 1` for every group;
    2. :math:`s_j \ge s_i + a_i y_{c(i)} + b_i + l_i` for :math:`(i, j) \in R`;
    3. :math:`s_j \ge s_i + a_i y_{c(i)} + b_i` for :math:`(i, j) \in Q`;
    4. :math:`T \ge s_i + a_i y_{c(i)} + b_i + l_i`, where nothing needs the result of i.

The optimum is exact for affine holding times.  A job with share 0 can be dropped, which frees what its operations
cost without bytes.
"""

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.arrays import FloatArray, IntArray
from formulations.linear import MOST_WORK


@dataclass(frozen=True)
class SizingData:
    """Data of the programme; arrays of shape (operations,) unless stated.

    Attributes
    ----------
    rate, fixed, lag, release : float64
        As :math:`a`, :math:`b`, :math:`l` and :math:`r` above, in one unit of time.
    job : int64
        Job of each operation.
    group : int64, shape (jobs,)
        Group of each job.
    results, sequences : int64, shape (pairs, 2)
        R and Q.
    """

    rate: FloatArray
    fixed: FloatArray
    lag: FloatArray
    release: FloatArray
    job: IntArray
    group: IntArray
    results: IntArray
    sequences: IntArray


def best_shares(data: SizingData) -> FloatArray:
    """Share of every job in its group, shape (jobs,).

    Raises
    ------
    ArithmeticError
        If the programme has no solution, as when the pairs form a cycle, or none that takes little work.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    share = [solver.NumVar(0, 1, f"share{c}") for c in range(len(data.group))]
    scale = float(data.rate.sum() + data.fixed.sum() + data.lag.sum() + data.release.max()) or 1.0
    start = [solver.NumVar(float(r) / scale, solver.infinity(), f"start{i}") for i, r in enumerate(data.release)]
    makespan = solver.NumVar(0, solver.infinity(), "makespan")
    for g in np.unique(data.group):
        members = np.flatnonzero(data.group == g)
        total = solver.Constraint(1, 1)
        for c in members:
            total.SetCoefficient(share[c], 1)
    rate, fixed, lag = ((array / scale).tolist() for array in (data.rate, data.fixed, data.lag))
    rows = [(i, start[j], fixed[i] + lag[i]) for i, j in data.results.tolist()]
    rows += [(i, start[j], fixed[i]) for i, j in data.sequences.tolist()]
    ends = sorted(set(range(len(rate))) - set(data.results[:, 0].tolist()))  # (4) of the others follows from (2)
    rows += [(i, makespan, fixed[i] + lag[i]) for i in ends]
    share_of_stage = [share[c] for c in data.job.tolist()]
    for i, later, least in rows:
        row = solver.Constraint(least, solver.infinity())
        row.SetCoefficient(later, 1)
        row.SetCoefficient(start[i], -1)
        row.SetCoefficient(share_of_stage[i], -rate[i])
    solver.Minimize(makespan)
    solver.SetSolverSpecificParametersAsString(MOST_WORK)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise ArithmeticError("the solver gave no chunk sizes")
    return np.array([variable.solution_value() for variable in share])
