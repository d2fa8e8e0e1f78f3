"""``themis-opt simulate``: exact times of policies, without solver or bounds."""

from pathlib import Path
from typing import Annotated

from themis_opt.base.errors import InputError
from themis_opt.cli import families, options


@options.grouped
def simulate(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for one schedule and its pictures per policy.")] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate policies and print makespan and utilisation, or what a training iteration takes."""
    other = families.load_other(source, changes)
    if other is not None:
        if output is not None:
            raise InputError(
                "is for instances on dimensions: 'solve' writes files", field="--output", value=str(output)
            )
        families.simulate(other, policies, as_json=as_json)
        return
    instance = options.load_instance(source, changes)

    from themis_opt.base.documents import file_name
    from themis_opt.cli.printing import assumptions, note_free_cuts, print_json, print_results, tell_files
    from themis_opt.formats.bundle import write_schedule
    from themis_opt.policies.registry import usual_policies
    from themis_opt.schedules.simulator import simulate as run
    from themis_opt.schedules.validation import validate
    from themis_opt.study.columns import schedule_row
    from themis_opt.study.comparison import checked_sizes

    chosen = options.choose_policies(instance, policies, usual_policies, checked_sizes(sizes))
    schedules = {name: run(instance, policy(instance)) for name, policy in chosen.items()}
    for name, schedule in schedules.items():
        validate(schedule)
        if output is not None:
            tell_files(write_schedule(output / file_name(name), schedule, title=name))
    rows = [{"policy": name, **schedule_row(schedule)} for name, schedule in schedules.items()]
    if as_json:
        print_json(rows)
    else:
        print_results(assumptions(instance, sizes), rows, list(schedules.values()))
        note_free_cuts(list(schedules.values()))
