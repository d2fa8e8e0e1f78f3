"""The folder of a search: the tuned instance and its schedule, the best setting, the trials, and pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from themis_opt.base.documents import write_atomically
from themis_opt.base.units import nanoseconds
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv
from themis_opt.problem.catalog import instance_text
from themis_opt.reports.pictures import write_gantt
from themis_opt.reports.rendering.charts import Axis, Chart, bars, lines, save
from themis_opt.schedules.envelope import Summary
from themis_opt.tuning.outcome import Tuned


def write_tuned(folder: Path, tuned: Tuned) -> list[Path]:
    """Write everything about a search; returns the files written. Raises InputError if one cannot be written."""
    schedule = tuned.schedule
    setting = tuned.space.describe(tuned.choice)
    title = f"{schedule.instance.name or 'instance'}: {setting}"
    texts = {
        "trials.csv": to_csv(tuned.trial_rows()),
        "best.json": json.dumps(best_setting(tuned), indent=2) + "\n",
        "instance.json": instance_text(schedule.instance.varied(description=f"Tuned by themis-opt: {setting}.")),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    files = [folder / name for name in texts]
    summary = Summary(
        policy=tuned.policy,
        bounds_ns={"ideal": nanoseconds(tuned.space.ideal)},
        status="feasible",
        settings={name: value for name, value in tuned.choice.items() if name != "policy"},
    )
    files += write_schedule(folder, schedule, summary)
    files += write_gantt(folder, schedule, title, tuned.space.proven)
    charts = {"history": history_chart(tuned)}
    if tuned.importances and tuned.num_run >= LEAST_TRIALS:
        charts["importances"] = importance_chart(tuned.importances)
    for name, chart in charts.items():
        files.append(folder / f"{name}.svg")
        save(chart, files[-1], f"{tuned.space.name}: {name}")
    return files


def best_setting(tuned: Tuned) -> dict[str, Any]:
    """The best setting as plain values: the policy as on the command line, all that was chosen, and times in ns."""
    return {
        "policy": tuned.policy,
        "setting": dict(tuned.choice),
        "description": tuned.space.describe(tuned.choice),
        "trial": tuned.best.number,
        "gain": tuned.gain,
        "results": tuned.rows(),
    }


LEAST_TRIALS = 10  # trials below which importances are chance


def history_chart(tuned: Tuned) -> Chart:
    """What each trial took, and the best so far."""
    done = [trial for trial in tuned.trials if trial.measurement]
    trials = pd.DataFrame({"trial": [trial.number for trial in done], "value": [one.value for one in done]})
    best = trials.assign(value=trials["value"].cummin(), what="best so far")
    axes = (
        Axis("trial", "number of the trial", format="count"),
        Axis("value", "makespan", log=True, format="duration"),
    )
    return lines(best, *axes, "what", dots=trials.assign(what="trial"), step=True)


def importance_chart(importances: Mapping[str, float]) -> Chart:
    """The share of each parameter in what makes trials good."""
    rows = [{"parameter": name, "share": share, "what": "share"} for name, share in importances.items()]
    return bars(pd.DataFrame(rows), "parameter", Axis("share", "importance", format="percent"), "what")
