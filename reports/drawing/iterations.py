"""Training iterations: overlap, buckets, exposed communication, scaling, skipped synchronisation and SplitBrain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from drawing.iteration_runs import iteration_runs, setting
from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_size
from themis_opt.policies.registry import REFERENCE
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, bars, lines
from themis_opt.reports.rendering.document import Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import duration, percent, plural, table
from themis_opt.reports.results import BASELINE, OPTIMAL, gathered, policy_head, results
from themis_opt.reports.sections import failures, warnings
from themis_opt.workloads.convolutional import memory_fraction
from themis_opt.workloads.models import MODELS

BUCKET_KNOBS: Mapping[str, str] = MappingProxyType({"ddp": "cap", "dear": "threshold", "horovod": "buffer"})
"""The knob that says how large a bucket is, by launching policy."""

FUSED = "fused"  # the launching policy that speed-ups are over, with the chunk policy of the fixed order
LINEAR = "linear"  # the kind of fully connected layers, and the name of a speed-up that is the number of machines


@dataclass(frozen=True)
class BlockReport:
    """A section on iterations, with sentences for the summary."""

    section: Section
    sentences: tuple[str, ...] = ()


def iterations(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Show what each block of the experiment says about training iterations.

    Raises
    ------
    InputError
        If no block has a run of an iteration, or a run does not say how its time is made up.
    """
    schedules = results(rows)
    runs = iteration_runs(schedules)
    made = [
        section(subset) for block, section in REPORT_OF_BLOCK.items() if len(subset := runs[runs["block"] == block])
    ]
    if not made:
        rule = f"no run of an iteration in any of the blocks {', '.join(REPORT_OF_BLOCK)}"
        raise InputError(rule, field="column block")
    sentences = [sentence for finding in made for sentence in finding.sentences]
    sections = tuple(finding.section for finding in made)
    return Report(experiment.title, (*sentences, *warnings(rows, schedules)), (*sections, *failures(rows)))


def overlap(runs: pd.DataFrame) -> BlockReport:
    """Launching policies side by side on every instance, against the same bound."""
    cases = list(runs.groupby("instance", sort=False))
    shares = gathered(runs.assign(share=runs["exposed_ns"] / runs["compute_ns"]), ["instance"])
    axis = Axis("share", "exposed communication over compute", format="percent")
    chart = bars(shares, "policy", axis, "instance")
    figure = Figure("overlap", "Exposed communication of an iteration", chart)
    text = (
        "Overlap is the part of communication that runs beside compute. The gap is iteration time over the best bound, "
        "which holds for all policies, minus 1. Exposed communication is also set over the least that the "
        "bound leaves of it."
    )
    tables = tuple(_overlap_table(instance, subset) for instance, subset in cases)
    sentences = tuple(_overlap_sentence(instance, subset) for instance, subset in cases)
    return BlockReport(Section("Overlap", (text,), tables, (figure,)), sentences)


def _overlap_table(instance: str, runs: pd.DataFrame) -> Table:
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
    base = runs[(runs["launching"] == FUSED) & (runs["chunk_policy"].map(policy_head) == BASELINE)]["makespan_ns"]
    speedup = base.iloc[0] / runs["makespan_ns"] if len(base) else None
    shown = ["policy", "makespan_ns", "compute_ns", "exposed_ns", "overlap", "launches", "speedup", "gap", "exposed"]
    frame = runs.assign(speedup=speedup, exposed=1 + runs["exposed_gap"])[shown]
    return table(frame, columns, f"{instance}, speed-up over {FUSED}/{BASELINE}.")


def _overlap_sentence(instance: str, runs: pd.DataFrame) -> str:
    is_reference = runs["policy"] == REFERENCE
    direct = runs if is_reference.all() else runs[~is_reference]
    best = direct.loc[direct["makespan_ns"].idxmin()]
    sentence = f"{instance}: of the policies that do not search, {best['policy']} is fastest"
    return f"{sentence}." if pd.isna(best["gap"]) else f"{sentence}, {percent(best['gap'])} above the bound."


