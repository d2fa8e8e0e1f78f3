"""Training iterations: figure 12 of the Themis paper, on 24 panels of workload and network."""

from collections.abc import Iterable

import pandas as pd

from drawing.iteration_runs import ideal_times, iteration_runs
from drawing.published import IDEAL, Compared, PaperPart, Published, beside, compared, looked_up
from themis_opt.reports.rendering.charts import Axis, bars
from themis_opt.reports.rendering.document import Column, Figure, Section, Table
from themis_opt.reports.rendering.tables import table
from themis_opt.reports.results import BASELINE, geometric_mean, policy_head

BLOCK = "figure 12"

THEMIS, LARGEST = "themis+scf", "themis+scf_largest"
"""Two readings of smallest chunk first: by the bytes before a stage, and by the larger side of it."""

BEYOND = "hourglass"  # the policy that the paper does not have
COMPARED_POLICIES = ((THEMIS, THEMIS), (LARGEST, THEMIS), (IDEAL, IDEAL))
"""Policies, and those that they are compared with: both readings with the one that was published."""

BAR_PARTS = ("compute", "exposed data", "exposed model")

TOTAL_AND_PARTS = ["total", *BAR_PARTS]
"""Columns of nanoseconds of a bar, and, with ``over`` before the name, of the same over the fixed order's iteration."""


