"""Policies on random networks: how their gaps are distributed, and how much of Themis's loss each one leaves."""

import pandas as pd

from drawing.grid import SMALLEST_GAP
from themis_opt.policies.registry import REFERENCE
from themis_opt.reports.rendering.charts import Axis, boxes, ecdf
from themis_opt.reports.rendering.document import Column, Figure, Section
from themis_opt.reports.rendering.tables import percent, plural, table, tick
from themis_opt.reports.results import SEARCHES
from themis_opt.reports.sections import policy_tables

HEURISTIC, RIVAL_POLICY = "hourglass", "themis+scf"

EQUALLY_FAST = 1e-6  # relative difference up to which two makespans are equal
LEAST_LOSS = 0.005
"""Loss of the rival to the reference from which it can be shared out: less is within the doubt about the reference."""

MOST_REMAINING = 2.0  # shares of that loss above are drawn here: what matters is below 1


def random_sections(schedules: pd.DataFrame) -> tuple[Section, ...]:
    """The distributions of gaps, run-time policies network by network, and what they lose to the reference."""
    return (
        _gaps(schedules),
        *_duel_section(_duels(schedules)),
        *_remaining_section(_remaining_losses(schedules)),
    )


def random_summary(schedules: pd.DataFrame) -> list[str]:
    """How often the heuristic beats its rival, and how much of the rival's loss it leaves."""
    sentences = []
    ratios = _duels(schedules)
    ratio = ratios[ratios["label"] == RIVAL_POLICY]["ratio"]
    if len(ratio):
        wins = int((ratio <= 1 + EQUALLY_FAST).sum())
        on = f"{wins} of {plural(len(ratio), 'random network')}"
        sentences.append(f"{HEURISTIC} is at least as fast as {RIVAL_POLICY} on {on}.")
    remaining = _remaining_losses(schedules)
    losses = remaining[remaining["label"] == HEURISTIC]["share"]
    if len(losses):
        sentences.append(
            f"Where {RIVAL_POLICY} loses time to the best known schedule, {HEURISTIC} leaves "
            f"{percent(losses.median())} of that loss (median of {plural(len(losses), 'network')})."
        )
    return sentences


def _gaps(schedules: pd.DataFrame) -> Section:
    text = (
        "A gap is makespan over the best proven lower bound that holds for the chunk sizes of the run, minus 1. "
        f"Gaps below {tick(SMALLEST_GAP, 'percent')} are drawn there.",
    )
    axis = Axis("gap", "gap to the best bound", log=True, format="percent")
    drawn = schedules[schedules["gap"].notna()].assign(gap=schedules["gap"].clip(lower=SMALLEST_GAP))
    box_caption = "Box: quartiles and median; whiskers: 5th and 95th percentile."
    curves = ecdf(drawn, axis, "networks with at most this gap", "label")
    figures = (
        Figure("gap-boxes", "Gaps on random networks", boxes(drawn, axis, "label"), box_caption),
        Figure("gap-distribution", "Share of networks up to a gap", curves, "Further left is better."),
    )
    return Section("Random networks", text, policy_tables(schedules), figures)


def _makespans(schedules: pd.DataFrame, policy: str) -> pd.Series:
    """Makespan of a policy on every network that it ran, by fingerprint."""
    return (
        schedules[schedules["policy"] == policy]
        .drop_duplicates("fingerprint", keep="last")
        .set_index("fingerprint")["makespan_ns"]
    )


def _duels(schedules: pd.DataFrame) -> pd.DataFrame:
    """Makespan of the heuristic over that of each other policy that does not search, on every network both ran."""
    rivals = schedules[~schedules["head"].isin((*SEARCHES, HEURISTIC))]
    ratios = rivals["fingerprint"].map(_makespans(schedules, HEURISTIC)).astype(float) / rivals["makespan_ns"]
    return rivals.assign(ratio=ratios)[["label", "ratio"]].dropna()


