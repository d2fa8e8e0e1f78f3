"""Seconds of simulation, policies and solver as instances grow."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, lines
from themis_opt.reports.rendering.document import CellValue, Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import plural, seconds
from themis_opt.reports.results import SEARCHES, policy_head, results
from themis_opt.reports.sections import failures, warnings

SIMULATION = "simulation"
GUIDE = "n log n, n stages"

TWO_PHASES = "all_reduce"

AXES: Mapping[str, str] = MappingProxyType(
    {"stages": "stages", "chunks": "chunks", "dimensions": "dimensions", "npus": "NPUs"}
)
"""Columns that may grow, and their names.  If a block of the experiment has the name of a column, it is shown alone."""

SECONDS = Axis("seconds", "seconds (median)", log=True, format="seconds")

FITTED = (
    "The exponent is that of the power that fits the larger half best; the last column says how many times more than "
    "n log n, n stages, time grows from the first to the last."
)


def scaling(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Show how seconds grow with stages, chunks, dimensions and NPUs.

    Raises
    ------
    InputError
        If no row has seconds.
    """
    schedules = results(rows)
    if not (schedules["seconds"] > 0).any():
        raise InputError("no run has seconds", field="column seconds")
    done = schedules.assign(stages=_stages(schedules))
    timed = _timed(done)
    sections = tuple(section for column in AXES for section in _section(column, timed, done))
    return Report(experiment.title, (*_summary(timed, done), *warnings(rows, schedules)), (*sections, *failures(rows)))


def _stages(done: pd.DataFrame) -> pd.Series:
    """Stages of the instance: as recorded, else one visit per chunk, dimension and phase."""
    recorded = pd.to_numeric(done["extra"].map(lambda extra: extra.get("stages")), errors="coerce")
    visits = done["dimensions"] * done["chunks"] * (1.0 + (done["kind"] == TWO_PHASES))
    return recorded.where(recorded > 0, visits)


def _timed(done: pd.DataFrame) -> pd.DataFrame:
    """Seconds of the simulation, and of every policy without it, one after the other in a column ``what``.

    Searches keep the simulations inside, which are part of them.
    """
    alone = done["seconds"] - done["simulate_seconds"].fillna(0)
    policies = done.assign(what=done["policy"], seconds=done["seconds"].where(done["head"].isin(SEARCHES), alone))
    timed = pd.concat([done.assign(what=SIMULATION, seconds=done["simulate_seconds"]), policies], ignore_index=True)
    timed["what"] = pd.Categorical(timed["what"], categories=timed["what"].unique())
    return timed[timed["seconds"] > 0]


def _curves(timed: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians of seconds and of stages over a column, which is called ``place``, with the work that they stand for."""
    medians = (
        timed.assign(place=timed[column]).groupby(["what", "place"], observed=True)[["seconds", "stages"]].median()
    )
    return medians.assign(work=medians["stages"] * np.log(medians["stages"].clip(lower=2))).reset_index()


def _summary(timed: pd.DataFrame, done: pd.DataFrame) -> list[str]:
    sentences = [f"{plural(len(done), 'run')}, of {done['stages'].min():.0f} to {done['stages'].max():.0f} stages."]
    for what, curve in _curves(timed, "stages").groupby("what", observed=True):
        exponent = _exponent(curve)
        if exponent is not None:
            last = curve.iloc[-1]
            sentences.append(
                f"{what}: {seconds(last.seconds)} for the most stages; in the end time grows as stages to the power of "
                f"{exponent:.2f}."
            )
    return sentences


def _exponent(curve: pd.DataFrame) -> float | None:
    """The power that fits the larger half of a curve, where fixed costs weigh less; None of a single place."""
    half = curve[len(curve) // 2 if len(curve) > 3 else 0 :]
    if len(half) < 2:
        return None
    covariances = np.log(half[["place", "seconds"]]).cov()["place"]
    return float(covariances["seconds"] / covariances["place"])


def _section(column: str, timed: pd.DataFrame, done: pd.DataFrame) -> tuple[Section, ...]:
    """A section on one column, unless nothing grows along it."""
    has_block = (done["block"] == column).any()
    text = "Medians over all runs; other properties of the instances vary too."
    if has_block:
        text = f"The runs of the block '{column}'; where it has several instances, medians over them."
        timed = timed[timed["block"] == column]
    curves = _curves(timed, column)
    curves = curves[curves.groupby("what", observed=True)["place"].transform("size") > 1]
    if curves.empty:
        return ()
    name = AXES[column]
    first = curves[curves["what"] == curves["what"].iloc[0]]
    guide = first.assign(what=GUIDE, seconds=first["seconds"].iloc[-1] / first["work"].iloc[-1] * first["work"])
    chart = lines(curves, Axis("place", name, log=True, format="count"), SECONDS, "what", guides=guide)
    has_search = any(policy_head(what) in SEARCHES for what in curves["what"].unique())
    caption = "Searches end at their time limit at the latest." if has_search else ""
    figure = Figure(f"seconds-by-{column}", f"Seconds by {name}", chart, caption)
    return (Section(f"By {name}", (text,), (_table(curves, name),), (figure,)),)


def _table(curves: pd.DataFrame, name: str) -> Table:
    names = ("", f"least {name}", "seconds", f"most {name}", "seconds", "exponent", "growth / (n log n)")
    forms = ("text", "count", "seconds", "count", "seconds", "number", "number")
    columns = tuple(Column(name, form) for name, form in zip(names, forms, strict=True))
    return Table(columns, tuple(_row(what, curve) for what, curve in curves.groupby("what", observed=True)), FITTED)


def _row(what: str, curve: pd.DataFrame) -> tuple[CellValue, ...]:
    start, end = curve.iloc[0], curve.iloc[-1]
    growth = (end.seconds / start.seconds) / (end.work / start.work)
    return (what, start.place, start.seconds, end.place, end.seconds, _exponent(curve), growth)
