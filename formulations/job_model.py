"""The variables of one job and the rules that it obeys alone: (1) to (5) of :mod:`formulations.chunk_order`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from ortools.sat.python import cp_model

from formulations.job_plans import JobTimes
from formulations.lattice import Arc, JobClass, arcs
from formulations.order_count import add_flow

OrderLiterals = dict[tuple[int, int], cp_model.LiteralT]
"""By pair of machines, whether the first is visited before the second."""


@dataclass(frozen=True)
class PhaseVariables:
    """x, b, s, p and f of one phase."""

    taken: Mapping[Arc, cp_model.IntVar]
    before: Mapping[tuple[int, int], cp_model.LiteralT]
    start: Mapping[int, cp_model.IntVar]
    duration: Mapping[int, cp_model.IntVar]
    end: Mapping[int, cp_model.IntVar]


@dataclass(frozen=True)
class JobVariables:
    """The variables of one job; `handover` is g."""

    job: JobClass
    phases: tuple[PhaseVariables, ...]
    handover: cp_model.IntVar


def hint_job(model: cp_model.CpModel, job: JobClass, variables: JobVariables, times: JobTimes) -> int:
    """Suggest a plan for the variables of one job; returns when it has all results."""
    ready = 0
    for number, (phase, path, starts) in enumerate(zip(variables.phases, times.paths, times.starts, strict=True)):
        if number == 1:
            model.add_hint(variables.handover, ready)
        visited, ready = 0, 0
        for machine, start in zip(path, starts, strict=True):
            arc = (visited, machine)
            duration = int(job.phases[number].duration[arc])
            model.add_hint(phase.start[machine], start)
            model.add_hint(phase.duration[machine], duration)
            model.add_hint(phase.end[machine], start + duration)
            ready = max(ready, start + duration + int(job.phases[number].lag[machine]))
            visited |= 1 << machine
        if not (job.mirrored and number):
            _hint_path(model, phase, path)
    if len(variables.phases) == 1:
        model.add_hint(variables.handover, ready)
    return ready


def _hint_path(model: cp_model.CpModel, phase: PhaseVariables, path: tuple[int, ...]) -> None:
    chosen = {(sum(1 << m for m in path[:position]), machine) for position, machine in enumerate(path)}
    for arc, taken in phase.taken.items():
        model.add_hint(taken, arc in chosen)
    for (k, m), before in phase.before.items():
        if k < m:
            model.add_hint(before, path.index(k) < path.index(m))


def decisions(job: JobVariables) -> list[cp_model.IntVar]:
    """The variables that hold a solution: arcs and starts."""
    return [v for phase in job.phases for v in (*phase.taken.values(), *phase.start.values())]


def extracted(job: JobVariables, value: Mapping[int, int]) -> JobTimes:
    """The plan of one job in a solution, given the values by variable index."""
    paths, starts = [], []
    for phase in job.phases:
        by_count = sorted((arc[0].bit_count(), arc[1]) for arc, x in phase.taken.items() if value[x.index])
        path = tuple(machine for _, machine in by_count)
        paths.append(path)
        starts.append(tuple(value[phase.start[machine].index] for machine in path))
    return JobTimes(tuple(paths), tuple(starts))


def arc_counts(jobs: Sequence[JobVariables]) -> list[Mapping[Arc, cp_model.LinearExprT]]:
    """How many jobs of a class take each arc, per independent phase."""
    one = jobs[0].job
    return [
        {arc: cp_model.LinearExpr.sum([v.phases[q].taken[arc] for v in jobs]) for arc in arcs(one.machines)}
        for q in range(one.num_layers)
    ]


def begin_in_turn(model: cp_model.CpModel, jobs: Sequence[JobVariables], machine: int) -> None:
    """Number jobs by their start on a machine in the first phase."""
    for one, following in pairwise(jobs):
        model.add(one.phases[0].start[machine] <= following.phases[0].start[machine])


def add_job(model: cp_model.CpModel, job: JobClass, latest: int, name: str) -> JobVariables:
    """Add one job to a model, of which no stage ends later than `latest`; its variables have names that begin alike."""
    phases: list[PhaseVariables] = []
    for number in range(len(job.phases)):
        mirror = phases[0] if job.mirrored and number else None
        phases.append(_phase(model, job, number, latest, f"{name}_phase{number}", mirror))
    handover = model.new_int_var(int(job.release), latest, f"{name}_handover")
    for k in job.machines:  # (5)
        model.add(handover >= phases[0].end[k] + int(job.phases[0].lag[k]))
        for later in phases[1:]:
            model.add(later.start[k] >= handover)
    return JobVariables(job, tuple(phases), handover)


def _phase(
    model: cp_model.CpModel, job: JobClass, number: int, latest: int, name: str, mirror: PhaseVariables | None
) -> PhaseVariables:
    taken, before = _path(model, job, name, mirror)
    phase = PhaseVariables(taken, before, *_intervals(model, job, number, latest, name))
    _durations(model, job, number, phase)
    _precedence(model, job, number, phase)
    return phase


def _path(
    model: cp_model.CpModel, job: JobClass, name: str, mirror: PhaseVariables | None
) -> tuple[Mapping[Arc, cp_model.IntVar], Mapping[tuple[int, int], cp_model.LiteralT]]:
    """(1) and (2): x and b of one phase, or those of the first one, reversed."""
    if mirror is not None:
        taken = {job.mirror(arc): variable for arc, variable in mirror.taken.items()}
        return taken, {(m, k): literal for (k, m), literal in mirror.before.items()}
    taken = {arc: model.new_bool_var(f"{name}_arc{arc[0]:b}_{arc[1]}") for arc in arcs(job.machines)}
    add_flow(model, replace(job, count=1), taken)
    return taken, _order(model, job, taken, name)


def _order(model: cp_model.CpModel, job: JobClass, taken: Mapping[Arc, cp_model.IntVar], name: str) -> OrderLiterals:
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
        choices = sorted({int(d) for (_, at), d in job.phases[number].duration.items() if at == k})
        domain = cp_model.Domain.from_values(choices)
        start[k] = model.new_int_var(int(job.release), latest, f"{name}_start{k}")
        duration[k] = model.new_int_var_from_domain(domain, f"{name}_duration{k}")
        end[k] = model.new_int_var(int(job.release), latest, f"{name}_end{k}")
    return start, duration, end


def _durations(model: cp_model.CpModel, job: JobClass, number: int, phase: PhaseVariables) -> None:
    """(3)."""
    for k in job.machines:
        choices = [(int(d), phase.taken[arc]) for arc, d in job.phases[number].duration.items() if arc[1] == k]
        model.add(phase.duration[k] == sum(d * taken for d, taken in choices))


def _precedence(model: cp_model.CpModel, job: JobClass, number: int, phase: PhaseVariables) -> None:
    """(4)."""
    for (k, m), before in phase.before.items():
        lag = int(job.phases[number].lag[k])
        model.add(phase.start[m] >= phase.end[k] + lag).only_enforce_if(before)
