"""Commands on schedules on graphs, where a schedule on dimensions could be."""

from pathlib import Path
from typing import TYPE_CHECKING

from themis_opt.base.errors import InputError
from themis_opt.cli.pipelines import BEGINNING

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.graphs.explanation import CriticalHop, LinkLoad
    from themis_opt.graphs.simulation import GraphSchedule


def is_graph_schedule(path: Path) -> bool:
    """Whether a file says at its beginning that it holds a schedule on a graph."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"themis-opt/graph-schedule/' in file.read(BEGINNING)


def validate(path: Path, *, as_json: bool) -> None:
    """Check a schedule against the rules of graphs."""
    from themis_opt.base.units import format_duration, nanoseconds
    from themis_opt.cli.printing import print_json, say
    from themis_opt.graphs.schedule_file import read_graph_schedule
    from themis_opt.graphs.validation import GRAPH_RULES

    schedule = read_graph_schedule(path)
    if as_json:
        print_json({"valid": True, "rules": list(GRAPH_RULES), "makespan_ns": nanoseconds(schedule.makespan)})
        return
    rules = ", ".join(GRAPH_RULES)
    say(f"valid: {len(GRAPH_RULES)} rules hold ({rules}), makespan {format_duration(schedule.makespan)}")


def plot(path: Path, output: Path) -> None:
    """Draw what links send over time."""
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.graph_pictures import draw_schedule
    from themis_opt.graphs.schedule_file import read_graph_schedule

    draw_schedule(read_graph_schedule(path), output)
    tell_files([output])


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
