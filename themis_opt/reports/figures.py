"""Figures for any rows: how near every policy comes to the bound, a duel of the best with the others, bandwidths."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import ITERATION
from themis_opt.reports.rendering.charts import Axis, boxes, ecdf, lines
from themis_opt.reports.rendering.document import Figure, Section
from themis_opt.reports.rendering.tables import tick
from themis_opt.reports.results import geometric_mean

SMALLEST = 1e-6  # smaller gaps are drawn there, since an axis of logarithms has no zero


def figures_section(schedules: pd.DataFrame, names: Sequence[str] | None = None) -> tuple[Section, ...]:
    """A section with figures for any results. Raises InputError if a name is not one of them.

    `schedules`: results, see :mod:`themis_opt.reports.results`.
    `names`: of :data:`FIGURES`, and what cannot be drawn is said; by default all that can be drawn.
    """
    chosen = tuple(FIGURES) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in FIGURES]
    if unknown:
        raise InputError(f"unknown figure; use some of {', '.join(FIGURES)}", field="--figures", value=unknown[0])
    drawn = {name: FIGURES[name].draw(schedules) for name in chosen}
    figures = tuple(figure for figure in drawn.values() if figure is not None)
    text = tuple(f"{name}: {FIGURES[name].needs}." for name, figure in drawn.items() if figure is None) if names else ()
    return (Section("Policies in pictures", text, figures=figures),) if figures or text else ()


def _judged(schedules: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Results with what they lose, to the bound, or where nothing bounds any of them, to the fastest; and its name."""
    if schedules["gap"].notna().any():
        loss, name = schedules["gap"], "gap to the best bound"
    else:
        fastest = schedules.groupby("fingerprint")["makespan_ns"].transform("min")
        loss, name = schedules["makespan_ns"] / fastest - 1, "loss to the fastest policy"
    return schedules.assign(loss=loss.clip(lower=SMALLEST))[loss.notna()], name


_DRAWN_AT = f"Less than {tick(SMALLEST, 'percent')} is drawn there."


def _boxes(schedules: pd.DataFrame) -> Figure | None:
    judged, name = _judged(schedules)
    if judged["fingerprint"].nunique() < 2:
        return None
    chart = boxes(judged, Axis("loss", name, log=True, format="percent"), "label")
    caption = f"Box: quartiles and median; whiskers: 5th and 95th percentile. {_DRAWN_AT}"
    return Figure("policies-boxes", f"{name.capitalize()} by policy", chart, caption)


def _ecdf(schedules: pd.DataFrame) -> Figure | None:
    judged, name = _judged(schedules)
    if judged["fingerprint"].nunique() < 2:
        return None
    chart = ecdf(judged, Axis("loss", name, log=True, format="percent"), "runs with at most this", "label")
    return Figure("policies-ecdf", f"Share of runs up to a {name}", chart, f"Further left is better. {_DRAWN_AT}")


def _duel(schedules: pd.DataFrame) -> Figure | None:
    """The policy with the shortest makespans, by the mean over what it shares with each other one."""
    fastest = schedules.groupby("fingerprint")["makespan_ns"].transform("min")
    losses = (schedules["makespan_ns"] / fastest).groupby(schedules["label"], observed=True).agg(geometric_mean)
    if len(losses) < 2 or schedules["fingerprint"].nunique() < 2:
        return None
    best = losses.idxmin()
    best_runs = (
        schedules[schedules["label"] == best].drop_duplicates("fingerprint", keep="last").set_index("fingerprint")
    )
    others = schedules[schedules["label"] != best]
    ratios = others["fingerprint"].map(best_runs["makespan_ns"]).astype(float) / others["makespan_ns"]
    duels = others.assign(ratio=ratios)[["label", "ratio"]].dropna()
    if duels.empty:
        return None
    equal = pd.DataFrame({"label": "equally fast", "ratio": 1.0, "share": [0.0, 1.0]})
    x = Axis("ratio", f"makespan of {best} over that of the other")
    chart = ecdf(duels, x, "runs with at most this ratio", "label", guides=equal)
    return Figure("policies-duel", f"{best} against the others", chart, f"Left of the line {best} is faster.")


def _algbw(schedules: pd.DataFrame) -> Figure | None:
    known = schedules[(schedules["kind"] != ITERATION) & (schedules["size_bytes"] > 0)]
    if known["size_bytes"].nunique() < 2:
        return None
    known = known.assign(algbw=known["size_bytes"] / known["makespan_ns"])
    medians = known.groupby(["label", "size_bytes"], observed=True)["algbw"].median()
    x, y = Axis("size_bytes", "size", log=True, format="size"), Axis("algbw", "algorithm bandwidth (GB/s)")
    chart = lines(medians.reset_index(), x, y, "label")
    return Figure("policies-algbw", "Algorithm bandwidth by size", chart, "Medians over the runs of a size.")


class _Drawn(NamedTuple):
    """How a figure is made of results, None where it would show nothing, and what it needs of them."""

    draw: Callable[[pd.DataFrame], Figure | None]
    needs: str


_SEVERAL_INSTANCES = "needs results on two or more instances"

FIGURES: Mapping[str, _Drawn] = {
    "boxes": _Drawn(_boxes, _SEVERAL_INSTANCES),
    "ecdf": _Drawn(_ecdf, _SEVERAL_INSTANCES),
    "duel": _Drawn(_duel, "needs two policies with results on the same instances, of which there are two or more"),
    "algbw": _Drawn(_algbw, "needs collectives of two or more sizes"),
}