def _duel_section(ratios: pd.DataFrame) -> tuple[Section, ...]:
    if ratios.empty:
        return ()
    columns = (
        Column("against"),
        Column("networks", "count"),
        Column("at least as fast", "count"),
        Column("equally fast", "count"),
        Column("slower", "count"),
        Column("worst ratio", "factor"),
    )
    ratio = ratios["ratio"]
    outcomes = ratios.assign(
        wins=ratio <= 1 + EQUALLY_FAST, equal=(ratio - 1).abs() <= EQUALLY_FAST, losses=ratio > 1 + EQUALLY_FAST
    ).groupby("label", observed=True)
    counts = outcomes.agg(
        networks=("ratio", "size"), wins=("wins", "sum"), equal=("equal", "sum"), losses=("losses", "sum"),
        worst=("ratio", "max"),
    )  # fmt: skip
    equally_fast = pd.DataFrame({"label": "equally fast", "ratio": 1.0, "share": [0.0, 1.0]})
    x, title = Axis("ratio", "ratio of makespans"), f"Makespan of {HEURISTIC} over that of other policies"
    chart = ecdf(ratios, x, "networks with at most this ratio", "label", guides=equally_fast)
    figure = Figure("duel", title, chart, f"Left of the line {HEURISTIC} is faster.")
    text = f"Makespans within {EQUALLY_FAST:g} of each other count as equal."
    return (Section(f"{HEURISTIC} against the others", (text,), (table(counts.reset_index(), columns),), (figure,)),)


def _remaining_losses(schedules: pd.DataFrame) -> pd.DataFrame:
    """What every policy leaves of the rival's loss to the reference: 0 is the reference, 1 the rival.

    Only networks where the reference policy ran and the rival loses more than :data:`LEAST_LOSS` to the best
    known makespan count.
    """
    is_reference = schedules["head"] == REFERENCE
    searched = schedules[schedules["fingerprint"].isin(schedules["fingerprint"][is_reference])]
    best = searched.groupby("fingerprint")["makespan_ns"].min()
    loss = _makespans(schedules, RIVAL_POLICY) - best
    loss = loss[loss > LEAST_LOSS * best.reindex(loss.index)]
    others = schedules[~is_reference]
    known, losses = (others["fingerprint"].map(numbers).astype(float) for numbers in (best, loss))
    shares = (others["makespan_ns"] - known) / losses
    return others.assign(share=shares)[["label", "share"]].dropna()


def _remaining_section(remaining: pd.DataFrame) -> tuple[Section, ...]:
    if remaining.empty:
        return ()
    names = ("policy", "networks", "median", "mean", "90th percentile", "largest")
    columns = tuple(Column(name, form) for name, form in zip(names, ("text", "count", *["percent"] * 4), strict=True))
    rows = remaining.groupby("label", observed=True)["share"].agg(
        ["size", "median", "mean", ("p90", lambda values: values.quantile(0.9)), "max"]
    )
    text = (
        f"On a sample of the networks a search looked for the best schedule. Where {RIVAL_POLICY} takes more than "
        f"{tick(LEAST_LOSS, 'percent')} longer than the best known schedule, this is how much of that loss each policy "
        "leaves.",
    )
    tables = (table(rows.reset_index(), columns),)
    return (Section(f"What remains of the loss of {RIVAL_POLICY}", text, tables, _remaining_figures(remaining)),)


def _remaining_figures(remaining: pd.DataFrame) -> tuple[Figure, ...]:
    """The distribution of what remains, of all policies but the rival, of which all remains."""
    drawn = remaining[remaining["label"] != RIVAL_POLICY]
    if drawn.empty:
        return ()
    drawn = drawn.assign(share_left=drawn["share"].clip(upper=MOST_REMAINING))
    x = Axis("share_left", f"(makespan - best known) / (makespan of {RIVAL_POLICY} - best known)", format="percent")
    most = tick(MOST_REMAINING, "percent")
    caption = f"0 % is the best known schedule, 100 % {RIVAL_POLICY}. Shares above {most} are drawn there."
    chart = ecdf(drawn, x, "networks with at most this share", "label")
    return (Figure("remaining-loss", f"Share of the loss of {RIVAL_POLICY} that remains", chart, caption),)
