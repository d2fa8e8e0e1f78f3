"""Steps of published training set-ups: buckets of sharded parameters, growing clusters, and pipelines of four kinds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import pandas as pd

from drawing.iteration_runs import iteration_runs
from themis_opt.base.errors import InputError
from themis_opt.pipelines.comparison import compare
from themis_opt.pipelines.problem import Pipeline
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, lines
from themis_opt.reports.rendering.document import Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import percent, plural, table
from themis_opt.reports.results import gathered, results
from themis_opt.reports.sections import failures, warnings
from themis_opt.schedules.simulator import simulate
from themis_opt.workloads.layers import Routing

PUBLISHED_BUCKETS: Mapping[str, Mapping[str, tuple[int, float]]] = MappingProxyType(
    {
        "buckets": {
            "blocks/baseline": (7852, 12.22),
            "wait_free/baseline": (9369, 10.25),
            "inductor/baseline": (10_535, 10.47),
        },
        "tensor": {
            "blocks/baseline": (1885, 9.09),
            "wait_free/baseline": (2489, 6.72),
            "inductor:max_compute_pre_fetch=0/baseline": (5147, 2.38),
            "inductor/baseline": (3757, 3.43),
        },
    }
)
"""Milliseconds and MFU in percent of https://github.com/pytorch/pytorch/pull/184236, by block and what stands for them.

Llama 3.1 8B on 8 GPUs with FSDP, and with tensor parallelism of 8 alone.  Buckets of blocks written by hand; buckets by
size; those of the automatic pass, which with FSDP took as long as these; the same with the overlap pass.
"""

PUBLISHED_STEPS: Mapping[tuple[str, int], float] = MappingProxyType(
    {("llama-3-405b", 8192): 12.02e9, ("llama-3-405b", 16_384): 6.46e9, ("deepseek-v3", 2048): 19.9e9}
)
"""Nanoseconds of a step, by model and GPUs.

Llama 3, https://arxiv.org/abs/2407.21783, table 4: 430 and 400 TFLOP/s per GPU, over the operations of the model;
DeepSeek-V3, https://arxiv.org/abs/2412.19437, section 1: 180,000 GPU hours for 10^12 tokens, 15,360 sequences of 4096 a
step.
"""

MEASURED_DISPATCHES = (
    ("2", 2, (1, 1), 90), ("2", 4, (1, 1), 61), ("1", 2, (8, 4), 43), ("1", 4, (8, 4), 58), ("1", 8, (8, 4), 51),
)  # fmt: skip
"""Version, nodes of 8 GPUs, groups of experts and how many a token may use, and GB/s of a dispatch.

https://github.com/deepseek-ai/DeepEP, README.md and docs/legacy.md.
"""

ORDERS: tuple[tuple[int, Literal["interleaved", "v"], tuple[str, ...]], ...] = (
    (1, "interleaved", ("gpipe", "1f1b", "zb1p", "zb2p")),
    (2, "v", ("zbv",)),
    (8, "interleaved", ("interleaved",)),
)
"""Parts of a stage, how they lie, and rules for the order of microbatches."""

PASS_OF_A_STAGE = 91_700_000_000  # picoseconds of a forward pass, and of each half of a backward pass
MESSAGE = "700 us"  # activations of one microbatch, divided among the 8 GPUs of a tensor group

SHOWN_POLICIES = ("blocks/baseline", "fsdp2/baseline", "wait_free/baseline")  # beside the best of all

TOKENS, HIDDEN, CARD = 4096, 7168, "50 GB/s"  # of a GPU in those measurements, in FP8


def training(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Show steps of training by block of the experiment.

    Raises
    ------
    InputError
        If no block has a run of an iteration.
    """
    schedules = results(rows)
    runs = iteration_runs(schedules)
    made = [section(part) for block, section in SECTIONS.items() if len(part := runs[runs["block"] == block])]
    if not made:
        raise InputError(f"no run of an iteration in any of the blocks {', '.join(SECTIONS)}", field="column block")
    sentences = [sentence for _, sentence in made]
    sections = tuple(section for group, _ in made for section in group)
    summary = (*sentences, *warnings(rows, schedules))
    return Report(experiment.title, summary, (*sections, *failures(rows)), verdict=sentences[0])


