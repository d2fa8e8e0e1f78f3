"""Jobs of :mod:`formulations.chunk_order`: their variables."""

from collections.abc import Mapping
from dataclasses import dataclass

from ortools.sat.python import cp_model

from formulations.job_plans import JobTimes
from formulations.lattice import Arc, JobClass


@dataclass(frozen=True)
class LegVariables:
    """x, b, s, p and f of one leg."""

    taken: Mapping[Arc, cp_model.IntVar]
    before: Mapping[tuple[int, int], cp_model.LiteralT]
    start: Mapping[int, cp_model.IntVar]
    duration: Mapping[int, cp_model.IntVar]
    end: Mapping[int, cp_model.IntVar]


@dataclass(frozen=True)
class JobVariables:
    """The variables of one job; `handover` is g."""

    job: JobClass
    legs: tuple[LegVariables, ...]
    handover: cp_model.IntVar


def hint_job(
    model: cp_model.CpModel, job: JobClass, variables: JobVariables, times: JobTimes, mirrors: bool = False
) -> int:
    """Suggest a plan for the variables of one job; returns when it has all results.

    With `mirrors` the path of the first leg is left to the job that it reverses.
    """
    ready = 0
    for number, (leg, path, starts) in enumerate(zip(variables.legs, times.paths, times.starts, strict=True)):
        if number == 1:
            model.add_hint(variables.handover, ready)
        visited, ready = 0, 0
        mirrored = job.mirrored if number == 1 else mirrors
        for machine, start in zip(path, starts, strict=True):
            arc = (visited, machine)
            duration = int(job.legs[number].duration[arc])
            model.add_hint(leg.start[machine], start)
            model.add_hint(leg.duration[machine], duration)
            model.add_hint(leg.end[machine], start + duration)
            ready = max(ready, start + duration + int(job.legs[number].lag[machine]))
            visited |= 1 << machine
        if not mirrored:
            _hint_path(model, leg, path)
    if len(variables.legs) == 1:
        model.add_hint(variables.handover, ready)
    return ready


def _hint_path(model: cp_model.CpModel, leg: LegVariables, path: tuple[int, ...]) -> None:
    chosen = {(sum(1 << m for m in path[:position]), machine) for position, machine in enumerate(path)}
    for arc, taken in leg.taken.items():
        model.add_hint(taken, arc in chosen)
    for (k, m), before in leg.before.items():
        if k < m:
            model.add_hint(before, path.index(k) < path.index(m))


def decisions(job: JobVariables) -> list[cp_model.IntVar]:
    """The variables that hold a solution: arcs and starts."""
    return [v for leg in job.legs for v in (*leg.taken.values(), *leg.start.values())]


def extracted(job: JobVariables, value: Mapping[int, int]) -> JobTimes:
    """The plan of one job in a solution, given the values by variable index."""
    paths, starts = [], []
    for leg in job.legs:
        by_count = sorted((arc[0].bit_count(), arc[1]) for arc, x in leg.taken.items() if value[x.index])
        path = tuple(machine for _, machine in by_count)
        paths.append(path)
        starts.append(tuple(value[leg.start[machine].index] for machine in path))
    return JobTimes(tuple(paths), tuple(starts))
