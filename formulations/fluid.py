r"""Fluid relaxation: jobs split in arbitrarily small parts, a linear programme.

Sets and data
    Job classes :math:`j` with release :math:`r_j`, machines :math:`M_j` and layers of lattice arcs; arc
    :math:`e` of layer :math:`q` holds its machine :math:`k(e)` for :math:`d_{jqe}` if the whole class takes it.
    Least lag :math:`a_k` of any stage on machine :math:`k`.  Thresholds :math:`r`: the distinct releases.

Variables
    :math:`x_{jqe} \ge 0`, the fraction of class j that takes arc e; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries one unit of flow from the empty set to the full one;
    2. :math:`T \ge r + a_k + \sum_{j: r_j \ge r} \sum_{q,\, e: k(e) = k} d_{jqe} x_{jqe}` for every threshold r
       and every machine k of a class released at or after r.

It bounds every schedule from below: stages on one machine do not overlap, none of those classes starts before
r, and the last result comes a lag after the last stage.

The bound returned does not rest on the solver's tolerances.  For any weights :math:`\lambda \ge 0` of the
rows of (2) with sum 1 (the duals), :math:`\sum \lambda_{rk} (r + a_k)` plus, for every layer, the cheapest path
under arc costs :math:`d_{jqe} \sum_{r \le r_j} \lambda_{r k(e)}` is a lower bound (Lagrangian relaxation of 2;
M. Fisher, 1981, https://doi.org/10.1287/mnsc.27.1.1), and equals the optimum at the optimal duals.
"""

from collections.abc import Mapping, Sequence

from ortools.linear_solver import pywraplp

from formulations.lattice import Arc, JobClass, cheapest_path
from formulations.linear import add_unit_flow, optimal_row_weights

Row = tuple[float, int]
"""A threshold and a machine: one constraint of family (2)."""


def fluid_bound(jobs: Sequence[JobClass]) -> float:
    """Lower bound on the makespan, in the unit of the durations; `count` of the classes is ignored."""
    layers = [job.layers(job.load) for job in jobs]
    weights = optimal_weights(jobs, layers)
    return lagrangian(jobs, layers, weights)


def lagrangian(
    jobs: Sequence[JobClass], layers: Sequence[Sequence[Mapping[Arc, float]]], weights: Mapping[Row, float]
) -> float:
    """Value of the Lagrangian relaxation, a bound for any non-negative weights with sum 1."""
    bound = sum(weight * (threshold + least_lag(jobs, threshold, k)) for (threshold, k), weight in weights.items())
    for job, job_layers in zip(jobs, layers, strict=True):
        price = dict.fromkeys(job.machines, 0.0)
        for (threshold, k), weight in weights.items():
            if k in price and threshold <= job.release:
                price[k] += weight
        for layer in job_layers:
            bound += cheapest_path(job.machines, {arc: price[arc[1]] * d for arc, d in layer.items()})
    return bound


def rows(jobs: Sequence[JobClass]) -> list[Row]:
    """Thresholds and machines of constraint family (2)."""
    thresholds = sorted({job.release for job in jobs})
    return [
        (threshold, k)
        for threshold in thresholds
        for k in sorted({k for job in jobs if job.release >= threshold for k in job.machines})
    ]


def least_lag(jobs: Sequence[JobClass], threshold: float, machine: int) -> float:
    """Least lag on a machine of the stages of classes released at or after a threshold."""
    users = [job for job in jobs if job.release >= threshold and machine in job.machines]
    return min(phase.lag[machine] for job in users for phase in job.phases)


def optimal_weights(jobs: Sequence[JobClass], layers: Sequence[Sequence[Mapping[Arc, float]]]) -> dict[Row, float]:
    """Duals of (2) at the optimum of the linear programme, scaled to sum 1; equal weights if the solver gives up."""
    scale = max(d for of_class in layers for layer in of_class for d in layer.values()) or 1.0
    solver = pywraplp.Solver.CreateSolver("GLOP")
    makespan = solver.NumVar(0, solver.infinity(), "makespan")
    solver.Minimize(makespan)
    load_rows: dict[Row, pywraplp.Constraint] = {}
    for threshold, k in rows(jobs):
        row = solver.Constraint((threshold + least_lag(jobs, threshold, k)) / scale, solver.infinity())
        row.SetCoefficient(makespan, 1)
        load_rows[threshold, k] = row
    for job, job_layers in zip(jobs, layers, strict=True):
        rows_of_machine = {
            k: [row for (r, m), row in load_rows.items() if m == k and r <= job.release] for k in job.machines
        }
        for layer in job_layers:
            for arc, flow in add_unit_flow(solver, job, "flow").items():
                for row in rows_of_machine[arc[1]]:
                    row.SetCoefficient(flow, -layer[arc] / scale)
    return optimal_row_weights(solver, load_rows)[0]
