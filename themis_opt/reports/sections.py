"""Sections, tables, sentences and figures that several reports share."""

from collections.abc import Iterator, Mapping

import pandas as pd

from themis_opt.batches.expansion import ITERATION
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, boxes, ecdf, lines
from themis_opt.reports.rendering.document import Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import percent, plural, tick
from themis_opt.reports.rendering.tables import table as as_table
from themis_opt.reports.results import BASELINE, BOUND_ROUNDING, SEARCHES, geometric_mean, results, speedups

MOST_LISTED_ROWS = 200  # rows of a table that would else grow with the experiment


def policy_tables(schedules: pd.DataFrame) -> tuple[Table, ...]:
    """Every policy: its runs, its speed-up over the fixed order, its gaps.

    If the policies ran different instances, a second table has only those that all of them ran.
    """
    common = schedules[_is_common(schedules)]
    number = common["fingerprint"].nunique()
    if number in (0, schedules["fingerprint"].nunique()):
        return (_policy_table(schedules),)
    caption = f"The same on the {plural(number, 'instance')} that all policies ran."
    return (_policy_table(schedules), _policy_table(common, caption))


def coverage(schedules: pd.DataFrame) -> tuple[str, ...]:
    """A sentence of warning if the policies ran different instances."""
    if _is_common(schedules).all():
        return ()
    return ("Not every policy ran every instance; means are over those that it ran.",)


def _is_common(schedules: pd.DataFrame) -> pd.Series:
    """Whether all policies ran the instance of each result."""
    labels = schedules.groupby("fingerprint")["policy" if schedules.empty else "label"]
    return labels.transform("nunique") == schedules["label"].nunique()


def _policy_table(schedules: pd.DataFrame, caption: str = "") -> Table:
    gaps = (Column(f"{which} gap", "percent") for which in ("median", "mean", "largest"))
    first = Column("policy"), Column("runs", "count"), Column("speed-up", "factor")
    columns = (*first, *gaps, Column("proven optimal", "count"))
    policies = schedules.assign(speedup=speedups(schedules)).groupby("label", observed=True)
    frame = policies.agg(
        runs=("gap", "size"),
        speedup=("speedup", geometric_mean),
        median=("gap", "median"),
        mean=("gap", "mean"),
        largest=("gap", "max"),
        optimal=("is_optimal", "sum"),
    )
    return as_table(frame.reset_index(), columns, caption)


def optimal_sentence(schedules: pd.DataFrame) -> str:
    """How many instances have a schedule that is proven optimal."""
    is_optimal = schedules.groupby("fingerprint")["is_optimal"].any()
    portion = is_optimal.mean() if len(is_optimal) else 0.0
    counted = f"{is_optimal.sum()} of {plural(len(is_optimal), 'instance')} ({percent(portion)})"
    return f"{counted} have a schedule within 0.01 % of a proven bound."


def warnings(rows: pd.DataFrame, schedules: pd.DataFrame) -> list[str]:
    """What a reader must know before trusting the numbers: contradictions, and runs that have no result."""
    below = int((schedules["gap"] < -BOUND_ROUNDING).sum())
    counts = {status: int((rows["status"] == status).sum()) for status in ("failed", "interrupted")}
    left_out = [plural(number, f"{status} run") for status, number in counts.items() if number]
    sentences = [f"Left out: {', '.join(left_out)}."] if left_out else []
    if below:
        sentences.append(f"{plural(below, 'makespan')} below a bound, which is a bug: these numbers cannot be trusted.")
    return sentences


def unbounded(schedules: pd.DataFrame) -> list[str]:
    """A sentence on makespans that have no gap, because nothing bounds them."""
    number = int(schedules["gap"].isna().sum())
    return [f"{plural(number, 'makespan')} without a bound: no gap is known."] if number else []


def failures(rows: pd.DataFrame) -> tuple[Section, ...]:
    """A section on runs that failed, if there are any."""
    failed = rows[rows["status"] == "failed"]
    if failed.empty:
        return ()
    columns = (
        Column("instance"),
        Column("chunks", "count"),
        Column("policy"),
        Column("seed", "count"),
        Column("error"),
    )
    shown = failed[["instance", "chunks", "policy", "seed", "error"]].head(MOST_LISTED_ROWS)
    more = (f"The first {MOST_LISTED_ROWS} of {len(failed)}.",) if len(failed) > MOST_LISTED_ROWS else ()
    return (Section("Failed runs", more, (as_table(shown, columns),)),)


