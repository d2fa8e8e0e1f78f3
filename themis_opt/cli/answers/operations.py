"""What commands answer from timed operations alone, for each family whose schedules have them."""

from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import ThemisError
from themis_opt.base.units import nanoseconds
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.families.family import Problem


def simulate_operations(problem: "Problem", policies: str | None) -> Reply:
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
    shown: ShownColumns = {
        "policy": ("policy", "text"),
        "makespan_ns": ("makespan", "time"),
        "busiest": ("busiest resource", "share"),
        "mean_busy": ("mean of resources", "share"),
    }
    return Reply(rows, (), [Listing(f"{problem.name or problem.family}: {len(rows)} policies", rows, shown)], notes)
