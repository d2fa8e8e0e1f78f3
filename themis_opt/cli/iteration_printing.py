"""Tables of training iterations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from themis_opt.cli.printing import duration, durations, percent, print_json, print_table, strongest

if TYPE_CHECKING:
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.iterations.comparison import IterationComparison
    from themis_opt.iterations.schedule import IterationSchedule

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "compute": "tasks one after the other",
        "communication": "what the busiest dimension has to carry in one period",
        "ideal": "longest path of compute and of exchanges at full bandwidth",
        "critical_path": "the same, with latency and the first and last step of exchanges",
    }
)
"""What the bounds of :mod:`themis_opt.iterations.bounds` say."""


def print_iteration_comparison(comparison: "IterationComparison") -> None:
    """Print the results of policies with times, overlap, utilisation, speedup and gaps."""
    name, bound = strongest(comparison.bounds)
    title = f"{comparison.instance.name or 'instance'}: best bound {duration(bound)} ({name})"
    columns = (
        "policy", "iteration", "exposed", "data", "model", "overlap", "utilisation", "launches", "speedup", "gap",
        "exposed gap", "status",
    )  # fmt: skip
    schedules = [result.schedule for result in comparison.results]
    cells = [
        (
            result.policy,
            *times,
            f"{result.speedup:.3f}x",
            percent(result.gap),
            percent(result.exposed_gap),
            result.status,
        )
        for result, times in zip(comparison.results, _times(schedules), strict=True)
    ]
    print_table(title, columns, cells)


def print_iteration_times(
    instance: "IterationInstance", schedules: Mapping[str, "IterationSchedule"], as_json: bool
) -> None:
    """Print what simulated schedules say about one iteration, by the names of their policies."""
    if as_json:
        print_json([{"policy": name} | _plain(schedule) for name, schedule in schedules.items()])
        return
    columns = ("policy", "iteration", "exposed", "data", "model", "overlap", "utilisation", "launches")
    cells = [(name, *times) for name, times in zip(schedules, _times(list(schedules.values())), strict=True)]
    print_table(instance.name or "instance", columns, cells)


def _plain(schedule: "IterationSchedule") -> dict[str, Any]:
    """Times in ns, fractions 0..1; the fields of a row of a comparison that need no bound."""
    return {
        "iteration_ns": schedule.iteration_time / 1000,
        "compute_ns": schedule.instance.compute / 1000,
        "exposed_ns": schedule.exposed / 1000,
        "exposed_data_ns": schedule.exposed_by("data") / 1000,
        "exposed_model_ns": schedule.exposed_by("model") / 1000,
        "overlap": schedule.overlap,
        "utilisation": schedule.utilisation,
        "launches": len(schedule.plan.launches),
        "steady": schedule.is_steady,
    }


def _times(schedules: "list[IterationSchedule]") -> list[tuple[str, ...]]:
    """Cells from the iteration time to the launches; where iterations do not repeat each other, the time varies."""
    times = durations([s.iteration_time for s in schedules])
    iterations = [time if s.is_steady else f"{time} (varies)" for s, time in zip(schedules, times, strict=True)]
    exposed = durations([t for s in schedules for t in (s.exposed, s.exposed_by("data"), s.exposed_by("model"))])
    return [
        (iteration, *exposed[3 * n : 3 * n + 3], percent(s.overlap), percent(s.utilisation), str(len(s.plan.launches)))
        for n, (s, iteration) in enumerate(zip(schedules, iterations, strict=True))
    ]


def print_iteration_bounds(instance: "IterationInstance", as_json: bool) -> None:
    """Print every bound on the iteration time, and what it says of exposed communication."""
    from themis_opt.iterations.bounds import iteration_bounds

    proven = iteration_bounds(instance)
    exposed = [max(value - instance.compute, 0.0) for value in proven.values()]
    if as_json:
        pairs = zip(proven.items(), exposed, strict=True)
        print_json([{"bound": n, "bound_ns": v / 1000, "exposed_ns": least / 1000} for (n, v), least in pairs])
        return
    cells = [
        (name, value, least, MEANINGS.get(name, ""))
        for name, value, least in zip(proven, durations(list(proven.values())), durations(exposed), strict=True)
    ]
    title = f"{instance.name or 'instance'}: lower bounds"
    print_table(title, ("bound", "iteration >=", "exposed >=", "meaning"), cells)


def print_iteration_explanation(schedule: "IterationSchedule", limit: int, as_json: bool) -> None:
    """Print the longest waits of the NPU, the time of each resource, and the bounds."""
    from themis_opt.formats.iteration_tables import resource_rows, wait_rows
    from themis_opt.iterations.bounds import iteration_bounds

    waits, resources, proven = wait_rows(schedule), resource_rows(schedule), iteration_bounds(schedule.instance)
    if as_json:
        times = {"iteration_ns": schedule.iteration_time / 1000, "exposed_ns": schedule.exposed / 1000}
        bounds = {"bounds_ns": {name: value / 1000 for name, value in proven.items()}}
        print_json(times | bounds | {"waits": waits, "resources": resources})
        return
    _print_resources(schedule, resources)
    _print_waits(schedule, waits, limit)
    _print_gaps(schedule, proven)


def _print_resources(schedule: "IterationSchedule", rows: list[dict[str, Any]]) -> None:
    cells = [
        (row["resource"], *(_with_share(1000 * row[name], schedule.iteration_time) for name in ("busy_ns", "idle_ns")))
        for row in rows
    ]
    title = f"iteration {duration(schedule.iteration_time)}, exposed {duration(schedule.exposed)}"
    print_table(title, ("resource", "busy", "idle"), cells)


def _print_waits(schedule: "IterationSchedule", rows: list[dict[str, Any]], limit: int) -> None:
    longest = sorted(sorted(rows, key=lambda row: -row["wait_ns"])[:limit], key=lambda row: row["start_ns"])
    cells = [
        (
            row["task"],
            duration(1000 * row["start_ns"]),
            _with_share(1000 * row["wait_ns"], schedule.iteration_time),
            row["launch"] or "-",
            row["parallelism"] or "-",
        )
        for row in longest
    ]
    title = f"waits: {len(rows)}" + ("" if len(longest) == len(rows) else f", the longest {len(longest)} of them")
    print_table(title, ("task", "from", "waits", "for", "parallelism"), cells)


def _print_gaps(schedule: "IterationSchedule", proven: dict[str, float]) -> None:
    closest, _ = strongest(proven)
    cells = [
        (
            name + (" (closest)" if name == closest else ""),
            duration(value),
            percent(schedule.iteration_time / value - 1) if value else "-",
        )
        for name, value in proven.items()
    ]
    print_table("bounds", ("bound", "iteration >=", "gap"), cells)


def _with_share(time: float, whole: int) -> str:
    return f"{duration(time)} ({percent(time / whole)})"
