"""``themis-opt run``: schedules executed by real processes, beside what the model says."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import graph_schedules, graphs, options, ranks

if TYPE_CHECKING:
    from themis_opt.runtime.execution import ExecutionResult
    from themis_opt.schedules.schedule import Schedule

RunSource = Annotated[
    str, Argument(help="Schedule file, instance file, or the name of a shipped instance.", metavar="SOURCE")
]
Dtype = Annotated[str, Option(help="Element type, such as float32, float16, bfloat16 or int64.")]
InFlight = Annotated[int, Option(help="Stages that a dimension may have under way at once.", min=1, max=16)]


@options.grouped
def run(
    source: RunSource,
    *,
    local: ranks.Local = None,
    pace: ranks.Pace = None,
    policies: options.Policies = None,
    repeat: Annotated[int, Option(help="Runs of each schedule; one more is not counted.", min=1)] = 5,
    transport: ranks.Transport = "tcp",
    changes: options.Changes,
    network: graphs.NetworkChanges,
    sizes: options.ChunkSizes = "equal",
    dtype: Dtype = "float32",
    reduction: Annotated[str, Option(help="sum, min, max or avg.")] = "sum",
    in_flight: InFlight = 1,
    iterations: Annotated[int, Option(help="How many in a row, where there is compute.", min=3)] = 6,
    seed: options.Seed = 0,
    start: ranks.Start,
    output: Annotated[Path | None, options.output("Folder for rows, measured traces and pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run schedules with one process per NPU, check every bit of the results, and compare times with the model.

    Ranks wait in the place of a slow network where --pace says how fast it is; compute is run as sleeps. On graphs,
    --pace is the bandwidth of the fastest link, to which all others are in proportion.
    """
    if graph_schedules.is_graph_schedule(Path(source)) or graphs.load(source, changes, network) is not None:
        given = {"local": local, "chunks": changes.chunks, "output": output}
        graph_schedules.refuse_options(**given, transport=None if transport == "tcp" else transport)
        graph_schedules.run(source, changes, network, policies, pace, repeat=repeat, seed=seed, as_json=as_json)
        return

    from themis_opt.runtime.execution import execute
    from themis_opt.runtime.program import RunOptions

    schedules = _schedules(source, local, pace, policies, changes, sizes)
    settings = RunOptions(dtype, reduction, in_flight, pace is not None, iterations)
    num_ranks = next(iter(schedules.values())).instance.fabric.num_npus
    with ranks.ranks(num_ranks, transport, start) as coordinator, ranks.run_progress() as progress:
        done = execute(schedules, coordinator, settings, repeat=repeat, seed=seed, progress=progress)
    _tell(done, output, as_json=as_json)


def _schedules(
    source: str, local: str | None, pace: str | None, policies: str | None, changes: options.Changes, sizes: str
) -> "dict[str, Schedule]":
    """What is run, by name: the schedule of a file with the first usual policy before it, or policies alone."""
    from themis_opt.policies.registry import usual_policies
    from themis_opt.runtime.local_network import on_network
    from themis_opt.schedules.simulator import simulate

    planned = _planned(source)
    for name in ("size", "chunks"):
        if planned is not None and getattr(changes, name) is not None:
            raise InputError("a schedule states its sizes and chunks", field=f"--{name}")
    if planned is None:
        whole = options.load_instance(source, changes)
    else:
        planned = options.Replanning(changes.costs).apply(planned)
        whole = planned.instance

    from themis_opt.study.comparison import checked_sizes

    instance = on_network(whole, local, pace)
    chosen = options.choose_policies(
        instance,
        policies,
        lambda made: usual_policies(made)[: 1 if planned is not None else None],
        checked_sizes(sizes),
    )
    schedules = {name: simulate(instance, policy(instance)) for name, policy in chosen.items()}
    if planned is not None:
        schedules[Path(source).name] = simulate(instance, planned.enforced_plan())
    return schedules


def _planned(source: str) -> "Schedule | None":
    from themis_opt.base.documents import read_json

    path = Path(source)
    if path.suffix != ".json" or not path.is_file():
        return None
    is_schedule = "schedule" in str(read_json(path).get("format"))
    return options.load_schedule(path) if is_schedule else None


def _tell(done: "ExecutionResult", output: Path | None, *, as_json: bool) -> None:
    from themis_opt.cli.printing import print_json, print_table, say, tell_files

    if output is not None:
        from themis_opt.runtime.pictures import write_execution

        tell_files(write_execution(output, done))
    if as_json:
        print_json(done.document())
        return
    say(f"{done.verdict()}.")
    print_table(*_times_table(done))
    print_table(*_traffic_table(done))


_RunTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, headings, rows


def _times_table(done: "ExecutionResult") -> _RunTable:
    from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_times

    rows = done.rows()
    names = ["predicted_s", "measured_s", "fastest_s", "slowest_s"]
    if "exposed_predicted_s" in rows[0]:
        names += ["exposed_predicted_s", "exposed_measured_s"]
    times = {name: format_times([row[name] * PICOSECONDS_PER_SECOND for row in rows]) for name in names}
    others = {
        "error": [format_percent(row["error"]) for row in rows],
        "speedup predicted": [f"{row['speedup_predicted']:.3f}x" for row in rows],
        "speedup measured": [f"{row['speedup_measured']:.3f}x" for row in rows],
        "processors": [f"{row['processors_busy']:.2f}" for row in rows],
        "memory": [f"{row['memory_bytes'] / 2**20:.0f} MiB" for row in rows],
    }
    columns = {name.removesuffix("_s").replace("_", " "): cells for name, cells in times.items()} | others
    policies = [row["policy"] for row in rows]
    title = f"median of {rows[0]['runs']} runs"
    return title, ["policy", *columns], list(zip(policies, *columns.values(), strict=True))


def _traffic_table(done: "ExecutionResult") -> _RunTable:
    """Bytes that the busiest rank moved along each dimension, beside those of the model."""
    dimensions = done.executed[0].predicted.instance.fabric.dimension_names
    rows = [
        [row["policy"], name, f"{moved:.0f}", f"{expected:.0f}"]
        for row in done.rows()
        for name, moved, expected in zip(
            dimensions, row["bytes_per_dimension"], row["expected_bytes_per_dimension"], strict=True
        )
    ]
    return "bytes of the busiest rank", ["policy", "dimension", "moved", "expected"], rows
