"""Data-parallel training on more and more NPUs, and with gradients that are exchanged more and more rarely."""

from collections.abc import Sequence

from themis_opt.reports.cells import percent
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table, Value
from themis_opt.reports.iteration_runs import Finding, IterationRun, model_of
from themis_opt.reports.results import grouped
from themis_opt.reports.statistics import spread

NEGLIGIBLE = 1e-5
"""Relative error that is due to whole picoseconds."""


def efficiency(run: IterationRun) -> float:
    """Share of an iteration in which an NPU computes."""
    return run.extra.compute_ns / run.time_ns


def scaling(runs: Sequence[IterationRun]) -> Finding:
    """Efficiency over the number of NPUs, each with its own batch."""
    models = grouped(sorted(runs, key=lambda run: run.row.npus), model_of)
    text = "Weak scaling: every NPU keeps its batch. Efficiency is compute over iteration time."
    tables = tuple(_scaling_table(model, own) for model, own in models.items())
    figures = tuple(_scaling_figure(number, model, own) for number, (model, own) in enumerate(models.items(), 1))
    said = tuple(_scaling_sentence(model, own) for model, own in models.items())
    return Finding(Section("Scaling", (text,), tables, figures), said)


def _scaling_table(model: str, runs: Sequence[IterationRun]) -> Table:
    counts = sorted({run.row.npus for run in runs})
    columns = (Column("policy"), *(Column(str(count), "percent") for count in counts))
    rows = tuple(
        (policy, *(_at(own, count) for count in counts))
        for policy, own in grouped(runs, lambda run: run.policy).items()
    )
    return Table(columns, rows, f"{model}: efficiency by number of NPUs.")


def _at(runs: Sequence[IterationRun], npus: int) -> float | None:
    return next((efficiency(run) for run in runs if run.row.npus == npus), None)


def _scaling_figure(number: int, model: str, runs: Sequence[IterationRun]) -> Figure:
    series = tuple(
        Series(policy, tuple(run.row.npus for run in own), tuple(efficiency(run) for run in own))
        for policy, own in grouped(runs, lambda run: run.policy).items()
    )
    axis = Axis("efficiency", format="percent")
    return Figure(
        f"scaling-{number}", f"Efficiency of {model}", "line", Axis("NPUs", log=True, format="count"), axis, series
    )


def _scaling_sentence(model: str, runs: Sequence[IterationRun]) -> str:
    most = max(run.row.npus for run in runs)
    last = sorted((run for run in runs if run.row.npus == most), key=efficiency)
    worst, best = last[0], last[-1]
    return (
        f"{model} on {most} NPUs: efficiency {percent(efficiency(best))} with {best.policy}, "
        f"{percent(efficiency(worst))} with {worst.policy}."
    )


def per_step(run: IterationRun) -> float:
    """Nanoseconds of one step, of which an iteration has several."""
    return run.time_ns / run.extra.steps


def skipping(runs: Sequence[IterationRun]) -> Finding:
    """Time of a step if only every k-th exchanges gradients, against compute plus a k-th of what one exposes."""
    cases = grouped(sorted(runs, key=lambda run: run.extra.steps), lambda run: (model_of(run), run.policy))
    estimates = {
        case: [(run, estimate) for run in own if (estimate := _estimate(run, own))] for case, own in cases.items()
    }
    text = (
        "With k steps between exchanges, a step is estimated to take its compute and 1/k of the communication that is "
        "exposed with k = 1. More overlap per exchange makes it shorter."
    )
    rows: list[tuple[Value, ...]] = [
        (model, policy, run.extra.steps, per_step(run), estimate, per_step(run) / estimate - 1)
        for (model, policy), pairs in estimates.items()
        for run, estimate in pairs
    ]
    columns = (
        Column("model"),
        Column("policy"),
        Column("k", "count"),
        Column("time of a step", "duration"),
        Column("estimate", "duration"),
        Column("above the estimate", "percent"),
    )
    models = grouped(estimates, lambda case: case[0])
    figures = tuple(
        _skipping_figure(number, model, {policy: estimates[model, policy] for _, policy in own})
        for number, (model, own) in enumerate(models.items(), 1)
    )
    section = Section("Skipped synchronisation", (text,), (Table(columns, tuple(rows)),), figures)
    return Finding(section, tuple(_skipping_sentence(case, pairs) for case, pairs in estimates.items() if pairs))


def _estimate(run: IterationRun, runs: Sequence[IterationRun]) -> float | None:
    """Compute of a step and its share of what is exposed when every step exchanges."""
    single = next((other for other in runs if other.extra.steps == 1), None)
    return None if single is None else single.extra.compute_ns + single.extra.exposed_ns / run.extra.steps


def _skipping_figure(number: int, model: str, cases: dict[str, list[tuple[IterationRun, float]]]) -> Figure:
    series: list[Series] = []
    for policy, pairs in cases.items():
        places = tuple(run.extra.steps for run, _ in pairs)
        series += [
            Series(policy, places, tuple(per_step(run) for run, _ in pairs)),
            Series(f"{policy}, estimate", places, tuple(estimate for _, estimate in pairs), guide=True),
        ]
    return Figure(
        f"skipping-{number}",
        f"Time of a step of {model}",
        "line",
        Axis("steps between exchanges", log=True, format="count"),
        Axis("time of a step", format="duration"),
        tuple(series),
        "Dotted: the estimate.",
    )


def _skipping_sentence(case: tuple[str, str], pairs: Sequence[tuple[IterationRun, float]]) -> str:
    model, policy = case
    errors = spread([abs(per_step(run) / estimate - 1) for run, estimate in pairs])
    first, last = pairs[0][0], pairs[-1][0]
    saved = 1 - per_step(last) / per_step(first)
    off = f"{percent(errors.largest)} at most" if errors and errors.largest > NEGLIGIBLE else "less than 0.001 %"
    return (
        f"{model} with {policy}: a step is {percent(saved)} shorter with an exchange every {last.extra.steps} steps; "
        f"the estimate is off by {off}."
    )
