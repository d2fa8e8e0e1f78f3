"""What if: the plan of a schedule on the same network with other costs, or cut in chunks of other sizes."""

from dataclasses import replace

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.sizing import resized
from themis_opt.study.comparison import checked_sizes


def replanned(schedule: Schedule, instance: Instance, sizes: str | None = None) -> Schedule:
    """The plan of a schedule, simulated again; the schedule itself where nothing changes.

    Raises InputError if the sizes are neither.

    `instance`: the same exchanges and dimensions, perhaps with other costs.
    `sizes`: chunks of equal size, or of the sizes that suit the order of the plan best, not the present ones; paths and
      orders stay, and so does the number of chunks, but for those that end with nothing.
    """
    if sizes is not None:
        checked_sizes(sizes)
    plan = _with_equal_sizes(schedule.plan, instance) if sizes == "equal" else schedule.plan
    is_same = plan is schedule.plan and instance is schedule.instance
    changed = schedule if is_same else simulate(instance, plan)
    return resized(changed) if sizes == "free" else changed


def _with_equal_sizes(plan: Plan, instance: Instance) -> Plan:
    chunks = tuple(
        replace(chunks, sizes=equal_sizes(replace(exchange, max_chunks=len(chunks.sizes))))
        for chunks, exchange in zip(plan.chunks, plan.launched(instance), strict=True)
    )
    return replace(plan, chunks=chunks)
