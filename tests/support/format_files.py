"""Small files of every format of this project, and what reads them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import iteration_schedules
from planning import schedule_of
from reader_samples import NCCOM, OVERLAPPED, RCCL_LINES, pytorch_trace
from report_rows import bound, row

import themis_opt
from themis_opt.base.documents import read_json
from themis_opt.base.errors import ThemisError
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.store import RunStore
from themis_opt.designing.problem import load_problem as load_design
from themis_opt.designing.problem import shipped_problems
from themis_opt.formats.exports import make_exporter
from themis_opt.formats.job_shop import job_shop, read_starts
from themis_opt.formats.measured_times import read_times as read_measured_times
from themis_opt.formats.msccl.exporter import Msccl
from themis_opt.formats.msccl.plus import MscclPlus
from themis_opt.formats.nccl_tuner import TUNER_DIALECTS, read_rules
from themis_opt.formats.order_table import order_json, read_order_table
from themis_opt.graphs.policies import ring_plan
from themis_opt.graphs.problem import GraphInstance, graph_text, load_graph
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.schedule_file import read_graph_schedule
from themis_opt.graphs.schedule_file import schedule_text as graph_schedule_text
from themis_opt.pipelines import files as pipelines
from themis_opt.pipelines.bounds import bound as lower_bound
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.schedule import simulate as simulate_pipeline
from themis_opt.problem.catalog import LIBRARY, shipped, shipped_pipelines
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.reports import experiment as head_of_experiment
from themis_opt.reports.rows import read_rows
from themis_opt.reports.sections import table
from themis_opt.schedules.envelope import Summary
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import read_schedule, schedule_document
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
        **_measured_files(),
        **_problem_files(),
        **_exported_files(),
    }


def _measured_files() -> dict[str, FormatFile]:
    """Measured times, as ``compare --measured`` reads them."""
    entry = {
        "pg_id": 0, "profiling_name": "nccl:all_reduce", "duration_ms": 2.5, "input_sizes": [[1000, 2000]],
        "input_dtypes": ["Float"], "output_sizes": [[1000, 2000]], "output_dtypes": ["Float"], "state": "completed",
    }  # fmt: skip
    recorder = {"version": "2.4", "pg_config": {"0": {"name": "0", "ranks": "[0, 1, 2, 3]"}}, "entries": [entry]}
    run = {
        "verdict": "exact",
        "collective": {"kind": "all_reduce", "bytes": 8_000_000, "npus": 8},
        "rows": [{"policy": "themis+scf", "measured_s": 0.0025}],
    }
    logs = {
        "recorder.json": _json(recorder),
        "run.json": _json(run),
        "trace.json": pytorch_trace(OVERLAPPED).encode(),
        "lines.json": RCCL_LINES.encode(),
        "all_gather.32ranks.log": NCCOM.encode(),
    }
    return {f"measured {name}": FormatFile(name, content, read_measured_times) for name, content in logs.items()}


def _problem_files() -> dict[str, FormatFile]:
    """Graphs, and a problem of a designer."""
    graph = small_graph()
    small = shipped_problems()["libra.resnet-50_4d.sum500"].read_bytes()
    return {
        "graph": FormatFile("graph.json", graph_text(graph).encode(), load_graph),
        "graph schedule": FormatFile(
            "g.json", graph_schedule_text(simulate_graph(ring_plan(graph), 2)).encode(), read_graph_schedule
        ),
        "design": FormatFile("h.json", small, load_design),
    }


def _exported_files() -> dict[str, FormatFile]:
    """Exports that are read again: order tables, tuner files, algorithms, starts."""
    product, iteration = themis_opt.load(SMALL), iteration_schedules.layers()
    schedule = schedule_of(product, "baseline")
    repeated = iteration_schedules.scheduled(instance=iteration)
    tuner = "allreduce,0,4096,tree,ll,2,-1,-1,-1,-1\nallgather,0,4294967295,ring,simple,-1,2,8,-1,-1\n"
    per_rank = "allreduce,[0,4096),tree,ll,2,-1,-1\n"
    shop = job_shop(schedule)
    starts = "\n".join(
        " ".join(str(10**9 * (job + 9 * n)) for n in range(len(row))) for job, row in enumerate(shop.jobs)
    )
    square = Network(dimensions=(Dimension(kind="switch", size=4, bandwidth="100 GB/s", latency="1 us"),))
    flat = Instance(network=square, collectives=(Collective(kind="all_gather", size="4 MB", chunks=2),))
    planned = schedule_of(flat, "baseline")
    texts = {to: dict(make_exporter(to).files(planned)) for to in ("msccl", "mscclpp")}
    (xml, *_), (plus, *_) = texts["msccl"].items(), texts["mscclpp"].items()
    return {
        "order table": FormatFile("j.json", _order(schedule), lambda path: read_order_table(path, product)),
        "order of steps": FormatFile("k.json", _order(repeated), lambda path: read_order_table(path, iteration)),
        "NCCL tuner": FormatFile("l.csv", tuner.encode(), lambda path: read_rules(path, TUNER_DIALECTS["nccl"])),
        "RCCL tuner": FormatFile("m.csv", tuner.encode(), lambda path: read_rules(path, TUNER_DIALECTS["rccl"])),
        "NCCLX tuner": FormatFile("n.csv", per_rank.encode(), lambda path: read_rules(path, TUNER_DIALECTS["ncclx"])),
        "starts": FormatFile("starts.txt", starts.encode(), lambda path: read_starts(path, shop)),
        "MSCCL": FormatFile("o.xml", xml[1].encode(), lambda path: list(Msccl().check_files([path.name], path.parent))),
        "MSCCL++": FormatFile(
            "p.json", plus[1].encode(), lambda path: list(MscclPlus().check_file(path.name, path.parent))
        ),
    }


def _order(schedule: Schedule) -> bytes:
    return order_json(schedule).encode()


def small_graph() -> GraphInstance:
    """Three NPUs in a ring, and a switch that two of them share."""
    ends = (("a", "b"), ("b", "c"), ("c", "a"), ("a", "s"), ("b", "s"))
    nodes = [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "s", "kind": "switch"}]
    links = [{"ends": pair, "bandwidth": f"{10 + n} GB/s", "latency": "1 us"} for n, pair in enumerate(ends)]
    collective = {"kind": "all_gather", "size": "3 MB", "chunks": 2}
    network = {"name": "small", "nodes": nodes, "links": links}
    return GraphInstance.model_validate({"network": network, "collectives": [collective]})


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
        pipelines.write_schedule(path, schedule, Summary(policy="zb1p"))
        return path.read_bytes()


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _schedule(instance: themis_opt.Instance) -> bytes:
    return _json(schedule_document(schedule_of(instance, "baseline")))


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
