"""The variables of one job and the rules it obeys on its own: (1) to (5) of :mod:`formulations.chunk_order`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from ortools.sat.python import cp_model

from formulations.job_variables import JobVariables, LegVariables
from formulations.lattice import Arc, JobClass, arcs
from formulations.order_count import add_flow

OrderLiterals = dict[tuple[int, int], cp_model.LiteralT]
"""By pair of machines, whether the first is visited before the second."""


def add_job(
    model: cp_model.CpModel, job: JobClass, latest: int, name: str, mirrored: LegVariables | None = None
) -> JobVariables:
    """Add one job to a model.

    Parameters
    ----------
    latest : int
        No stage ends later.
    name : str
        Prefix of the names of its variables.
    mirrored : LegVariables, optional
        A leg of another job whose path the first leg of this one reverses.
    """
    legs: list[LegVariables] = []
    for number in range(len(job.legs)):
        mirror = legs[0] if job.mirrored and number == 1 else mirrored if number == 0 else None
        legs.append(_leg(model, job, number, latest, f"{name}_leg{number}", mirror))
    handover = model.new_int_var(int(job.release), latest, f"{name}_handover")
    add_handover(model, job, legs, handover)
    return JobVariables(job, tuple(legs), handover)


def _leg(
    model: cp_model.CpModel, job: JobClass, number: int, latest: int, name: str, mirror: LegVariables | None
) -> LegVariables:
    if mirror is None:
        taken = {arc: model.new_bool_var(f"{name}_arc{arc[0]:b}_{arc[1]}") for arc in arcs(job.machines)}
        add_flow(model, replace(job, count=1), taken)
        before = add_order(model, job, taken, name)
    else:
        taken = {job.mirror(arc): variable for arc, variable in mirror.taken.items()}
        before = {(m, k): literal for (k, m), literal in mirror.before.items()}
    start, duration, end = _intervals(model, job, number, latest, name)
    leg = LegVariables(taken, before, start, duration, end)
    _durations(model, job, number, leg)
    add_precedence(model, job, number, leg)
    return leg


def add_order(model: cp_model.CpModel, job: JobClass, taken: Mapping[Arc, cp_model.IntVar], name: str) -> OrderLiterals:
    """(2)."""
    before: OrderLiterals = {}
    for k, m in combinations(sorted(job.machines), 2):
        first = model.new_bool_var(f"{name}_before{k}_{m}")
        model.add(sum(x for (visited, at), x in taken.items() if at == m and visited >> k & 1) == first)
        model.add(sum(x for (visited, at), x in taken.items() if at == k and visited >> m & 1) == 1 - first)
        before[k, m], before[m, k] = first, ~first
    return before


def _intervals(
    model: cp_model.CpModel, job: JobClass, number: int, latest: int, name: str
) -> tuple[dict[int, cp_model.IntVar], dict[int, cp_model.IntVar], dict[int, cp_model.IntVar]]:
    start, duration, end = {}, {}, {}
    for k in job.machines:
        choices = sorted({int(d) for (_, at), d in job.legs[number].duration.items() if at == k})
        domain = cp_model.Domain.from_values(choices)
        start[k] = model.new_int_var(int(job.release), latest, f"{name}_start{k}")
        duration[k] = model.new_int_var_from_domain(domain, f"{name}_duration{k}")
        end[k] = model.new_int_var(int(job.release), latest, f"{name}_end{k}")
    return start, duration, end


def _durations(model: cp_model.CpModel, job: JobClass, number: int, leg: LegVariables) -> None:
    """(3)."""
    for k in job.machines:
        choices = [(int(d), leg.taken[arc]) for arc, d in job.legs[number].duration.items() if arc[1] == k]
        model.add(leg.duration[k] == sum(d * taken for d, taken in choices))


def add_precedence(model: cp_model.CpModel, job: JobClass, number: int, leg: LegVariables) -> None:
    """(4)."""
    for (k, m), before in leg.before.items():
        lag = int(job.legs[number].lag[k])
        model.add(leg.start[m] >= leg.end[k] + lag).only_enforce_if(before)


def add_handover(
    model: cp_model.CpModel, job: JobClass, legs: Sequence[LegVariables], handover: cp_model.IntVar
) -> None:
    """(5)."""
    for k in job.machines:
        model.add(handover >= legs[0].end[k] + int(job.legs[0].lag[k]))
        for later in legs[1:]:
            model.add(later.start[k] >= handover)