def buckets(runs: pd.DataFrame) -> BlockReport:
    """Iteration time over the size of buckets, for every launching policy that has one."""
    sized = runs.assign(
        bytes=[_bucket_size(*parts) for parts in zip(runs["policy"], runs["launching"], strict=True)],
        name=runs["launching"] + "/" + runs["chunk_policy"],
    ).dropna(subset="bytes")
    sweeps = gathered(sized.sort_values("bytes", kind="stable"), ["instance", "name"])
    x = Axis("bytes", "size of buckets", log=True, format="size")
    y = Axis("makespan_ns", "iteration time", format="duration")
    figures = tuple(
        Figure(f"buckets-{number}", f"Iteration time of {instance} by size of buckets", lines(subset, x, y, "name"))
        for number, (instance, subset) in enumerate(sweeps.groupby("instance", sort=False), 1)
    )
    overheads = sorted(runs["launch_overhead_ns"].dropna().unique())
    costs = " and ".join(duration(value) for value in overheads)
    text = (
        (f"Each stage costs {costs} to launch. " if costs else "")
        + "Small buckets start early and are many, large ones are few and start late; a bucket holds at least one "
        "tensor, which may be larger. An optimum is inside the range if both the smallest and the largest buckets are "
        "slower."
    )
    sentences = _bucket_sentences(sweeps)
    return BlockReport(Section("Size of buckets", (text,), (_bucket_table(sweeps),), figures), sentences)


def _bucket_size(policy: str, launching: str) -> int | None:
    """Bytes of a bucket, of a specification that says so."""
    text = setting(policy, BUCKET_KNOBS.get(launching, ""))
    return None if text is None else parse_size(text)


def _bucket_sentences(sweeps: pd.DataFrame) -> tuple[str, ...]:
    """On how many of the sweeps neither the smallest nor the largest buckets are best."""
    cases = sweeps.groupby(["instance", "name"], sort=False)["makespan_ns"]
    is_inside = (cases.first() > cases.min()) & (cases.last() > cases.min())
    if is_inside.empty:
        return ()
    return (f"The best buckets are inside the range in {is_inside.sum()} of {plural(len(is_inside), 'sweep')}.",)


def _bucket_table(sweeps: pd.DataFrame) -> Table:
    columns = (
        Column("instance"),
        Column("policy"),
        Column("buckets", "size"),
        Column("launches", "count"),
        Column("iteration time", "duration"),
        Column("exposed", "duration"),
        Column("slower than the best", "percent"),
        Column("gap", "percent"),
    )
    best = sweeps.groupby(["instance", "name"])["makespan_ns"].transform("min")
    shown = ["instance", "name", "bytes", "launches", "makespan_ns", "exposed_ns", "slower", "gap"]
    return table(sweeps.assign(slower=sweeps["makespan_ns"] / best - 1)[shown], columns)


def panels(runs: pd.DataFrame) -> BlockReport:
    """How far exposed communication is above the least that the bound leaves, by workload."""
    known = runs[runs["exposed_gap"].notna()]
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
    whole = _gaps(known)
    parts = [_gaps(subset).assign(model=model) for model, subset in known.groupby("model", sort=False)]
    frame = pd.concat([*parts, whole.assign(model="all")]).reset_index()
    text = (
        "Exposed communication over what the best bound leaves of it, minus 1; and the same of whole iterations, "
        f"compute included. Proven optimal is what is within {percent(OPTIMAL)} of the bound of the whole iteration."
    )
    best = whole["mean_exposed"].idxmin() if len(whole) else None
    sentences = (
        (f"Exposed communication with {best} is {percent(whole['mean_exposed'][best])} above its bound on average.",)
        if best is not None
        else ()
    )
    tables = (table(frame[["model", *frame.columns.drop("model")]], columns),)
    return BlockReport(Section("Exposed communication", (text,), tables, _panel_figures(known)), sentences)


def _gaps(runs: pd.DataFrame) -> pd.DataFrame:
    """Gaps of exposed communication and of whole iterations by policy."""
    return runs.groupby("policy", observed=True).agg(
        count=("gap", "size"),
        mean_exposed=("exposed_gap", "mean"),
        largest_exposed=("exposed_gap", "max"),
        mean=("gap", "mean"),
        largest=("gap", "max"),
        optimal=("is_optimal", "sum"),
    )


