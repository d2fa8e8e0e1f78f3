"""Pictures of a search: how it went on, what mattered, and makespan against chunks."""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import pandas as pd

from themis_opt.reports.rendering.charts import Axis, Chart, lines, shares
from themis_opt.tuning.history import Trial
from themis_opt.tuning.outcome import Tuned

TRIAL = Axis("number", "trial", format="count")
CHUNKS = Axis("pieces", "chunks", log=True, format="count")
IMPORTANCE = Axis("share", "importance (PED-ANOVA)", format="percent")


def history_picture(tuned: Tuned) -> Chart:
    """Value of every trial that was run to its end, and the best so far."""
    trials = _frame(_run(tuned), "trial")
    best = trials.assign(value=trials["value"].cummin(), what="best so far")
    return lines(best, TRIAL, _value(tuned), "what", dots=trials, step=True)


def importance_picture(tuned: Tuned) -> Chart:
    """Share of every parameter in what makes trials good; a note where that cannot be said."""
    rows = sorted(tuned.importances.items(), key=lambda item: (-item[1], item[0]))
    named = [(name.replace("_", " "), share) for name, share in rows] or [("too few different trials to say", math.nan)]
    return shares(pd.DataFrame(named, columns=["parameter", "share"]), "parameter", IMPORTANCE)


def front_picture(tuned: Tuned) -> Chart:
    """Every complete trial by chunks and value, and those that no other beats."""
    front = _frame(tuned.front, "no other is better in both")
    return lines(front, CHUNKS, _value(tuned), "what", dots=_frame(_run(tuned), "trial"), step=True)


PICTURES: Mapping[str, Callable[[Tuned], Chart]] = MappingProxyType(
    {"history.svg": history_picture, "importances.svg": importance_picture, "front.svg": front_picture}
)
"""What draws each picture, by file name."""


def _run(tuned: Tuned) -> list[Trial]:
    """The trials that were run to their end, not remembered."""
    return [trial for trial in tuned.trials if trial.state == "complete" and trial.repeats is None]


def _frame(trials: Iterable[Trial], what: str) -> pd.DataFrame:
    rows = [(trial.number, trial.pieces, trial.value, what) for trial in trials]
    return pd.DataFrame(rows, columns=["number", "pieces", "value", "what"])


def _value(tuned: Tuned) -> Axis:
    name = {"iteration": "iteration time"}.get(tuned.space.measured, tuned.space.measured)
    if len(tuned.space.cases) == 1:
        return Axis("value", name, log=True, format="duration")
    return Axis("value", f"{name} over ideal (geometric mean)", log=True)
