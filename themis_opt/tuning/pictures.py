"""Optuna's pictures of a study: how the search went on, what mattered, and makespan against chunks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.formats.gantt import save_figure

if TYPE_CHECKING:
    from themis_opt.tuning.outcome import Tuned

NAMES = ("history.svg", "importances.svg", "front.svg")
"""Files of pictures that there may be."""


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
