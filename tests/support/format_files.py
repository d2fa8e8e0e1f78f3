"""Small files of every format of this project, and what reads them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import iteration_schedules
from report_rows import bound, row

import themis_opt
from themis_opt.base.documents import read_json
from themis_opt.base.errors import ThemisError
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.store import RunStore
from themis_opt.pipelines import files as pipelines
from themis_opt.pipelines.bounds import bound as lower_bound
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.schedule import simulate as simulate_pipeline
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import LIBRARY, shipped, shipped_pipelines
from themis_opt.reports import experiment as head_of_experiment
from themis_opt.reports.rows import read_rows
from themis_opt.reports.table import table
from themis_opt.schedules.schedule_file import read_schedule, schedule_document
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.study.best_known import Library
from themis_opt.workloads.models import find_model
from themis_opt.workloads.timing import read_times

SMALL = "fig5.all_reduce.256MB"

SMALL_PIPELINE = 10_000
"""Microbatches on all parts up to which one is run too."""

EXPERIMENT = """\
name = "small"
title = "Small"
description = "Some **runs**."
[[runs]]
instances = ["fig5.all_reduce.256MB"]
policies = ["baseline", "themis+scf", "exact"]
chunks = [4, 8]
launch_overhead = ["0 s", "2 us"]
time_limit = 10
[quick]
time_limit = 1
"""


class FormatFile(NamedTuple):
    """A file of a format of this project: its name, what is in it, and what reads it and looks at all of it."""

    name: str
    content: bytes
    read: Callable[[Path], object]

    def check(self, folder: Path, content: bytes) -> None:
        """Read a file of this name with some content; any exception but a refusal in one line fails."""
        message, path = "", folder / self.name
        for other in folder.glob(f"{self.name}-*"):  # what SQLite left beside a damaged store
            other.unlink()
        path.write_bytes(content)
        try:
            self.read(path)
        except ThemisError as error:
            message = str(error)
        assert message.isprintable()


def format_files() -> dict[str, FormatFile]:
    """A file of every format of this project, by what it is."""
    collective, period = (_schedule(instance) for instance in (themis_opt.load(SMALL), iteration_schedules.layers()))
    layers = find_model("resnet-50").layers(None)
    passes = dict.fromkeys(("forward", "weight_gradient", "input_gradient"), "10 us")
    times = {"layers": {layer.name: passes for layer in layers[:3]}}
    return {
        "instance": FormatFile("a.json", shipped()[SMALL].read_bytes(), themis_opt.load),
        "iteration": FormatFile("b.json", _json(iteration_schedules.layers().model_dump(mode="json")), themis_opt.load),
        "schedule": FormatFile("c.json", collective, lambda path: validate(read_schedule(path))),
        "iteration schedule": FormatFile("d.json", period, lambda path: validate(read_schedule(path))),
        "experiment": FormatFile("experiment.toml", EXPERIMENT.encode(), _read_experiment),
        "rows": FormatFile("rows.csv", _rows(), _report),
        "pipeline": FormatFile("e.json", shipped_pipelines()["p4_m8"].read_bytes(), _order_pipeline),
        "pipeline schedule": FormatFile("f.json", _pipeline_schedule(), pipelines.read_schedule),
        "times": FormatFile("times.json", _json(times), lambda path: read_times(path, layers[:3])),
        "index of the library": FormatFile("index.json", _index(), lambda path: Library(path.parent).rows),
        "store": FormatFile("runs.sqlite", _store(), _read_store),
    }


def _index() -> bytes:
    """The first rows of the library."""
    return _json({"instances": read_json(LIBRARY / "index.json")["instances"][:3]})


def _order_pipeline(path: Path) -> None:
    pipeline = pipelines.read_pipeline(path)
    lower_bound(pipeline)
    if pipeline.stages * pipeline.parts * pipeline.microbatches < SMALL_PIPELINE:
        simulate_pipeline(pipeline, PIPELINE_POLICIES["gpipe"](pipeline))


def _pipeline_schedule() -> bytes:
    pipeline = pipelines.read_pipeline("p4_m8")
    schedule = simulate_pipeline(pipeline, PIPELINE_POLICIES["zb1p"](pipeline))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json"
        pipelines.write_schedule(path, schedule, {"policy": "zb1p"})
        return path.read_bytes()


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _schedule(instance: themis_opt.Instance) -> bytes:
    return _json(schedule_document(simulate(instance, make_policy("baseline")(instance))))


def _rows() -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(row()))
    writer.writeheader()
    writer.writerows([row(), row(policy="hourglass", makespan_ns=900.0), bound(), row(status="failed", makespan_ns="")])
    return text.getvalue().encode()


def _read_experiment(path: Path) -> None:
    read_experiment(path)
    head_of_experiment.read_experiment(path.parent)


def _report(path: Path) -> None:
    table(read_rows(path).to_frame(), head_of_experiment.ExperimentHead("small", "Small"))


def _store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        with RunStore(path) as store:
            store.add([{"key": str(n), "code_version": "1", "status": "ok", "makespan_ns": 1.5} for n in range(20)])
        return path.read_bytes()


def _read_store(path: Path) -> None:
    with RunStore(path) as store:
        store.statuses("1")
        list(store.rows("1"))
