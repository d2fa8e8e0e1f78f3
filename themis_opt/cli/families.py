"""What commands do with problems of every family but the first, which has columns and options of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.families.family import Problem


def load_other(source: str, changes: options.Changes) -> "Problem | None":
    """The graph or pipeline that a source names; None for an instance on dimensions.

    Raises
    ------
    InputError
        If an instance on dimensions was to be changed, and the source is another problem.
    """
    from themis_opt.families.door import family_in_file, load
    from themis_opt.problem.catalog import all_shipped, is_random, shipped_pipelines

    if is_random(source):
        return None
    path = (all_shipped() | shipped_pipelines()).get(source, Path(source))
    if not path.is_file() or family_in_file(path) == "product":
        return None
    for name, value in changes.given().items():
        raise InputError("is for instances on dimensions", field=f"--{name.replace('_', '-')}", value=value)
    return load(path)


def simulate(problem: "Problem", policies: str | None, *, as_json: bool) -> None:
    """Print the makespan of policies, and how busy resources are; policies that do not apply are noted."""
    from themis_opt.base.errors import ThemisError
    from themis_opt.base.units import nanoseconds
    from themis_opt.cli.printing import print_json, print_rows, tell_note
    from themis_opt.families.door import family_of

    family, rows = family_of(problem), list[dict[str, Any]]()
    for name in options.split(policies) or family.usual:
        try:
            schedule = family.simulate(problem, family.make_policy(name)(problem))
            family.validate(schedule)
        except ThemisError as error:
            if policies:
                raise
            tell_note(f"{name} was left out: {error}")
            continue
        busy = schedule.timed.busy.values()
        row = {"policy": name, "makespan_ns": nanoseconds(getattr(schedule, "value", schedule.makespan))}
        rows.append(row | {"busiest": max(busy), "mean_busy": sum(busy) / len(busy)})
    if as_json:
        print_json(rows)
        return
    shown: dict[str, Any] = {
        "policy": ("policy", "text"),
        "makespan_ns": ("makespan", "time"),
        "busiest": ("busiest resource", "share"),
        "mean_busy": ("mean of resources", "share"),
    }
    print_rows(f"{problem.name or problem.family}: {len(rows)} policies", rows, shown)


def show(problem: "Problem", *, as_json: bool) -> None:
    """Describe a problem."""
    from themis_opt.cli.printing import print_json, print_table, say
    from themis_opt.families.door import family_of

    sentence, fields = family_of(problem).describe(problem)
    if as_json:
        print_json(dict(fields) | {"family": problem.family, "fingerprint": problem.fingerprint})
        return
    say(sentence)
    print_table(problem.family, ("field", "value"), list(fields.items()))


def explain(path: Path, family: str, steps: int, *, as_json: bool) -> None:
    """Print the critical path of a schedule and the busiest resources."""
    from themis_opt.base.units import format_duration, format_percent, nanoseconds
    from themis_opt.cli.printing import print_json, print_rows, say
    from themis_opt.families.door import family_named

    schedule = family_named(family).read_schedule(path)
    explanation, whole = family_named(family).explain(schedule), schedule.makespan
    resources = [
        {"resource": one.name, "busy_ns": nanoseconds(one.busy), "share": one.busy / whole}
        for one in explanation.resources
    ]
    path_rows = [
        {"operation": step.label, "start_ns": nanoseconds(step.start), "busy_ns": nanoseconds(step.busy)}
        | {"lag_ns": nanoseconds(step.lag), "waited_for": step.waited_for}
        for step in explanation.steps
    ]
    if as_json:
        value = nanoseconds(getattr(schedule, "value", whole))
        times = {"makespan_ns": value, "all_stages_ns": nanoseconds(whole)}
        print_json(times | {"resources": resources, "steps": path_rows})
        return
    busiest = explanation.resources[0]
    share = format_percent(busiest.busy / whole)
    say(f"All stages end after {format_duration(whole)}; {busiest.name} is busiest, for {share} of the time.")
    columns: dict[str, Any] = {
        "resource": ("resource", "text"),
        "busy_ns": ("busy", "time"),
        "share": ("of all", "share"),
    }
    print_rows(f"resources: {len(resources)}", resources[:steps], columns)
    shown: dict[str, Any] = {
        "operation": ("operation", "text"),
        "start_ns": ("start", "time"),
        "busy_ns": ("busy", "time"),
        "waited_for": ("waited for", "text"),
    }
    print_rows(f"critical path: {len(path_rows)} operations", _both_ends(path_rows, steps), shown)


def _both_ends(rows: Sequence[dict[str, Any]], most: int) -> Sequence[dict[str, Any]]:
    """The first and the last rows of many."""
    return rows if len(rows) <= most else [*rows[: most // 2], *rows[len(rows) - (most - most // 2) :]]
