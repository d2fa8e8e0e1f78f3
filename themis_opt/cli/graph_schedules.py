"""Commands on schedules on graphs, where a schedule on dimensions could be."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from themis_opt.base.errors import InputError
from themis_opt.cli import graphs, options
from themis_opt.cli.pipelines import BEGINNING

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.formats.graph_exports import MovedData
    from themis_opt.graphs.explanation import CriticalHop, LinkLoad
    from themis_opt.graphs.simulation import GraphSchedule


def is_graph_schedule(path: Path) -> bool:
    """Whether a file says at its beginning that it holds a schedule on a graph."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"themis-opt/graph-schedule/' in file.read(BEGINNING)


def validate(path: Path, *, with_data: bool, as_json: bool) -> None:
    """Check a schedule against the rules of graphs, and perhaps on data."""
    from themis_opt.base.units import format_duration, format_percent, format_short_size, nanoseconds
    from themis_opt.cli.printing import print_json, say
    from themis_opt.formats.graph_exports import move_data
    from themis_opt.graphs.schedule_file import read_graph_schedule
    from themis_opt.graphs.validation import GRAPH_RULES

    schedule = read_graph_schedule(path)
    moved = move_data(schedule) if with_data else None
    if as_json:
        data = {"data": _moved_row(moved, schedule)} if moved else {}
        makespan = nanoseconds(schedule.makespan)
        print_json({"valid": True, "rules": list(GRAPH_RULES), "makespan_ns": makespan} | data)
        return
    rules = ", ".join(GRAPH_RULES)
    say(f"valid: {len(GRAPH_RULES)} rules hold ({rules}), makespan {format_duration(schedule.makespan)}")
    if moved:
        share = format_percent(moved.busiest.busy / schedule.makespan)
        say(f"data: every NPU ends with its result, by {moved.messages} messages, {moved.block_units} units a block")
        say(f"busiest link: {moved.busiest.name} sends {format_short_size(moved.busiest.bytes)}, {share} of the time")


def _moved_row(moved: "MovedData", schedule: "GraphSchedule") -> dict[str, object]:
    return {"messages": moved.messages, "block_units": moved.block_units, "busiest": _load_row(moved.busiest, schedule)}


def plot(path: Path, output: Path) -> None:
    """Draw what links send over time."""
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.graph_pictures import draw_schedule
    from themis_opt.graphs.schedule_file import read_graph_schedule

    draw_schedule(read_graph_schedule(path), output)
    tell_files([output])


def export(path: Path, to: str, folder: Path, *, check: bool) -> None:
    """Write a schedule for a runtime or a simulator."""
    from themis_opt.cli.printing import say, tell_files, tell_note
    from themis_opt.formats.graph_exports import export_graph
    from themis_opt.formats.graph_transfers import to_export
    from themis_opt.graphs.schedule_file import read_graph_schedule

    schedule = read_graph_schedule(path)
    files, facts = export_graph(schedule, to, folder, check=check)
    tell_files(files)
    if (chunks := to_export(schedule).chunks) < schedule.chunks:
        tell_note(f"pieces are cut in {chunks} chunks instead of {schedule.chunks}: runtimes cut messages themselves")
    for fact in facts:
        say(f"checked: {fact}")


