"""What the rows of a report come to, in one sentence for whoever reads no other."""

import pandas as pd

from themis_opt.reports.rendering.tables import percent, plural
from themis_opt.reports.results import SEARCHES, geometric_mean, results, speedups


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
    sentences = ([_best(quick, "Of the policies that do not search, ")] if len(quick) else []) + (
        [_best(searched, "of those that search, " if len(quick) else "Of the searches, ")] if len(searched) else []
    )
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
        near = f"{whose}{best} is nearest to the bound, {percent(gaps[best])} above it in the median of "
        return f"{near}{plural(number, 'instance')}"
    instances = plural(schedules["fingerprint"].nunique(), "instance")
    if len(speeds):
        best = speeds.idxmax()
        return f"{whose}{best} is fastest: {speeds[best]:.2f} times as fast as the fixed order on {instances}"
    return f"{whose}{plural(schedules['label'].nunique(), 'was', 'were')} run on {instances}"
