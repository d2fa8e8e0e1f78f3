"""The report for any rows: the policies side by side, and the best one on every instance."""

import pandas as pd

from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.figures import figures_section
from themis_opt.reports.rendering.document import Column, Report, Section
from themis_opt.reports.rendering.tables import percent, plural
from themis_opt.reports.rendering.tables import table as as_table
from themis_opt.reports.results import BASELINE, geometric_mean, results, speedups
from themis_opt.reports.sections import MOST_LISTED_ROWS, failures, optimal_sentence, policy_tables, unbounded, warnings

BEST_COLUMNS = (
    Column("instance"),
    Column("size", "size"),
    Column("chunks", "count"),
    Column("best policy"),
    Column("makespan", "duration"),
    Column("utilisation", "percent"),
    Column("speed-up", "factor"),
    Column("gap", "percent"),
)

BEST_FIELDS = ["instance", "size_bytes", "chunks", "label", "makespan_ns", "utilisation", "speedup", "gap"]


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
    return Report(experiment.title, summary, (policies, *figures_section(schedules), _instances(best), *failures(rows)))


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
        best = best.assign(loss=best["gap"].fillna(0)).sort_values("loss", ascending=False, kind="stable")[
            :MOST_LISTED_ROWS
        ]
    return Section("Best policy on every instance", (text,), (as_table(best[BEST_FIELDS], BEST_COLUMNS),))