def _panel_figures(runs: pd.DataFrame) -> tuple[Figure, ...]:
    """The worst panel of each workload as bars."""
    if runs.empty:
        return ()
    worst = runs.groupby(["model", "policy"], sort=False, observed=True)["exposed_gap"].max().reset_index()
    axis = Axis("exposed_gap", "largest gap of exposed communication", format="percent")
    return (Figure("exposed-gap", "Exposed communication above its bound", bars(worst, "model", axis, "policy")),)


def scaling(runs: pd.DataFrame) -> BlockReport:
    """Efficiency, the share of an iteration in which an NPU computes, over the number of NPUs, each with its batch."""
    ordered = runs.assign(efficiency=runs["compute_ns"] / runs["makespan_ns"]).sort_values("npus", kind="stable")
    x, y = Axis("npus", "NPUs", log=True, format="count"), Axis("efficiency", "efficiency", format="percent")
    figures = tuple(
        Figure(f"scaling-{number}", f"Efficiency of {model}", lines(subset, x, y, "policy"))
        for number, (model, subset) in enumerate(ordered.groupby("model", sort=False), 1)
    )
    models = list(ordered.groupby("model", sort=False))
    text = "Weak scaling: every NPU keeps its batch. Efficiency is compute over iteration time."
    tables = tuple(_scaling_table(model, subset) for model, subset in models)
    return BlockReport(Section("Scaling", (text,), tables, figures))


def _scaling_table(model: str, runs: pd.DataFrame) -> Table:
    frame = runs.pivot_table("efficiency", "policy", "npus", aggfunc="first", observed=True).loc[
        runs["policy"].unique()
    ]
    columns = (Column("policy"), *(Column(str(count), "percent") for count in frame.columns))
    return table(frame.reset_index(), columns, f"{model}: efficiency by number of NPUs.")


def skipping(runs: pd.DataFrame) -> BlockReport:
    """Time of a step if only every k-th exchanges gradients, against compute plus a k-th of what one exposes."""
    case = ["model", "policy"]
    single = runs[runs["steps"] == 1].drop_duplicates(case).set_index(case)[["compute_ns", "exposed_ns"]]
    steps = runs.sort_values("steps", kind="stable").join(single.add_suffix("_single"), on=case)
    steps = gathered(
        steps.assign(
            step_ns=steps["makespan_ns"] / steps["steps"],
            estimate=steps["compute_ns_single"] + steps["exposed_ns_single"] / steps["steps"],
        ),
        case,
    ).dropna(subset="estimate")
    steps["above"] = steps["step_ns"] / steps["estimate"] - 1
    columns = (
        Column("model"),
        Column("policy"),
        Column("k", "count"),
        Column("time of a step", "duration"),
        Column("estimate", "duration"),
        Column("above the estimate", "percent"),
    )
    text = (
        "With k steps between exchanges, a step is estimated to take its compute and 1/k of the communication that is "
        "exposed with k = 1. More overlap per exchange makes it shorter."
    )
    tables = (table(steps[["model", "policy", "steps", "step_ns", "estimate", "above"]], columns),)
    off = steps["above"].abs().max()
    sentences = (
        (f"The estimate of steps that skip synchronisation is off by {percent(off)} at most.",) if len(steps) else ()
    )
    return BlockReport(Section("Skipped synchronisation", (text,), tables, _skipping_figures(steps)), sentences)


def _skipping_figures(steps: pd.DataFrame) -> tuple[Figure, ...]:
    x = Axis("steps", "steps between exchanges", log=True, format="count")
    y = Axis("step_ns", "time of a step", format="duration")
    figures = []
    for number, (model, subset) in enumerate(steps.groupby("model", sort=False), 1):
        guides = subset.assign(step_ns=subset["estimate"], policy=subset["policy"].astype(str) + ", estimate")
        chart = lines(subset, x, y, "policy", guides=guides)
        figures.append(Figure(f"skipping-{number}", f"Time of a step of {model}", chart, "Dotted: the estimate."))
    return tuple(figures)


