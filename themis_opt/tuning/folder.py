"""The folder of a search: the tuned instance and its schedule, the best setting, the trials, and pictures."""

import json
from pathlib import Path
from typing import Any

from themis_opt.documents import write_atomically
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.gantt import save_figure
from themis_opt.formats.iteration_bundle import write_iteration_schedule
from themis_opt.formats.iteration_json import IterationSummary
from themis_opt.formats.schedule_json import Summary, schedule_document
from themis_opt.formats.tables import to_csv
from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.bounds import iteration_bounds
from themis_opt.lower_bounds import ideal
from themis_opt.schedule import Schedule
from themis_opt.tuning.outcome import Found, Tuned, TunedIteration
from themis_opt.tuning.pictures import PICTURES


def write_tuned(folder: Path, tuned: Tuned | TunedIteration) -> list[Path]:
    """Write everything about a search; returns the files written.

    With several sizes, the folder itself holds the instance and the schedule of the largest, and a folder named like
    its size those of each.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    files = [
        _write(folder / "trials.csv", to_csv(tuned.trial_rows())),
        _write(folder / "best.json", json.dumps(best_setting(tuned), indent=2) + "\n"),
        _write(folder / "instance.json", instance_text(tuned.schedule.instance, tuned)),
    ]
    if isinstance(tuned, TunedIteration):
        summary = _iteration_summary(tuned)
        return files + write_iteration_schedule(folder, tuned.schedule, _title(tuned), summary) + _draw(folder, tuned)
    files += write_schedule(folder, tuned.schedule, _title(tuned), _summary(tuned, tuned.schedule))
    if len(tuned.schedules) > 1:
        for case, schedule in zip(tuned.space.cases, tuned.schedules, strict=True):
            files += _write_case(folder / case, tuned, schedule)
    return files + _draw(folder, tuned)


def best_setting(found: Found) -> dict[str, Any]:
    """The best setting as plain values: the policy as on the command line, all that was chosen, and times in ns."""
    return {
        "policy": found.policy,
        "setting": dict(found.choice),
        "description": found.space.describe(found.choice),
        "trial": found.best.number,
        "gain": found.gain,
        "results": found.rows(),
    }


def instance_text(instance: Instance | IterationInstance, tuned: Found) -> str:
    """A tuned instance as a file; its description says how it is best run."""
    described = instance.replace(description=f"Tuned by themis-opt: {tuned.space.describe(tuned.choice)}.")
    document = {"format": instance.format} | described.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(document, indent=2) + "\n"


def _write_case(folder: Path, tuned: Tuned, schedule: Schedule) -> list[Path]:
    document = schedule_document(schedule, _summary(tuned, schedule))
    return [
        _write(folder / "instance.json", instance_text(schedule.instance, tuned)),
        _write(folder / "schedule.json", json.dumps(document) + "\n"),
    ]


def _draw(folder: Path, tuned: Found) -> list[Path]:
    files = [folder / name for name in PICTURES]
    for path in files:
        save_figure(PICTURES[path.name](tuned), path)
    return files


def _summary(tuned: Tuned, schedule: Schedule) -> Summary:
    bound = ideal(schedule.instance)
    return Summary(
        policy=tuned.policy,
        makespan_ns=schedule.makespan / 1000,
        utilisation=schedule.utilisation,
        bounds_ns={"ideal": bound / 1000},
        gap=schedule.makespan / bound - 1,
        status="feasible",
        settings={name: value for name, value in tuned.choice.items() if name != "policy"},
    )


def _iteration_summary(tuned: TunedIteration) -> IterationSummary:
    schedule, bounds = tuned.schedule, iteration_bounds(tuned.schedule.instance)
    return IterationSummary(
        policy=tuned.policy,
        iteration_ns=schedule.iteration_time / 1000,
        exposed_ns=schedule.exposed / 1000,
        overlap=schedule.overlap,
        utilisation=schedule.utilisation,
        bounds_ns={name: value / 1000 for name, value in bounds.items()},
        gap=schedule.iteration_time / max(bounds.values()) - 1,
        status="feasible",
        settings=dict(tuned.choice),
    )


def _title(tuned: Tuned | TunedIteration) -> str:
    return f"{tuned.schedule.instance.name or 'instance'}: {tuned.space.describe(tuned.choice)}"


def _write(path: Path, content: str) -> Path:
    write_atomically(path, content)
    return path