def figure_12(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Iteration times relative to the fixed order, and what they are made of."""
    runs = iteration_runs(schedules[schedules["block"] == BLOCK])
    if runs.empty:
        return None
    drawn = _bars(runs, ideal_times(rows), published)
    workloads = list(drawn.groupby("workload", observed=True))
    speed = _speedups(drawn, published)
    exposed = _less_exposed(drawn, published)
    tables = (_speedup_table(speed), _exposed_table(exposed), *(_bar_table(name, subset) for name, subset in workloads))
    figures = [_bar_figure(number, name, subset, published) for number, (name, subset) in enumerate(workloads, 1)]
    figures += [_part_figure(number, name, subset) for number, (name, subset) in enumerate(workloads, 1)]
    text = (
        "Iteration times over that of the fixed order. Compute is the same for all policies; the rest is communication "
        "that the NPUs wait for, of data parallelism or of model parallelism. The ideal uses all bandwidth. "
        "Parts are means over the networks.",
        f"{THEMIS} puts the chunk with the fewest bytes before its stage first, {LARGEST} the one whose larger side is "
        "least; the paper leaves both readings open.",
    )
    off = _total_errors(drawn, published)
    section = Section("Fig. 12: training iterations", text, tables, tuple(figures))
    sentences = _sentences(drawn, exposed, published)
    return PaperPart(section, (*off, *_mean_errors(speed, exposed, published)), tuple(sentences))


def _bars(runs: pd.DataFrame, ideals: dict[str, float], published: Published) -> pd.DataFrame:
    """One row for each bar: its panel and policy, its parts, and what was published of it."""
    ours = runs.drop_duplicates(["fingerprint", "chunk_policy"], keep="last")
    ours = pd.DataFrame(
        {
            "panel": ours["fingerprint"],
            "workload": _titles(ours["instance"], published),
            "network": ours["network"],
            "policy": ours["chunk_policy"],
            "compute": ours["compute_ns"],
            "exposed data": ours["exposed_data_ns"],
            "exposed model": ours["exposed_model_ns"],
        }
    )
    ideal = ours.drop_duplicates("panel").assign(**{"policy": IDEAL, "exposed model": float("nan")})
    ideal["exposed data"] = ideal["panel"].map(ideals) - ideal["compute"]
    drawn = pd.concat([ours, ideal.dropna(subset="exposed data")], ignore_index=True)
    for name in ("panel", "workload", "policy"):
        drawn[name] = pd.Categorical(drawn[name], categories=drawn[name].unique())
    return _relative(drawn).assign(published=_published(drawn, drawn["policy"], published))


def _published(drawn: pd.DataFrame, policies: Iterable[str], published: Published) -> "pd.Series[float]":
    """The published totals of policies in the panels of bars."""
    totals = looked_up(published.bar_totals(), drawn["workload"], drawn["network"], policies)
    return pd.Series(totals, drawn.index, dtype=float)


def _titles(instances: pd.Series, published: Published) -> pd.Series:
    """Workloads as they are called in the paper."""
    titles = {name.lower(): name for name in (*published.figure_12_parts, *published.figure_12_speedup)}
    return instances.map(lambda instance: instance.rpartition(".")[2]).map(lambda name: titles.get(name, name))


def _relative(drawn: pd.DataFrame) -> pd.DataFrame:
    """Bars beside that of the fixed order in their panel."""
    exposed = drawn["exposed data"] + drawn["exposed model"].fillna(0.0)
    drawn = drawn.assign(exposed=exposed, total=drawn["compute"] + exposed)
    fixed = drawn[drawn["policy"].map(policy_head) == BASELINE].drop_duplicates("panel").set_index("panel")
    whole = drawn["panel"].astype(str).map(fixed["total"])
    waits = drawn["panel"].astype(str).map(fixed["exposed"])
    return drawn.assign(
        **{f"over {name}": drawn[name] / whole for name in TOTAL_AND_PARTS},
        speedup=whole / drawn["total"],
        less_exposed=waits / exposed.where(exposed > 0),
        is_baseline=drawn["policy"].map(policy_head) == BASELINE,
    )


def _speedups(drawn: pd.DataFrame, published: Published) -> pd.DataFrame:
    """Mean and largest speed-up by workload and policy, beside what was published."""
    others = drawn[~drawn["is_baseline"] & drawn["speedup"].notna()]
    groups = others.groupby(["workload", "policy"], observed=True)["speedup"]
    speed = groups.agg(mean=geometric_mean, largest="max").reset_index()
    is_read = speed["policy"].isin((THEMIS, LARGEST))
    workload = speed["workload"].astype(str)
    ideal = workload.map(published.figure_12_ideal).where(speed["policy"] == IDEAL)
    speed.insert(3, "published", workload.map(published.figure_12_speedup).where(is_read, ideal))
    return speed.assign(published_most=workload.map(published.figure_12_most).where(is_read))


def _less_exposed(drawn: pd.DataFrame, published: Published) -> pd.DataFrame:
    """How many times less communication is exposed by policy, beside what was published."""
    known = drawn[~drawn["is_baseline"] & drawn["less_exposed"].notna()]
    means = known.groupby("policy", observed=True)["less_exposed"].agg(geometric_mean).reset_index(name="mean")
    return means.assign(published=means["policy"].astype(str).map(published.figure_12_less_exposed))


def _speedup_table(speed: pd.DataFrame) -> Table:
    columns = (
        Column("workload"),
        Column("policy"),
        Column("speed-up", "factor"),
        Column("published", "factor"),
        Column("largest", "factor"),
        Column("published", "factor"),
    )
    return table(speed, columns, "Speed-up over the fixed order, as a geometric mean over networks.")


def _exposed_table(exposed: pd.DataFrame) -> Table:
    columns = (Column("policy"), Column("less exposed", "factor"), Column("published", "factor"))
    caption = "How many times less communication is exposed, as a geometric mean over all panels."
    return table(exposed, columns, caption)


def _bar_table(workload: str, drawn: pd.DataFrame) -> Table:
    columns = (
        Column("network"),
        Column("policy"),
        Column("time", "duration"),
        *(Column(name, "percent") for name in (*TOTAL_AND_PARTS, "published total")),
    )
    shown = ["network", "policy", "total", *(f"over {name}" for name in TOTAL_AND_PARTS), "published"]
    caption = f"{workload}: parts of the iteration, over that of the fixed order. The ideal's waits are not split."
    return table(drawn.sort_values(["panel", "policy"])[shown], columns, caption)


def _bar_figure(number: int, workload: str, drawn: pd.DataFrame, published: Published) -> Figure:
    ours = drawn.sort_values("policy", kind="stable").assign(share=drawn["over total"]).astype({"policy": str})
    panels = drawn.drop_duplicates("panel")
    theirs = [
        panels.assign(policy=f"{policy}, published", share=_published(panels, [policy] * len(panels), published))
        for policy in (THEMIS, IDEAL)
    ]
    heights = pd.concat([ours, *theirs])[["policy", "network", "share"]].dropna()
    means = heights.groupby("policy", sort=False)["share"].agg(geometric_mean).reset_index()
    axis = Axis("share", "iteration time over baseline", format="percent")
    chart = bars(pd.concat([heights, means.assign(network="geometric mean")]), "network", axis, "policy")
    return Figure(f"figure-12-{number}", f"Iteration time of {workload}, relative to the fixed order", chart)


def _part_figure(number: int, workload: str, drawn: pd.DataFrame) -> Figure:
    """What an iteration is made of, as means over the networks."""
    shares = {name: drawn[f"over {name}"].fillna(0.0) for name in BAR_PARTS}
    known = drawn[["policy"]].assign(**shares)[(drawn["policy"] != IDEAL) & drawn["over total"].notna()]
    means = known.groupby("policy", observed=True).mean().reset_index()
    parts = means.melt("policy", var_name="part", value_name="share")
    axis = Axis("share", "over the baseline's iteration", format="percent")
    chart = bars(parts, "policy", axis, "part", stacked=True)
    return Figure(f"figure-12-parts-{number}", f"Parts of an iteration of {workload}", chart)


def _total_errors(drawn: pd.DataFrame, published: Published) -> tuple[Compared, ...]:
    """Whole bars, and their compute."""
    off: tuple[Compared, ...] = ()
    for policy, theirs in COMPARED_POLICIES:
        subset = drawn[drawn["policy"] == policy]
        pairs = zip(subset["over total"], _published(subset, [theirs] * len(subset), published), strict=True)
        off += compared("Fig. 12", f"time over baseline, {policy}", pairs)
    fixed = drawn[drawn["is_baseline"]]
    computes = looked_up(published.bar_computes(), fixed["workload"], fixed["network"])
    return off + compared("Fig. 12", "compute over baseline", zip(fixed["over compute"], computes, strict=True))


def _mean_errors(speed: pd.DataFrame, exposed: pd.DataFrame, published: Published) -> tuple[Compared, ...]:
    """Mean speed-ups of the workloads, and how much less is exposed."""
    off: tuple[Compared, ...] = ()
    for policy, theirs in COMPARED_POLICIES:
        subset = speed[speed["policy"] == policy]
        off += compared("Fig. 12", f"mean speed-up, {policy}", zip(subset["mean"], subset["published"], strict=True))
        means = exposed[exposed["policy"] == policy]["mean"]
        pairs = [(mean, published.figure_12_less_exposed.get(theirs)) for mean in means]
        off += compared("Fig. 12", f"less exposed, {policy}", pairs)
    return off


def _sentences(drawn: pd.DataFrame, exposed: pd.DataFrame, published: Published) -> list[str]:
    sentences = []
    means, known = (exposed.set_index("policy")[name] for name in ("mean", "published"))
    shown = [
        f"{policy} {means[policy]:.2f} times{beside(known[policy])}" for policy in (THEMIS, BEYOND) if policy in means
    ]
    if shown:
        sentences.append(f"Fig. 12, less exposed communication: {', '.join(shown)}.")
    expected, panels = len(published.table_2) * len(published.figure_12_speedup), drawn["panel"].nunique()
    if panels < expected:
        sentences.append(f"Fig. 12: published means are over {expected} panels, those here over {panels}.")
    return sentences