def _buckets(runs: pd.DataFrame) -> tuple[tuple[Section, ...], str]:
    """Policies for sharded parameters on one step, beside published times in the same order."""
    frame, shown = _beside(runs, "buckets")
    both = frame.dropna(subset="published")
    order = "the order" if both["ours"].rank().equals(both["published"].rank()) else "another order"
    sentence = (
        f"Buckets of blocks, by size and of the overlap pass have {order} of the public comparison. The best schedule "
        f"is {_gaps(runs.nsmallest(1, 'makespan_ns'))}."
    )
    text = (
        "Published times are of 8 GPUs that are not described further: their ratios stand beside ours. Where work is "
        "the same, steps are as long as their use of the peak (MFU) is low. The published step and MFU of the overlap "
        "pass contradict each other."
    )
    return (Section("Buckets of sharded parameters", (text,), (shown,)),), sentence


def _tensor(runs: pd.DataFrame) -> tuple[tuple[Section, ...], str]:
    """The same policies where tensors are divided and no parameters are sharded."""
    frame, shown = _beside(runs, "tensor")
    longest = frame["makespan_ns"].max() / frame["makespan_ns"].min()
    published = frame["published"].max()
    sentence = (
        f"With tensor parallelism alone {plural(len(frame), 'policy', 'policies')} differ by {percent(longest - 1)}, "
        f"and the best is {_gaps(frame[:1])}; published up to {published:.2f} times."
    )
    text = (
        "Each exchange lies between one task and the next, so that there is nothing to launch ahead, and nothing to "
        "fuse. Launches do not explain the published differences."
    )
    return (Section("Tensor parallelism of 8 alone", (text,), (shown,)),), sentence


def _beside(runs: pd.DataFrame, block: str) -> tuple[pd.DataFrame, Table]:
    """Policies on one step, with published times and MFU over those of buckets of blocks."""
    policies, known = runs["policy"].astype(str), PUBLISHED_BUCKETS[block]
    times, uses = (policies.map({name: pair[place] for name, pair in known.items()}).astype(float) for place in (0, 1))
    first = runs["makespan_ns"][times.idxmin()] if times.notna().any() else float("nan")
    ratios = {"ours": runs["makespan_ns"] / first, "published": times / times.min(), "by_use": uses.max() / uses}
    frame = runs.assign(**ratios).sort_values("makespan_ns", kind="stable")
    names = ["policy", "makespan_ns", "exposed_ns", "launches", "gap", *ratios]
    columns = (
        Column("policy"), Column("step", "duration"), Column("exposed", "duration"), Column("launches", "count"),
        Column("gap", "percent"), Column("over blocks", "factor"), Column("published", "factor"),
        Column("by published MFU", "factor"),
    )  # fmt: skip
    return frame, table(frame[names], columns)


def _sizes(runs: pd.DataFrame) -> tuple[tuple[Section, ...], str]:
    """Steps over the number of GPUs, for each model, sharded over all GPUs or in groups."""
    ways = [f"{model} {work.get('parallelism')}" for model, work in zip(runs["model"], runs["workload"], strict=True)]
    runs = runs.assign(way=ways)
    keys = ["way", "npus"]
    times = runs.pivot_table(index=keys, columns="policy", values="makespan_ns", observed=True, sort=False)
    best = runs.loc[runs.groupby(keys, sort=False)["makespan_ns"].idxmin()].set_index(keys)
    shown = [policy for policy in SHOWN_POLICIES if policy in times]
    frame = best[["compute_ns"]].join(times[shown]).join(best[["policy", "makespan_ns", "gap"]]).reset_index()
    ends = frame[frame["npus"].isin({frame["npus"].min(), frame["npus"].max()})]
    columns = (
        Column("model"), Column("GPUs", "count"), Column("compute", "duration"),
        *(Column(policy.partition("/")[0], "duration") for policy in shown),
        Column("best"), Column("its step", "duration"), Column("gap", "percent"),
    )  # fmt: skip
    slowdown = gathered(runs.assign(over=runs["makespan_ns"] / runs["compute_ns"]), ["way", "npus", "policy"])
    fsdp2 = slowdown[slowdown["policy"] == "fsdp2/baseline"]
    x, y = Axis("npus", "GPUs", log=True), Axis("over", "step over compute", format="factor")
    figure = Figure("sizes", "A step over its compute, by PyTorch's fully_shard", lines(fsdp2, x, y, "way"))
    text = (
        "2048 tokens for each GPU. Groups of hybrid sharding have 8, 64 and 128 GPUs; half as many do not hold the "
        "larger two models. Llama 3 405B computes activations again, since its GPUs do not hold them."
    )
    sentence = f"From 256 to 16,384 GPUs the best schedule is {_gaps(best)}."
    return (
        Section("More GPUs", (text,), (table(ends, columns),)),
        Section("All numbers of GPUs", (), (table(frame, columns),), (figure,)),
    ), sentence