def verdict(rows: pd.DataFrame) -> str:
    """Which policy that does not search is nearest to the bound or fastest, by how much, and what searching adds.

    Policies are those that ran at least half as many instances as any other, on the instances that all of them ran.
    Empty where no run has a makespan.
    """
    schedules = results(rows)
    schedules = schedules[schedules["gap"].notna()] if schedules["gap"].notna().any() else schedules
    schedules = schedules.assign(speedup=speedups(schedules)) if len(schedules) else schedules
    searches = schedules["head"].isin(SEARCHES)
    quick, searched = (_comparable(part) for part in (schedules[~searches], schedules[searches]))
    sentences = [_best(quick, "Of the policies that do not search, ")] if len(quick) else []
    if len(searched):
        sentences.append(_best(searched, "of those that search, " if sentences else "Of the searches, "))
    return f"{'; '.join(sentences)}." if sentences else ""


def _comparable(schedules: pd.DataFrame) -> pd.DataFrame:
    """The results of policies that ran many instances, on those that all of them ran if there are any."""
    if schedules.empty:
        return schedules
    counts = schedules.groupby("label", observed=True)["fingerprint"].nunique()
    often = schedules[schedules["label"].isin(counts.index[counts >= counts.max() / 2])]
    policies = often.groupby("fingerprint")["label"].nunique()
    common = often[often["fingerprint"].map(policies) == often["label"].nunique()]
    return often if common.empty else common


def _best(schedules: pd.DataFrame, whose: str) -> str:
    """The best policy by its median gap or, where no bound is known, by its speed."""
    policies = schedules.groupby("label", observed=True)
    gaps = policies["gap"].median().dropna()
    speeds = policies["speedup"].agg(geometric_mean).dropna()
    if len(gaps):
        best = gaps.idxmin()
        number = policies["fingerprint"].nunique()[best]
        which = f"{'in the median of' if number > 1 else 'on'} {plural(number, 'instance')}"
        return f"{whose}{best} is nearest to the bound, {percent(gaps[best])} above it {which}"
    instances = plural(schedules["fingerprint"].nunique(), "instance")
    if len(speeds):
        best = speeds.idxmax()
        return f"{whose}{best} is fastest: {speeds[best]:.2f} times as fast as the fixed order on {instances}"
    return f"{whose}{plural(schedules['label'].nunique(), 'was', 'were')} run on {instances}"


BEST_COLUMNS: Mapping[str, Column] = {
    "instance": Column("instance"),
    "size_bytes": Column("size", "size"),
    "chunks": Column("chunks", "count"),
    "label": Column("best policy"),
    "makespan_ns": Column("makespan", "duration"),
    "utilisation": Column("utilisation", "percent"),
    "speedup": Column("speed-up", "factor"),
    "gap": Column("gap", "percent"),
}


