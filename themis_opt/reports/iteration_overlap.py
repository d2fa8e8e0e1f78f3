"""What launching policies hide behind compute, and how near exposed communication comes to its bound."""

from collections.abc import Sequence

from themis_opt.reports.cells import duration, percent, plural
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table, Value
from themis_opt.reports.iteration_runs import Finding, IterationRun, chunk_policy, launching, model_of
from themis_opt.reports.results import OPTIMAL, REFERENCE, grouped, policy_head
from themis_opt.reports.statistics import spread

BASELINE = ("fused", "baseline")
"""Launching and chunk policy that speed-ups are over."""


def overlap(runs: Sequence[IterationRun]) -> Finding:
    """Launching policies side by side on every instance, against the same bound."""
    cases = grouped(runs, lambda run: run.row.instance)
    tables = tuple(_table(instance, own) for instance, own in cases.items())
    series = tuple(
        Series(
            instance,
            tuple(run.policy for run in own),
            tuple(run.extra.exposed_ns / run.extra.compute_ns for run in own),
        )
        for instance, own in cases.items()
    )
    figure = Figure(
        "overlap",
        "Exposed communication of an iteration",
        "bar",
        Axis(""),
        Axis("exposed communication over compute", format="percent"),
        series,
    )
    text = (
        "Overlap is the part of communication that runs beside compute. The gap is iteration time over the best bound, "
        "which holds for all policies, minus 1. Exposed communication is also set over the least that the "
        "bound leaves of it."
    )
    return Finding(Section("Overlap", (text,), tables, (figure,)), tuple(_said(own) for own in cases.values()))


def _table(instance: str, runs: Sequence[IterationRun]) -> Table:
    columns = (
        Column("policy"),
        Column("iteration time", "duration"),
        Column("compute", "duration"),
        Column("exposed", "duration"),
        Column("overlap", "percent"),
        Column("launches", "count"),
        Column("speed-up", "factor"),
        Column("gap", "percent"),
        Column("exposed / least", "factor"),
    )
    base = next((run.time_ns for run in runs if _parts(run) == BASELINE), None)
    rows = tuple(_row(run, base) for run in runs)
    return Table(columns, rows, f"{instance}, speed-up over {'/'.join(BASELINE)}.")


def _parts(run: IterationRun) -> tuple[str, str]:
    return launching(run.policy), policy_head(chunk_policy(run.policy))


def _row(run: IterationRun, base: float | None) -> tuple[Value, ...]:
    extra = run.extra
    speedup = None if base is None else base / run.time_ns
    parts = (run.time_ns, extra.compute_ns, extra.exposed_ns, extra.overlap, extra.launches)
    exposed = None if run.exposed_gap is None else 1 + run.exposed_gap
    return (run.policy, *parts, speedup, run.result.gap, exposed)


def _said(runs: Sequence[IterationRun]) -> str:
    best = min((run for run in runs if run.policy != REFERENCE), key=lambda run: run.time_ns, default=runs[0])
    name = runs[0].row.instance
    said = f"{name}: of the policies run that do not search, {best.policy} is fastest, {duration(best.time_ns)}"
    said += f" with {duration(best.extra.exposed_ns)} exposed"
    said += "" if best.result.gap is None else f", {percent(best.result.gap)} above the bound"
    reference = next((run for run in runs if run.policy == REFERENCE), None)
    if reference is None:
        return f"{said}."
    gap = reference.result.gap
    said += f"; the reference takes {duration(reference.time_ns)}"
    return said + ("." if gap is None else f", {percent(gap)} above it.")


def panels(runs: Sequence[IterationRun]) -> Finding:
    """How far exposed communication is above the least that the bound leaves, by workload."""
    known = [run for run in runs if run.exposed_gap is not None]
    columns = (
        Column("workload"),
        Column("policy"),
        Column("panels", "count"),
        Column("mean gap of exposed", "percent"),
        Column("largest gap of exposed", "percent"),
        Column("mean gap", "percent"),
        Column("largest gap", "percent"),
        Column("proven optimal", "count"),
    )
    workloads = [*grouped(known, model_of).items(), ("all", known)]
    rows = tuple(
        (name, policy, *_spread(own))
        for name, part in workloads
        for policy, own in grouped(part, lambda run: run.policy).items()
    )
    text = (
        "Exposed communication over what the best bound leaves of it, minus 1; and the same of whole iterations, "
        f"compute included. Proven optimal is what is within {percent(OPTIMAL)} of the bound of the whole iteration."
    )
    said = tuple(
        f"Exposed communication with {policy} is {percent(mean)} above its bound on average, {percent(most)} at most "
        f"({plural(count, 'panel')})."
        for policy, own in grouped(known, lambda run: run.policy).items()
        for count, mean, most, *_ in [_spread(own)]
    )
    return Finding(Section("Exposed communication", (text,), (Table(columns, rows),), _panel_figures(known)), said)


def _spread(runs: Sequence[IterationRun]) -> tuple[int, float, float, float, float, int]:
    exposed = spread([run.exposed_gap or 0.0 for run in runs])
    whole = spread([run.result.gap or 0.0 for run in runs])
    if exposed is None or whole is None:
        return (0, 0.0, 0.0, 0.0, 0.0, 0)
    optimal = sum(run.result.is_optimal for run in runs)
    return (len(runs), exposed.mean, exposed.largest, whole.mean, whole.largest, optimal)


def _panel_figures(runs: Sequence[IterationRun]) -> tuple[Figure, ...]:
    """The worst panel of each workload as bars."""
    if not runs:
        return ()
    cases = grouped(runs, lambda run: run.policy)
    series = tuple(Series(policy, *_largest(own)) for policy, own in cases.items())
    axis = Axis("largest gap of exposed communication", format="percent")
    return (Figure("exposed-gap", "Exposed communication above its bound", "bar", Axis(""), axis, series),)


def _largest(runs: Sequence[IterationRun]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Workloads, and the largest gap of exposed communication of each."""
    workloads = grouped(runs, model_of)
    return tuple(workloads), tuple(max(run.exposed_gap or 0.0 for run in own) for own in workloads.values())
