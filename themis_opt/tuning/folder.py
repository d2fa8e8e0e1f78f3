"""The folder of a search: the tuned instance and its schedule, the best setting, the trials, and pictures."""

import json
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.base.units import nanoseconds
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv
from themis_opt.problem.instance import Instance
from themis_opt.reports.rendering.charts import save
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import Summary, schedule_document
from themis_opt.tuning.buckets import settings
from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.pictures import bucket_chart, draw
from themis_opt.tuning.space import judges


def write_tuned(folder: Path, tuned: Tuned) -> list[Path]:
    """Write everything about a search; returns the files written.

    With several sizes, the folder itself holds the instance and the schedule of the largest, and a folder named like
    its size those of each. Raises InputError if a file cannot be written.
    """
    schedule = tuned.schedule
    title = f"{schedule.instance.name or 'instance'}: {tuned.space.describe(tuned.choice)}"
    files = [
        _write(folder / "trials.csv", to_csv(tuned.trial_rows())),
        _write(folder / "best.json", json.dumps(best_setting(tuned), indent=2) + "\n"),
        _write(folder / "instance.json", instance_text(schedule.instance, tuned)),
        *write_schedule(folder, schedule, title, _summary(tuned, schedule)),
    ]
    if len(tuned.schedules) > 1:
        for case, schedule in zip(tuned.space.cases, tuned.schedules, strict=True):
            files += _write_case(folder / case, tuned, schedule)
    return [*files, *_write_buckets(folder, tuned), *draw(tuned, folder)]


def _write_buckets(folder: Path, tuned: Tuned) -> list[Path]:
    """The curve over sizes of buckets, where there is one."""
    rows = tuned.buckets
    if not rows:
        return []
    picture = folder / "buckets.svg"
    save(bucket_chart(rows), picture, f"{tuned.space.name}: {tuned.choice['launching']}")
    return [_write(folder / "buckets.csv", to_csv(rows)), picture]


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
    described = instance.replace(description=f"Tuned by themis-opt: {tuned.space.describe(tuned.choice)}.")
    document = {"format": instance.format} | described.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(document, indent=2) + "\n"


def _write_case(folder: Path, tuned: Tuned, schedule: Schedule) -> list[Path]:
    document = schedule_document(schedule, _summary(tuned, schedule))
    return [
        _write(folder / "instance.json", instance_text(schedule.instance, tuned)),
        _write(folder / "schedule.json", json.dumps(document) + "\n"),
    ]


def _summary(tuned: Tuned, schedule: Schedule) -> Summary:
    return Summary(
        policy=tuned.policy,
        bounds_ns={name: nanoseconds(value) for name, value in judges(schedule.instance).items()},
        status="feasible",
        settings={name: value for name, value in tuned.choice.items() if name != "policy"},
    )


def _write(path: Path, content: str) -> Path:
    write_atomically(path, content)
    return path
