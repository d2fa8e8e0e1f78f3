"""The folder of a search: the tuned instance and its schedule, the best setting, the trials, and pictures."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from themis_opt.base.documents import write_atomically
from themis_opt.base.units import nanoseconds
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.gantt import save_figure
from themis_opt.formats.tables import to_csv
from themis_opt.problem.instance import Instance
from themis_opt.reports.rendering.charts import Axis, Chart, lines, save
from themis_opt.schedules.schedule_file import Summary, schedule_document
from themis_opt.tuning.outcome import MIB, Tuned, settings

SIZE = Axis("mebibytes", "size of a bucket, MiB", log=True)
TIME = Axis("makespan_ns", "time of an iteration", log=True, format="duration")


def write_tuned(folder: Path, tuned: Tuned) -> list[Path]:
    """Write everything about a search; returns the files written.

    With several sizes, the folder itself holds the instance and the schedule of the largest, and a folder named like
    its size those of each. Raises InputError if a file cannot be written.
    """
    schedule = tuned.schedule
    title = f"{schedule.instance.name or 'instance'}: {tuned.space.describe(tuned.choice)}"
    texts = {
        "trials.csv": to_csv(tuned.trial_rows()),
        "best.json": json.dumps(best_setting(tuned), indent=2) + "\n",
        "instance.json": instance_text(schedule.instance, tuned),
    }
    if len(tuned.schedules) > 1:
        for number, (case, schedule) in enumerate(zip(tuned.space.cases, tuned.schedules, strict=True)):
            document = schedule_document(schedule, _summary(tuned, number))
            texts[f"{case}/instance.json"] = instance_text(schedule.instance, tuned)
            texts[f"{case}/schedule.json"] = json.dumps(document) + "\n"
    if tuned.buckets:
        texts["buckets.csv"] = to_csv(tuned.buckets)
    for name, text in texts.items():
        write_atomically(folder / name, text)
    files = [folder / name for name in texts]
    files += write_schedule(folder, tuned.schedule, title, _summary(tuned, -1))
    if tuned.buckets:
        files.append(folder / "buckets.svg")
        save(bucket_chart(tuned.buckets), files[-1], f"{tuned.space.name}: {tuned.choice['launching']}")
    return [*files, *draw(tuned, folder)]


def best_setting(tuned: Tuned) -> dict[str, Any]:
    """The best setting as plain values: the policy as on the command line, all that was chosen, and times in ns."""
    return {
        "policy": tuned.policy,
        "setting": dict(tuned.choice),
        "description": tuned.space.describe(tuned.choice),
        "lines": list(settings(tuned.choice)),
        "trial": tuned.best.number,
        "gain": tuned.gain,
        "results": tuned.rows(),
    }


def instance_text(instance: Instance, tuned: Tuned) -> str:
    """A tuned instance as a file; its description says how it is best run."""
    described = instance.model_copy(
        update={"description": f"Tuned by themis-opt: {tuned.space.describe(tuned.choice)}."}
    )
    document = {"format": instance.format} | described.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(document, indent=2) + "\n"


def _summary(tuned: Tuned, case: int) -> Summary:
    return Summary(
        policy=tuned.policy,
        bounds_ns={name: nanoseconds(value) for name, value in tuned.space.judges[case].items()},
        status="feasible",
        settings={name: value for name, value in tuned.choice.items() if name != "policy"},
    )


def draw(tuned: Tuned, folder: Path) -> Iterator[Path]:
    """Write the pictures that a study has something for; yields their files.

    There is a front where compromises were asked for, and importances where trials differ. Raises InputError if a file
    cannot be written.
    """
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib as plots

    study, several = tuned.trials_of_optuna, tuned.objective == "pareto"
    target: Any = (lambda trial: float(trial.values[0])) if several else None
    name = {"target": target, "target_name": f"{tuned.space.measured}, ns" if len(tuned.space.cases) == 1 else "ratio"}
    pictures: dict[str, Callable[[], Any]] = {"history.svg": lambda: plots.plot_optimization_history(study, **name)}
    if tuned.importances:
        pictures["importances.svg"] = lambda: plots.plot_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(), target=target
        )
    if several:
        pictures["front.svg"] = lambda: plots.plot_pareto_front(study, target_names=[tuned.space.measured, "chunks"])
    for file, picture in pictures.items():
        _draw_one(picture, folder / file)
        yield folder / file


def _draw_one(picture: Callable[[], Any], path: Path) -> None:
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
    """The rows of :attr:`~themis_opt.tuning.outcome.Tuned.buckets` as a curve above the bound."""
    frame = pd.DataFrame(rows)
    frame = frame.assign(what="time", mebibytes=frame["bucket_bytes"] / MIB)
    bound = frame.assign(makespan_ns=frame["bound_ns"], what="bound")
    return lines(frame, SIZE, TIME, "what", guides=bound)
