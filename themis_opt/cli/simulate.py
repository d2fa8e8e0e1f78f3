"""``themis-opt simulate``: exact times of heuristic policies, without solver or bounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.instance import Instance


def simulate(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    policies: options.Policies = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for one schedule and its pictures per policy.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate policies and print makespan and utilisation, or what a training iteration takes."""
    from themis_opt.instance import Instance

    problem = options.load_problem(source, size, chunks, latency, ag_order)
    if isinstance(problem, Instance):
        _simulate(problem, policies, output, as_json)
    else:
        from themis_opt.cli.iterations import run_iteration_simulation

        run_iteration_simulation(problem, policies, output, as_json)


def _simulate(instance: "Instance", policies: str | None, output: Path | None, as_json: bool) -> None:
    from themis_opt.cli.printing import durations, percent, print_json, print_table
    from themis_opt.formats.bundle import write_schedule
    from themis_opt.policies.registry import HEURISTICS, make_policy
    from themis_opt.simulator import simulate as run
    from themis_opt.validation import validate

    schedules = {
        name: run(instance, make_policy(name)(instance)) for name in options.split_policies(policies, HEURISTICS)
    }
    for name, schedule in schedules.items():
        validate(schedule)
        if output is not None:
            for path in write_schedule(output / name.replace(":", "_"), schedule, title=name):
                typer.echo(f"wrote {path}", err=True)
    if as_json:
        rows = [
            {"policy": name, "makespan_ns": s.makespan / 1000, "utilisation": s.utilisation}
            for name, s in schedules.items()
        ]
        print_json(rows)
        return
    makespans = durations([s.makespan for s in schedules.values()])
    cells = [
        (name, makespan, percent(s.utilisation))
        for (name, s), makespan in zip(schedules.items(), makespans, strict=True)
    ]
    print_table(instance.name or "instance", ("policy", "makespan", "utilisation"), cells)
