"""What commands answer from timed operations alone: the same for schedules of every family."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import ThemisError
from themis_opt.base.units import nanoseconds
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.families.family import Problem
    from themis_opt.schedules.timed import Explanation

TIMES = {"start": "start_ns", "busy": "busy_ns", "lag": "lag_ns", "idle": "idle_ns", "length": "wait_ns"}
"""Names that fields of an explanation have in JSON, where they are nanoseconds."""


def parts(explanation: "Explanation") -> dict[str, list[dict[str, Any]]]:
    """The parts of an explanation as plain values."""
    return {name: [_in_ns(part) for part in entries] for name, entries in asdict(explanation).items()}


def _in_ns(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {TIMES.get(name, name): nanoseconds(value) if name in TIMES else value for name, value in fields.items()}


def resource_table(title: str, explanation: "Explanation", most: int | None = None) -> Listing:
    """How the first resources spend the time."""
    rows: list[dict[str, Any]] = []
    for resource in explanation.resources[:most]:
        times = {part: getattr(resource, part) for part in ("busy", "lag", "idle")}
        whole = max(sum(times.values()), 1)
        row: dict[str, Any] = {"resource": resource.name}
        for part, time in times.items():
            row |= {part: nanoseconds(time), f"{part} share": time / whole}
        rows.append(row)
    shown: ShownColumns = columns("resource")
    for part in ("busy", "lag", "idle"):
        shown = {**shown, part: (part, "time"), f"{part} share": (f"{part} share", "share")}
    return Listing(title, rows, shown)


def path_table(explanation: "Explanation", limit: int, what: str) -> Listing:
    """The first and the last steps of the critical path."""
    steps = [_in_ns(asdict(step)) for step in explanation.steps]
    few = steps if len(steps) <= limit else [*steps[: limit // 2], *steps[len(steps) - (limit - limit // 2) :]]
    ends = "" if len(few) == len(steps) else f", {len(few)} of them from both ends"
    shown = columns("label", "start_ns", "busy_ns", "lag_ns", "waited_for", label=(what, "text"))
    return Listing(f"critical path: {len(steps)} {what}s{ends}", few, shown)


def bound_table(makespan: float, bounds: Mapping[str, float], title: str = "makespan") -> Listing:
    """Bounds in picoseconds, the closest marked, and the gap to each."""
    closest = max(bounds, key=lambda name: bounds[name])
    rows = [
        {
            "bound": name + (" (closest)" if name == closest else ""),
            "bound_ns": nanoseconds(value),
            "gap": makespan / value - 1 if value else 0.0,
        }
        for name, value in bounds.items()
    ]
    return Listing("bounds", rows, columns("bound", "bound_ns", "gap", bound_ns=(f"{title} >=", "time")))


def simulate(problem: "Problem", policies: str | None) -> Reply:
    """The makespan of policies, and how busy resources are; policies that do not apply are noted."""
    from themis_opt.families.door import family_of

    family, rows, notes = family_of(problem), list[dict[str, Any]](), []
    for name in options.split(policies) or family.usual:
        try:
            schedule = family.simulate(problem, family.make_policy(name)(problem))
            family.validate(schedule)
        except ThemisError as error:
            if policies:
                raise
            notes.append(f"{name} was left out: {error}")
            continue
        busy = schedule.timed.busy.values()
        row = {"policy": name, "makespan_ns": nanoseconds(getattr(schedule, "value", schedule.makespan))}
        rows.append(row | {"busiest": max(busy), "mean_busy": sum(busy) / len(busy)})
    busy_shares: ShownColumns = {"busiest": ("busiest resource", "share"), "mean_busy": ("mean of resources", "share")}
    shown = {**columns("policy", "makespan_ns"), **busy_shares}
    return Reply(rows, (), [Listing(f"{problem.name or problem.family}: {len(rows)} policies", rows, shown)], notes)