def explain(path: Path, steps: int, *, as_json: bool) -> None:
    """Print how busy links are, the critical path, and the bounds."""
    from themis_opt.base.units import format_duration, format_percent, nanoseconds
    from themis_opt.cli.printing import print_json, print_rows, say
    from themis_opt.graphs.bounds import best_bound, graph_bounds
    from themis_opt.graphs.explanation import critical_path, link_loads
    from themis_opt.graphs.schedule_file import read_graph_schedule

    schedule = read_graph_schedule(path)
    links = [_load_row(load, schedule) for load in link_loads(schedule)]
    hops = [_hop_row(hop) for hop in critical_path(schedule)]
    bounds = {name: nanoseconds(float(b.picoseconds)) for name, b in graph_bounds(schedule.plan.instance).items()}
    if as_json:
        makespan = nanoseconds(schedule.makespan)
        print_json({"makespan_ns": makespan, "bounds_ns": bounds, "links": links, "steps": hops})
        return
    bound = best_bound(schedule.plan.instance)
    gap = format_percent(schedule.makespan / float(bound.picoseconds) - 1)
    took = format_duration(schedule.makespan)
    say(f"{schedule.plan.name} takes {took}, {gap} above what any algorithm needs ({bound.meaning}).")
    shown: ShownColumns = {
        "link": ("link", "text"), "busy_ns": ("busy", "time"), "share": ("busy share", "share"),
        "bytes": ("bytes", "count"),
    }  # fmt: skip
    print_rows(f"links: the {min(steps, len(links))} busiest of {len(links)} directions", links[:steps], shown)
    path_shown: ShownColumns = {
        "link": ("link", "text"), "piece": ("piece", "count"), "chunk": ("chunk", "count"),
        "start_ns": ("start", "time"), "busy_ns": ("busy", "time"), "lag_ns": ("latency", "time"),
        "waited_for": ("waited for", "text"),
    }  # fmt: skip
    few = hops if len(hops) <= steps else (*hops[: steps // 2], *hops[len(hops) - (steps - steps // 2) :])
    ends = "" if len(few) == len(hops) else f", {len(few)} of them from both ends"
    print_rows(f"critical path: {len(hops)} hops{ends}", few, path_shown)


def _load_row(load: "LinkLoad", schedule: "GraphSchedule") -> dict[str, object]:
    from themis_opt.base.units import nanoseconds

    share = load.busy / schedule.makespan
    return {"link": load.name, "busy_ns": nanoseconds(load.busy), "share": share, "bytes": load.bytes}


def _hop_row(hop: "CriticalHop") -> dict[str, object]:
    from themis_opt.base.units import nanoseconds

    fields = hop._asdict()
    times = {f"{name}_ns": nanoseconds(fields.pop(name)) for name in ("start", "busy", "lag")}
    return fields | times


def refuse_options(**given: object) -> None:
    """Refuse options that schedules on graphs do not take."""
    for name, value in given.items():
        if value:
            shown = None if value is True else value
            raise InputError("is not for schedules on graphs", field=f"--{name.replace('_', '-')}", value=shown)


def run(
    source: str,
    changes: options.Changes,
    network: graphs.NetworkChanges,
    policies: str | None,
    pace: str | None,
    *,
    repeat: int,
    seed: int,
    as_json: bool,
) -> None:
    """Run schedules on a graph, one process for each node, beside what the model says."""
    from themis_opt.cli.printing import print_json, print_rows, say
    from themis_opt.cli.ranks import run_progress
    from themis_opt.runtime.graph_run import execute_graph, execution_in_words

    schedules = _to_run(source, changes, network, policies, pace)
    with run_progress() as progress:
        executed = execute_graph(schedules, repeat=repeat, seed=seed, progress=progress)
    rows = [one.row(executed[0]) for one in executed]
    if as_json:
        print_json({"verdict": execution_in_words(executed), "rows": rows})
        return
    say(execution_in_words(executed))
    shown: ShownColumns = {
        "policy": ("policy", "text"), "chunks": ("chunks", "count"), "predicted_ns": ("predicted", "time"),
        "measured_ns": ("measured", "time"), "error": ("error", "share"),
        "speedup_predicted": ("speedup predicted", "ratio"), "speedup_measured": ("speedup measured", "ratio"),
    }  # fmt: skip
    times = [{f"{name}_ns": row[f"{name}_s"] * 1e9 for name in ("predicted", "measured")} for row in rows]
    print_rows(f"median of {repeat} runs", [row | time for row, time in zip(rows, times, strict=True)], shown)


def _to_run(
    source: str, changes: options.Changes, network: graphs.NetworkChanges, policies: str | None, pace: str | None
) -> "dict[str, GraphSchedule]":
    """The schedule of a file, or those of policies, at the pace of the fastest link."""
    from themis_opt.base.units import parse_bandwidth
    from themis_opt.graphs.comparison import compare_graph
    from themis_opt.graphs.schedule_file import read_graph_schedule

    path, read = Path(source), None
    if is_graph_schedule(path):
        refuse_options(size=changes.size, policies=policies, lost=network.lost, slow=network.slow)
        read = read_graph_schedule(path)
    instance = read.plan.instance if read else graphs.load(source, changes, network)
    if instance is None:
        raise InputError("must be a graph", source=source)
    if pace not in (None, "instance"):
        try:
            rate = parse_bandwidth(pace)
        except ValueError as error:
            raise InputError(str(error), field="--pace", value=pace) from None
        if rate <= 0:
            raise InputError("must be more than 0", field="--pace", value=pace)
        instance = instance.on(instance.network.scaled(rate))
    if read:
        from themis_opt.graphs.simulation import simulate_graph

        return {read.plan.name or path.name: simulate_graph(replace(read.plan, instance=instance), read.chunks)}
    changed = instance.on(network.apply(instance.network))
    names = options.split(policies) or ("ring", "trees")
    schedules = {result.policy: result.schedule for result in compare_graph(changed, names).results}
    return {name: schedules[name] for name in names}