def table(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Compare all policies of the rows."""
    schedules = results(rows)
    schedules = schedules.assign(speedup=speedups(schedules))
    best = schedules.loc[schedules.groupby("fingerprint", sort=False)["makespan_ns"].idxmin()]
    text = (
        "Speed-up is over the fixed order, as a geometric mean over the instances that both ran. A gap is makespan "
        "over the best proven bound that holds for the chunk sizes of the run, minus 1.",
    )
    policies = Section("Policies", text, policy_tables(schedules))
    summary = (*_summary(schedules, best), *warnings(rows, schedules))
    figures = tuple(figure for draw in (_losses, _duel, _algbw) for figure in draw(schedules))
    pictures = (Section("Policies in pictures", figures=figures),) if figures else ()
    return Report(experiment.title, summary, (policies, *pictures, _instances(best), *failures(rows)))


def _summary(schedules: pd.DataFrame, best: pd.DataFrame) -> list[str]:
    sentences = [
        f"{plural(len(schedules), 'schedule')} by {plural(schedules['label'].nunique(), 'policy', 'policies')} on "
        f"{plural(len(best), 'instance')}."
    ]
    others = schedules[schedules["head"] != BASELINE]
    means = others.groupby("label", observed=True)["speedup"].agg(geometric_mean).dropna()
    if len(means):
        sentences.append(
            f"{means.idxmax()} is fastest: {means.max():.3f} times as fast as the fixed order, as a geometric mean."
        )
    wins = best.groupby("label", observed=True, sort=False).size().sort_values(ascending=False, kind="stable")
    sentences += [
        f"{name} has the shortest makespan on {plural(number, 'instance')}." for name, number in wins[:3].items()
    ]
    if schedules["gap"].notna().any():
        sentences += [optimal_sentence(schedules), *unbounded(schedules)]
    if best["gap"].notna().any():
        sentences.append(f"The largest gap of a best schedule is {percent(best['gap'].max())}.")
    return sentences


def _instances(best: pd.DataFrame) -> Section:
    text = "The shortest makespan of all policies."
    if len(best) > MOST_LISTED_ROWS:
        text += f" Only the {MOST_LISTED_ROWS} of {len(best)} instances with the largest gaps."
        losses = best["gap"].fillna(0).sort_values(ascending=False, kind="stable")
        best = best.loc[losses.index[:MOST_LISTED_ROWS]]
    table = as_table(best[list(BEST_COLUMNS)], tuple(BEST_COLUMNS.values()))
    return Section("Best policy on every instance", (text,), (table,))


SMALLEST = 1e-6  # smaller gaps are drawn there, since an axis of logarithms has no zero


def _judged(schedules: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Results with what they lose, to the bound, or where nothing bounds any of them, to the fastest; and its name."""
    if schedules["gap"].notna().any():
        loss, name = schedules["gap"], "gap to the best bound"
    else:
        fastest = schedules.groupby("fingerprint")["makespan_ns"].transform("min")
        loss, name = schedules["makespan_ns"] / fastest - 1, "loss to the fastest policy"
    return schedules.assign(loss=loss.clip(lower=SMALLEST))[loss.notna()], name


def _losses(schedules: pd.DataFrame) -> Iterator[Figure]:
    """Boxes and distributions of what policies lose."""
    judged, name = _judged(schedules)
    if judged["fingerprint"].nunique() < 2:
        return
    axis, drawn_at = (
        Axis("loss", name, log=True, format="percent"),
        f"Less than {tick(SMALLEST, 'percent')} is drawn there.",
    )
    caption = f"Box: quartiles and median; whiskers: 5th and 95th percentile. {drawn_at}"
    yield Figure("policies-boxes", f"{name.capitalize()} by policy", boxes(judged, axis, "label"), caption)
    chart = ecdf(judged, axis, "runs with at most this", "label")
    yield Figure("policies-ecdf", f"Share of runs up to a {name}", chart, f"Further left is better. {drawn_at}")


def _duel(schedules: pd.DataFrame) -> Iterator[Figure]:
    """The policy with the shortest makespans, by the mean over what it shares with each other one."""
    fastest = schedules.groupby("fingerprint")["makespan_ns"].transform("min")
    losses = (schedules["makespan_ns"] / fastest).groupby(schedules["label"], observed=True).agg(geometric_mean)
    if len(losses) < 2 or schedules["fingerprint"].nunique() < 2:
        return
    best = losses.idxmin()
    best_runs = schedules[schedules["label"] == best].drop_duplicates("fingerprint", keep="last")
    best_runs = best_runs.set_index("fingerprint")
    others = schedules[schedules["label"] != best]
    ratios = others["fingerprint"].map(best_runs["makespan_ns"]).astype(float) / others["makespan_ns"]
    duels = others.assign(ratio=ratios)[["label", "ratio"]].dropna()
    if duels.empty:
        return
    equal = pd.DataFrame({"label": "equally fast", "ratio": 1.0, "share": [0.0, 1.0]})
    x = Axis("ratio", f"makespan of {best} over that of the other")
    chart = ecdf(duels, x, "runs with at most this ratio", "label", guides=equal)
    yield Figure("policies-duel", f"{best} against the others", chart, f"Left of the line {best} is faster.")


def _algbw(schedules: pd.DataFrame) -> Iterator[Figure]:
    known = schedules[(schedules["kind"] != ITERATION) & (schedules["size_bytes"] > 0)]
    if known["size_bytes"].nunique() < 2:
        return
    known = known.assign(algbw=known["size_bytes"] / known["makespan_ns"])
    medians = known.groupby(["label", "size_bytes"], observed=True)["algbw"].median()
    x, y = Axis("size_bytes", "size", log=True, format="size"), Axis("algbw", "algorithm bandwidth (GB/s)")
    chart = lines(medians.reset_index(), x, y, "label")
    yield Figure("policies-algbw", "Algorithm bandwidth by size", chart, "Medians over the runs of a size.")