def _set_ups(runs: pd.DataFrame) -> tuple[tuple[Section, ...], str]:
    """Pipelines with tensor, expert and data parallelism beside what was published."""
    published = [PUBLISHED_STEPS.get(key) for key in zip(runs["model"], runs["npus"], strict=True)]
    frame = runs.assign(published=pd.Series(published, index=runs.index, dtype=float))
    names = ["instance", "npus", "compute_ns", "makespan_ns", "gap", "published"]
    columns = (
        Column("set-up"), Column("NPUs", "count"), Column("compute", "duration"), Column("1F1B", "duration"),
        Column("gap", "percent"), Column("published", "duration"),
    )  # fmt: skip
    text = (
        "One pass of a stage follows another, with its exchanges between. Published steps hide exchanges, "
        "interleave parts of the model on each stage, or run both directions at once. So they should lie between the "
        "compute here, and 1F1B here, whose bubble and exchanges are exposed."
    )
    known = frame.dropna(subset="published").drop_duplicates(["model", "npus"])  # with one part on each stage
    inside = (known["compute_ns"] <= known["published"]) & (known["published"] <= known["makespan_ns"])
    sentence = f"Of {plural(len(known), 'published step')} {inside.sum()} lie between the compute and our 1F1B."
    return (
        Section("Published set-ups", (text,), (table(frame[names], columns),)),
        Section("Orders of microbatches", (), (_orders(),)),
        Section("Experts", (), (_experts(),)),
    ), sentence


def _orders() -> Table:
    """Orders of microbatches for the stages of Llama 3 405B on 16,384 GPUs, each beside the bound of its pipeline."""
    rows = []
    for parts, placement, policies in ORDERS:
        time = f"{PASS_OF_A_STAGE // parts} ps"
        given = {name: [time] for name in ("forward", "inputs", "weights")}
        pipeline = Pipeline(
            stages=16,
            microbatches=16,
            parts=parts,
            placement=placement,
            message=MESSAGE,
            activation=8 // parts,
            **given,
        )
        for policy in policies:
            result = compare(pipeline, [policy]).best
            schedule = result.schedule
            kept = max(schedule.peaks()) / 8
            rows.append((policy, parts, kept, schedule.value / 1e3, schedule.bubble(), result.gap))
    columns = (
        Column("order"), Column("parts of a stage", "count"), Column("microbatches kept", "number"),
        Column("step", "duration"), Column("waiting", "percent"), Column("gap", "percent"),
    )  # fmt: skip
    caption = "The same stages in other orders, without exchanges inside of them: 16 stages, 16 microbatches."
    return Table(columns, tuple(rows), caption)


def _experts() -> Table:
    """Logical bandwidths of dispatches that were measured, beside those of the bytes that leave a node here."""
    rows = []
    for version, nodes, limited, measured in MEASURED_DISPATCHES:
        sent = round(TOKENS * HIDDEN * Routing(256, 8, 1, *limited).places(nodes))
        network = Network(dimensions=(Dimension(kind="switch", size=nodes, bandwidth=CARD),))
        collective = Collective(kind="all_to_all", size=sent, chunks=1, element_bytes=1)
        instance = Instance(network=network, collectives=(collective,))
        ours = sent / (simulate(instance, make_policy("baseline")(instance)).makespan / 1e12)
        rows.append((version, nodes, measured * 1e9, ours, measured * 1e9 / ours))
    columns = (
        Column("DeepEP"), Column("nodes", "count"), Column("measured", "bandwidth"), Column("here", "bandwidth"),
        Column("reached", "percent"),
    )  # fmt: skip
    caption = (
        "Dispatch over cards of 50 GB/s: logical bandwidth counts tokens that stay on their node. Cards, experts (8 of "
        "256) and limits of version 1 to groups are published. Free here: all experts are equally likely, version 2 "
        "has no such limits, start-ups take no time, scales of FP8 values are left out."
    )
    return Table(columns, tuple(rows), caption)


def _gaps(runs: pd.DataFrame) -> str:
    gaps = runs["gap"].dropna()
    if gaps.empty:
        return "without a bound"
    average = f"{percent(gaps.mean())} above the bound"
    return average if len(gaps) == 1 else f"{average} on average, {percent(gaps.max())} at most"


SECTIONS = {"buckets": _buckets, "tensor": _tensor, "sizes": _sizes, "set-ups": _set_ups}
"""What is shown of each block of the experiment."""
