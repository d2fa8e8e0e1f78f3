"""Figures for any rows: how near every policy comes to the bound, a duel of the best with the others, bandwidths."""

from collections.abc import Iterator

import pandas as pd

from themis_opt.batches.expansion import ITERATION
from themis_opt.reports.rendering.charts import Axis, boxes, ecdf, lines
from themis_opt.reports.rendering.document import Figure, Section
from themis_opt.reports.rendering.tables import tick
from themis_opt.reports.results import geometric_mean

SMALLEST = 1e-6  # smaller gaps are drawn there, since an axis of logarithms has no zero


def figures_section(schedules: pd.DataFrame) -> tuple[Section, ...]:
    """A section with the figures that can be drawn of results, see :mod:`themis_opt.reports.results`."""
    figures = tuple(figure for draw in (_losses, _duel, _algbw) for figure in draw(schedules))
    return (Section("Policies in pictures", figures=figures),) if figures else ()


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
