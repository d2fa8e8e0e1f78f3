r"""Fluid relaxation: jobs split in arbitrarily small parts, a linear programme.

Sets and data
    Job classes :math:`j` with release :math:`r_j`, machines :math:`M_j` and layers of lattice arcs; arc
    :math:`e` of layer :math:`q` holds resource :math:`k` for :math:`d_{jqek}` if the whole class takes it.
    Least lag :math:`a_k` of any stage on resource :math:`k`.  Thresholds :math:`r`: the distinct releases.

Variables
    :math:`x_{jqe} \ge 0`, the fraction of class j that takes arc e; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries one unit of flow from the empty set to the full one;
    2. :math:`T \ge r + a_k + \sum_{j: r_j \ge r} \sum_{q, e} d_{jqek} x_{jqe}` for every threshold r
       and every resource k of a class released at or after r.

It bounds every schedule from below: stages on one resource do not overlap, none of those classes starts before
r, and the last result comes a lag after the last stage.  Without lags 3, 5 and 7 chunks of unequal sizes meet it where
2, 3 and 4 dimensions have bandwidth to spare (docs/law.md).

The bound returned does not rest on the solver's tolerances.  For any weights :math:`\lambda \ge 0` of the
rows of (2) with sum 1 (the duals), :math:`\sum \lambda_{rk} (r + a_k)` plus, for every layer, the cheapest path
under arc costs :math:`\sum_k d_{jqek} \sum_{r \le r_j} \lambda_{rk}` is a lower bound (Lagrangian relaxation of 2;
M. Fisher, 1981, https://doi.org/10.1287/mnsc.27.1.1), and equals the optimum at the optimal duals.
"""

from collections.abc import Mapping, Sequence

from formulations.lattice import JobClass
from formulations.linear import LoadProgramme, add_unit_flow

Row = tuple[float, int]  # a threshold and a resource: one constraint of family (2)


def fluid_bound(jobs: Sequence[JobClass]) -> float:
    """Lower bound on the makespan, in the unit of the durations; `count` of the classes is ignored."""
    return lagrangian(jobs, optimal_weights(jobs))


def lagrangian(jobs: Sequence[JobClass], weights: Mapping[Row, float]) -> float:
    """Value of the Lagrangian relaxation, a bound for any non-negative weights with sum 1."""
    bound = sum(weight * (threshold + least_lag(jobs, threshold, k)) for (threshold, k), weight in weights.items())
    for job in jobs:
        price = dict.fromkeys(job.resources, 0.0)
        for (threshold, k), weight in weights.items():
            if k in price and threshold <= job.release:
                price[k] += weight
        bound += job.least_price(price)
    return bound


def rows(jobs: Sequence[JobClass]) -> list[Row]:
    """Thresholds and resources of constraint family (2)."""
    thresholds = sorted({job.release for job in jobs})
    return [
        (threshold, k)
        for threshold in thresholds
        for k in sorted({k for job in jobs if job.release >= threshold for k in job.resources})
    ]


def least_lag(jobs: Sequence[JobClass], threshold: float, resource: int) -> float:
    """Least lag on a resource of the stages of classes released at or after a threshold."""
    later = [job for job in jobs if job.release >= threshold]
    return min(p.lag[k] for job in later for p in job.phases for k in job.machines if p.held(k) == resource)


def optimal_weights(jobs: Sequence[JobClass]) -> dict[Row, float]:
    """Duals of (2) at the optimum of the linear programme, scaled to sum 1; equal weights if the solver gives up."""
    loads = [job.loads() for job in jobs]
    scale = max(d for load in loads for layers in load.values() for layer in layers for d in layer.values()) or 1.0
    programme = LoadProgramme(scale)
    load_rows = {
        (threshold, k): programme.row(threshold + least_lag(jobs, threshold, k)) for threshold, k in rows(jobs)
    }
    for job, load in zip(jobs, loads, strict=True):
        flows = [add_unit_flow(programme.solver, job) for _ in range(job.num_layers)]
        for k, layers in load.items():
            for row in [row for (r, m), row in load_rows.items() if m == k and r <= job.release]:
                for flow, layer in zip(flows, layers, strict=True):
                    for arc, duration in layer.items():
                        programme.load(row, flow[arc], duration)
    return programme.weights(load_rows)[0]