def splitbrain(runs: pd.DataFrame) -> BlockReport:
    """Speed-up over the number of machines, and memory, by the machines of a group."""
    sharded = runs.assign(
        group=[_group(*cells) for cells in zip(runs["workload"], runs["instance"], strict=True)],
        speedup=runs["npus"] * runs["compute_ns"] / runs["makespan_ns"],
    )
    fastest = sharded.sort_values("makespan_ns", kind="stable").drop_duplicates(["model", "group", "npus"])
    fastest = fastest.sort_values(["model", "group", "npus"])
    text = (
        "Convolutions are data parallel, fully connected layers are sharded in groups of K machines. Every machine has "
        "its batch, so that the speed-up over one machine is the number of machines times compute over iteration "
        "time; each with the fastest of the policies run. Memory is that of parameters, relative to K = 1."
    )
    memory = _memory(fastest)
    tables = (_speed_table(fastest), _memory_table(memory))
    return BlockReport(
        Section("SplitBrain", (text,), tables, _splitbrain_figures(fastest)), _splitbrain_sentences(memory)
    )


def _group(workload: Mapping[str, Any], instance: str) -> int:
    """Machines of a group.

    Raises
    ------
    InputError
        If the row does not tell.
    """
    group = workload.get("group")
    if not isinstance(group, int) or group < 1:
        rule = f"workload.group of {instance} must be the machines of a group"
        raise InputError(rule, field="column extra", value=group)
    return group


def _speed_table(fastest: pd.DataFrame) -> Table:
    columns = (
        Column("model"),
        Column("K", "count"),
        Column("machines", "count"),
        Column("fastest policy"),
        Column("iteration time", "duration"),
        Column("speed-up", "factor"),
        Column("efficiency", "percent"),
    )
    frame = fastest.assign(efficiency=fastest["speedup"] / fastest["npus"])
    return table(frame[["model", "group", "npus", "policy", "makespan_ns", "speedup", "efficiency"]], columns)


def _memory(fastest: pd.DataFrame) -> pd.DataFrame:
    """Memory of parameters by model and the machines of a group, relative to groups of one."""
    held = fastest[fastest["memory_bytes"] > 0].drop_duplicates(["model", "group"], keep="last")
    whole = held[held["group"] == 1].set_index("model")["memory_bytes"]
    share = held["memory_bytes"] / held["model"].map(whole)
    return held.assign(share=share)[["model", "group", "share"]].dropna()


def _memory_table(memory: pd.DataFrame) -> Table:
    columns = (
        Column("model"),
        Column("K", "count"),
        Column("memory", "percent"),
        Column("closed form", "percent"),
        Column("saved", "percent"),
    )
    closed = [closed_form(*case) for case in zip(memory["model"], memory["group"], strict=True)]
    return table(
        memory.assign(closed=closed, saved=1 - memory["share"]), columns, "Memory of parameters on one machine."
    )


def closed_form(model: str, group: int) -> float | None:
    """The same from the parameters of the model's layers; None for a model that is not known."""
    if model not in MODELS:
        return None
    layers = MODELS[model].layers(None)
    connected = sum(layer.elements() for layer in layers if layer.kind == LINEAR)
    return float(memory_fraction(sum(layer.elements() for layer in layers) - connected, connected, group))


def _splitbrain_figures(fastest: pd.DataFrame) -> tuple[Figure, ...]:
    x, y = Axis("npus", "machines", log=True, format="count"), Axis("speedup", "speed-up", log=True)
    named = fastest.assign(name="K = " + fastest["group"].astype(str))
    figures = []
    for number, (model, subset) in enumerate(named.groupby("model", sort=False), 1):
        counts = sorted(subset["npus"].unique())
        linear = pd.DataFrame({"name": LINEAR, "npus": counts, "speedup": [float(count) for count in counts]})
        chart = lines(subset, x, y, "name", guides=linear)
        figures.append(Figure(f"splitbrain-{number}", f"Speed-up of {model} over one machine", chart))
    return tuple(figures)


def _splitbrain_sentences(memory: pd.DataFrame) -> tuple[str, ...]:
    """What the largest groups save of the memory of the model that saves most."""
    if (memory["group"] > 1).sum() == 0:
        return ()
    least = memory.loc[memory["share"].idxmin()]
    return (
        f"SplitBrain in groups of {least['group']} saves {percent(1 - least['share'])} of the memory of "
        f"{least['model']}'s parameters.",
    )


REPORT_OF_BLOCK: Mapping[str, Callable[[pd.DataFrame], BlockReport]] = MappingProxyType(
    {
        "overlap": overlap,
        "buckets": buckets,
        "panels": panels,
        "scaling": scaling,
        "skipped synchronisation": skipping,
        "splitbrain": splitbrain,
    }
)
"""The section on each block of the experiment, in this order."""
