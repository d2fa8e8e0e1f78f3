r"""Chunk sizes of a period that repeats itself, paths and sequences fixed, a linear programme.

Sets and data
    Events :math:`i`: tasks and operations of jobs :math:`c(i)`, jobs of groups :math:`g(c)`; time :math:`a_i y + b_i`
    when the job has the share :math:`y` of its group.  Waits :math:`(i, j) \in W` with lag :math:`l_{ij}` and height
    :math:`h_{ij}`: j waits for the i of so many periods before, or after if it is negative.

Variables
    :math:`y_c \ge 0`, the share of job c; :math:`s_i \ge 0`, starts; :math:`T`, the period.

Objective
    minimise :math:`T`

Constraints
    1. :math:`\sum_{c \in g} y_c = 1` for every group;
    2. :math:`s_j + h_{ij} T \ge s_i + a_i y_{c(i)} + b_i + l_{ij}` for :math:`(i, j) \in W`.

The optimum is exact for affine times.  It is :mod:`formulations.chunk_sizes` with a period in the place of the
makespan.
"""

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.arrays import FloatArray, IntArray
from formulations.linear import MOST_WORK


@dataclass(frozen=True)
class PeriodSizingData:
    """Data of the programme.

    Attributes
    ----------
    rate, fixed : float64, shape (events,)
        a and b; tasks have no rate.
    job : int64, shape (events,)
        Job of each event, any for tasks.
    group : int64, shape (jobs,)
        Group of each job.
    waits : int64, shape (waits, 3)
        Events i and j of each wait, and its height.
    lag : float64, shape (waits,)
    """

    rate: FloatArray
    fixed: FloatArray
    job: IntArray
    group: IntArray
    waits: IntArray
    lag: FloatArray


def best_period_shares(data: PeriodSizingData) -> FloatArray:
    """Share of every job in its group, shape (jobs,).

    Raises
    ------
    ArithmeticError
        If the programme has no solution, or none that takes little work.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    scale = float(data.rate.sum() + data.fixed.sum() + data.lag.sum()) or 1.0
    share = [solver.NumVar(0, 1, f"share{c}") for c in range(len(data.group))]
    start = [solver.NumVar(0, solver.infinity(), f"start{i}") for i in range(len(data.rate))]
    period = solver.NumVar(0, solver.infinity(), "period")
    for group in np.unique(data.group):
        total = solver.Constraint(1, 1)
        for job in np.flatnonzero(data.group == group):
            total.SetCoefficient(share[job], 1)
    for (one, other, height), lag in zip(data.waits.tolist(), data.lag.tolist(), strict=True):
        row = solver.Constraint(float(data.fixed[one] + lag) / scale, solver.infinity())
        if one != other:
            row.SetCoefficient(start[other], 1)
            row.SetCoefficient(start[one], -1)
        row.SetCoefficient(period, height)
        row.SetCoefficient(share[data.job[one]], -float(data.rate[one]) / scale)
    solver.Minimize(period)
    solver.SetSolverSpecificParametersAsString(MOST_WORK)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise ArithmeticError("the solver gave no chunk sizes")
    return np.array([variable.solution_value() for variable in share])
