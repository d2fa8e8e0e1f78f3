"""What subcommands do where the instance, or the schedule file, is one of training iterations."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from themis_opt.cli.problems import split_iteration_policies
from themis_opt.errors import InputError, InvalidSchedule

if TYPE_CHECKING:
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.iterations.schedule import IterationSchedule


def run_iteration_simulation(
    instance: "IterationInstance", policies: str | None, output: Path | None, as_json: bool
) -> None:
    """Simulate heuristic policies, print their times, and write one folder for each into `output`, if there is one."""
    from themis_opt.cli.iteration_printing import print_iteration_times
    from themis_opt.cli.progress import tell
    from themis_opt.formats.iteration_bundle import write_iteration_schedule
    from themis_opt.iterations.registry import COMPARED, REFERENCE, make_iteration_policy
    from themis_opt.iterations.simulator import simulate_iterations
    from themis_opt.iterations.validation import validate_iterations

    names = split_iteration_policies(policies, [name for name in COMPARED if name != REFERENCE])
    if REFERENCE in names:
        raise InputError("searches, and is for solve and compare", field="--policies", value=REFERENCE)
    schedules = {name: simulate_iterations(instance, make_iteration_policy(name)(instance)) for name in names}
    for name, schedule in schedules.items():
        validate_iterations(schedule)
        if output is not None:
            folder = output / name.replace(":", "_").replace("/", "_")
            for path in write_iteration_schedule(folder, schedule, title=name):
                tell(f"wrote {path}")
    print_iteration_times(instance, schedules, as_json)


def holds_iterations(path: Path) -> bool:
    """Whether a schedule file is one of training iterations."""
    from themis_opt.documents import read_json
    from themis_opt.formats.iteration_json import FORMAT

    return bool(read_json(path).get("format") == FORMAT)


def load_iteration_schedule(path: Path, instance: str | None = None) -> "IterationSchedule":
    """The schedule of a file, validated; it must belong to `instance`, a file or a shipped name, if there is one."""
    from themis_opt.catalog import load
    from themis_opt.formats.iteration_json import read_iteration_schedule
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.iterations.validation import validate_iterations

    wanted = load(instance) if instance else None
    if wanted is not None and not isinstance(wanted, IterationInstance):
        raise InputError("holds collectives; the schedule is one of training iterations", source=str(instance))
    schedule = read_iteration_schedule(path, wanted)
    try:
        validate_iterations(schedule)
    except InvalidSchedule as error:
        raise error.within(str(path)) from None
    return schedule


def validate_iteration_file(path: Path, instance: str | None, data: bool, as_json: bool) -> None:
    """Check a schedule of iterations against every rule; with `data`, move real data through its last whole one."""
    from themis_opt.cli.printing import duration, print_json, print_moved_data
    from themis_opt.formats.iteration_span import unfolded
    from themis_opt.iterations.validation import RULES
    from themis_opt.verification import verify

    schedule = load_iteration_schedule(path, instance)
    last = schedule.num_iterations - 2
    moved = verify(unfolded(schedule, range(last, last + 1))) if data else None
    if as_json:
        times = {"iteration_ns": schedule.iteration_time / 1000, "exposed_ns": schedule.exposed / 1000}
        report = {"data": asdict(moved)} if moved else {}
        print_json({"valid": True, "rules": list(RULES), "iterations": schedule.num_iterations} | times | report)
        return
    times_in_words = f"iteration {duration(schedule.iteration_time)}, exposed {duration(schedule.exposed)}"
    typer.echo(f"valid: {len(RULES)} rules hold ({', '.join(RULES)}), {times_in_words}")
    if moved:
        print_moved_data(moved)
