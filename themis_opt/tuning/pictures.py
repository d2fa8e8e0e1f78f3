"""Pictures of a search: those of Optuna (how it went on, what mattered, the front), and sizes of buckets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from themis_opt.formats.gantt import save_figure
from themis_opt.reports.rendering.charts import Axis, Chart, lines
from themis_opt.tuning.buckets import MIB

if TYPE_CHECKING:
    from themis_opt.tuning.outcome import Tuned

SIZE = Axis("mebibytes", "size of a bucket, MiB", log=True)
TIME = Axis("iteration_ns", "time of an iteration", log=True, format="duration")


def draw(tuned: Tuned, folder: Path) -> Iterator[Path]:
    """Write the pictures that a study has something for; yields their files.

    There is a front where compromises were asked for, and importances where trials differ. Raises InputError if a file
    cannot be written.
    """
    from optuna.visualization import matplotlib as plots

    study, several = tuned.trials_of_optuna, tuned.objective == "pareto"
    target: Any = (lambda trial: float(trial.values[0])) if several else None
    name = {"target": target, "target_name": f"{tuned.space.measured}, ns" if len(tuned.space.cases) == 1 else "ratio"}
    pictures: dict[str, Callable[[], Any]] = {"history.svg": lambda: plots.plot_optimization_history(study, **name)}
    if tuned.importances:
        pictures["importances.svg"] = lambda: plots.plot_param_importances(study, evaluator=_evaluator(), target=target)
    if several:
        pictures["front.svg"] = lambda: plots.plot_pareto_front(study, target_names=[tuned.space.measured, "chunks"])
    for file, picture in pictures.items():
        _save(picture, folder / file)
        yield folder / file


def _evaluator() -> Any:
    from optuna.importance import PedAnovaImportanceEvaluator

    return PedAnovaImportanceEvaluator()


def _save(picture: Callable[[], Any], path: Path) -> None:
    """Write a picture of Optuna, which draws on a figure of pyplot."""
    from matplotlib import pyplot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's pictures with matplotlib are experimental, which it says each time
        figure = picture().figure
        figure.set_layout_engine("tight")
        try:
            save_figure(figure, path)
        finally:
            pyplot.close(figure)


def bucket_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """The rows of :func:`themis_opt.tuning.buckets.bucket_rows` as a curve above the bound."""
    frame = pd.DataFrame(rows)
    frame = frame.assign(what="time", mebibytes=frame["bucket_bytes"] / MIB)
    bound = frame.assign(iteration_ns=frame["bound_ns"], what="bound")
    return lines(frame, SIZE, TIME, "what", guides=bound)
