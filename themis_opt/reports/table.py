"""The report for any rows: the policies side by side, and the best one on every instance."""

import pandas as pd

from themis_opt.reports.experiment import Experiment
from themis_opt.reports.figures import figures_section
from themis_opt.reports.rendering.document import Column, Report, Section
from themis_opt.reports.rendering.tables import percent, plural
from themis_opt.reports.rendering.tables import table as as_table
from themis_opt.reports.results import BASELINE, geometric_mean, results, speedups
from themis_opt.reports.sections import MOST_ROWS, failures, optimal_sentence, policy_tables, unbounded, warnings

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


def table(rows: pd.DataFrame, experiment: Experiment) -> Report:
    """Compare all policies of the rows."""
    found = results(rows)
    found = found.assign(speedup=speedups(found))
    best = found.loc[found.groupby("fingerprint", sort=False)["makespan_ns"].idxmin()]
    text = (
        "Speed-up is over the fixed order, as a geometric mean over the instances that both ran. A gap is makespan "
        "over the best proven bound that holds for the chunk sizes of the run, minus 1.",
    )
    policies = Section("Policies", text, policy_tables(found))
    summary = (*_summary(found, best), *warnings(rows, found))
    return Report(experiment.title, summary, (policies, *figures_section(found), _instances(best), *failures(rows)))


def _summary(found: pd.DataFrame, best: pd.DataFrame) -> list[str]:
    said = [
        f"{plural(len(found), 'schedule')} by {plural(found['label'].nunique(), 'policy', 'policies')} on "
        f"{plural(len(best), 'instance')}."
    ]
    others = found[found["head"] != BASELINE]
    means = others.groupby("label", observed=True)["speedup"].agg(geometric_mean).dropna()
    if len(means):
        said.append(
            f"{means.idxmax()} is fastest: {means.max():.3f} times as fast as the fixed order, as a geometric mean."
        )
    wins = best.groupby("label", observed=True, sort=False).size().sort_values(ascending=False, kind="stable")
    said += [f"{name} has the shortest makespan on {plural(number, 'instance')}." for name, number in wins[:3].items()]
    if found["gap"].notna().any():
        said += [optimal_sentence(found), *unbounded(found)]
    if best["gap"].notna().any():
        said.append(f"The largest gap of a best schedule is {percent(best['gap'].max())}.")
    return said


def _instances(best: pd.DataFrame) -> Section:
    text = "The shortest makespan of all policies."
    if len(best) > MOST_ROWS:
        text += f" Only the {MOST_ROWS} of {len(best)} instances with the largest gaps."
        best = best.assign(loss=best["gap"].fillna(0)).sort_values("loss", ascending=False, kind="stable")[:MOST_ROWS]
    return Section("Best policy on every instance", (text,), (as_table(best[BEST_FIELDS], BEST_COLUMNS),))
