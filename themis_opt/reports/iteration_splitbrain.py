"""SplitBrain: what sharding fully connected layers in groups gains in speed and saves in memory."""

from collections.abc import Sequence

from themis_opt.errors import InputError
from themis_opt.reports.cells import percent
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table
from themis_opt.reports.iteration_runs import Finding, IterationRun, model_of
from themis_opt.reports.results import grouped
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.splitbrain import memory_fraction

LINEAR = "linear"


def splitbrain(runs: Sequence[IterationRun]) -> Finding:
    """Speed-up over the number of machines, and memory, by the machines of a group."""
    best = _fastest(runs)
    models = grouped(best, model_of)
    figures = tuple(_figure(number, model, own) for number, (model, own) in enumerate(models.items(), 1))
    text = (
        "Convolutions are data parallel, fully connected layers are sharded in groups of K machines. Every machine has "
        "its own batch, so that the speed-up over one machine is the number of machines times compute over iteration "
        "time; each with the fastest of the policies run. Memory is that of parameters, relative to K = 1."
    )
    tables = (_speed_table(best), _memory_table(best))
    said = tuple(sentence for model, own in models.items() for sentence in _said(model, own))
    return Finding(Section("SplitBrain", (text,), tables, figures), said)


def _fastest(runs: Sequence[IterationRun]) -> list[IterationRun]:
    """The fastest run of every model, group and number of machines."""
    cases = grouped(runs, lambda run: (model_of(run), group_of(run), run.row.npus))
    return [min(own, key=lambda run: run.time_ns) for _, own in sorted(cases.items())]


def group_of(run: IterationRun) -> int:
    """Machines of a group.

    Raises
    ------
    InputError
        If the row does not tell.
    """
    group = run.extra.workload.get("group")
    if not isinstance(group, int) or group < 1:
        rule = f"workload.group of {run.row.instance} must be the machines of a group"
        raise InputError(rule, field="column extra", value=group)
    return group


def speedup(run: IterationRun) -> float:
    """Samples per second of all machines over those of one that trains alone."""
    return run.row.npus * run.extra.compute_ns / run.time_ns


def _speed_table(runs: Sequence[IterationRun]) -> Table:
    columns = (
        Column("model"),
        Column("K", "count"),
        Column("machines", "count"),
        Column("fastest policy"),
        Column("iteration time", "duration"),
        Column("speed-up", "factor"),
        Column("efficiency", "percent"),
    )
    rows = tuple(
        (
            model_of(run),
            group_of(run),
            run.row.npus,
            run.policy,
            run.time_ns,
            speedup(run),
            speedup(run) / run.row.npus,
        )
        for run in runs
    )
    return Table(columns, rows)


def memory_by_group(runs: Sequence[IterationRun]) -> dict[int, float]:
    """Memory of one model's parameters by the machines of a group, relative to groups of one."""
    held = {group_of(run): run.extra.memory_bytes for run in runs if run.extra.memory_bytes}
    whole = held.get(1)
    return {group: size / whole for group, size in sorted(held.items()) if size and whole}


def closed_form(model: str, group: int) -> float | None:
    """The same from the parameters of the model's layers; None for a model that is not known."""
    if model not in MODELS:
        return None
    layers = MODELS[model].layers(None)
    connected = sum(layer.elements() for layer in layers if layer.kind == LINEAR)
    return float(memory_fraction(sum(layer.elements() for layer in layers) - connected, connected, group))


def _memory_table(runs: Sequence[IterationRun]) -> Table:
    columns = (
        Column("model"),
        Column("K", "count"),
        Column("memory", "percent"),
        Column("closed form", "percent"),
        Column("saved", "percent"),
    )
    rows = tuple(
        (model, group, share, closed_form(model, group), 1 - share)
        for model, own in grouped(runs, model_of).items()
        for group, share in memory_by_group(own).items()
    )
    return Table(columns, rows, "Memory of parameters on one machine.")


def _figure(number: int, model: str, runs: Sequence[IterationRun]) -> Figure:
    series = [
        Series(f"K = {group}", tuple(run.row.npus for run in own), tuple(speedup(run) for run in own))
        for group, own in grouped(runs, group_of).items()
    ]
    counts = sorted({run.row.npus for run in runs})
    series.append(Series("linear", tuple(counts), tuple(float(count) for count in counts), guide=True))
    return Figure(
        f"splitbrain-{number}",
        f"Speed-up of {model} over one machine",
        "line",
        Axis("machines", log=True, format="count"),
        Axis("speed-up", log=True),
        tuple(series),
    )


def _said(model: str, runs: Sequence[IterationRun]) -> list[str]:
    most = max(run.row.npus for run in runs)
    last = {group_of(run): run for run in runs if run.row.npus == most}
    shown = ", ".join(f"{speedup(run):.2f} with K = {group}" for group, run in sorted(last.items()))
    said = [f"{model} with SplitBrain on {most} machines: speed-up {shown}."]
    memory = memory_by_group(runs)
    if len(memory) > 1:
        group, share = max(memory.items())
        said.append(f"{model} with SplitBrain: groups of {group} save {percent(1 - share)} of the parameters' memory.")
    return said
