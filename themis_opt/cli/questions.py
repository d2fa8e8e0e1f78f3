"""Commands that ask the family of a problem or a schedule one question, and what files may hold."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Reply, ask


@options.grouped
def bound(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    network: options.NetworkChanges,
    sizes: Annotated[
        options.SizeChoice | None, Option("--chunk-sizes", help="Only the bounds that hold for them.")
    ] = None,
    output: Annotated[Path | None, options.output("With --lost each: a picture of what hurts most.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print every proven lower bound on the makespan, or on the time of a training iteration."""
    problem = options.load_problem(source, changes, network)
    ask("bound", problem, problem, chunk_sizes=sizes, output=output, **network.given()).tell(as_json=as_json)


@options.grouped
def simulate(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for one schedule and its pictures per policy.")] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate policies and print makespan and utilisation, or what a training iteration takes."""
    problem = options.load_problem(source, changes, policies=policies)
    ask("simulate", problem, problem, policies, output=output, sizes=sizes).tell(as_json=as_json)


def validate(
    path: options.ScheduleFile,
    instance: Annotated[str | None, Option(help="Instance it must belong to, a file or a shipped name.")] = None,
    data: Annotated[bool, Option("--data", help="Also move real data on virtual NPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a schedule against every rule of the model."""
    schedule, _ = options.load_solution(path, instance)
    ask("validate", schedule.problem, schedule, data=data).tell(as_json=as_json)


@options.grouped
def explain(
    path: options.ScheduleFile,
    *,
    replanning: options.Replanning,
    steps: Annotated[int, Option(help="Stages of the critical path, and waits, to list.", min=0)] = 12,
    as_json: options.Json = False,
) -> None:
    """Show where the time of each resource goes, the critical path, what compute waits for, and the closest bound.

    With other costs or chunk sizes, of what the same plan takes then.
    """
    schedule, summary = options.load_solution(path)
    given = replanning.given()
    ask("explain", schedule.problem, schedule, summary, steps=steps, **given).tell(as_json=as_json)


def plot(
    path: options.ScheduleFile,
    output: Annotated[Path, options.output("The picture: PNG, SVG, PDF or (with LaTeX) PGF by its suffix.")],
    beside: Annotated[str | None, Option(help="Policy whose schedule is drawn below on the same axis of time.")] = None,
    style: Annotated[
        Literal["screen", "paper"], Option(help="paper: 3.3 inches wide, small letters, no legend.")
    ] = "screen",
) -> None:
    """Draw a schedule; in papers, and beside another one, with the best bound as a line."""
    schedule, _ = options.load_solution(path)
    ask("plot", schedule.problem, schedule, output, beside=beside, style=style).tell(as_json=False)


def export(
    path: options.ScheduleFile,
    to: Annotated[str | None, Option(help="Format, with knobs behind colons, such as msccl:dialect=rccl.")] = None,
    model: Annotated[
        bool, Option("--model", help="The same as --to model: for a separate solver (CP-SAT, LP, MPS).")
    ] = False,
    output: Annotated[Path | None, options.output("Folder for the files; FORMAT.export by default.")] = None,
    check: Annotated[
        bool, Option("--check", help="Read the files again, and run them by the rules of their format.")
    ] = False,
) -> None:
    """Write a schedule in the format of another tool.

    The command "themis-opt list exports" names the formats.
    """
    from themis_opt.cli.progress import export_progress
    from themis_opt.families.door import family_of

    if (to is None) == (not model):
        raise InputError("name one format, with --to or --model", field="--to", value=to)
    to = to or "model"
    schedule, _ = options.load_solution(path)
    folder = output or Path(f"{to.partition(':')[0]}.export")
    with export_progress():
        written = family_of(schedule.problem).export(schedule, to, folder, check=check)
    Reply(None, [f"checked: {fact}" for fact in written.facts], (), written.notes, written.files).tell(as_json=False)


FileKind = Literal[
    "instance", "experiment", "schedule", "order", "times", "design", "pipeline", "graph",
    "graph-schedule",
]  # fmt: skip

OTHER_SCHEMAS: Mapping[str, str] = {
    "experiment": "themis_opt.batches.experiment:experiment_schema",
    "order": "themis_opt.formats.flat_exports:order_schema",
    "times": "themis_opt.workloads.timing:times_schema",
    "design": "themis_opt.designing.problem:DesignProblem",
}


@options.grouped
def show(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    network: options.NetworkChanges,
    whole: Annotated[bool, Option("--all", help="Of an iteration, every task and tensor.")] = False,
    output: Annotated[Path | None, options.output("A picture of the network, with its capacities.")] = None,
    as_json: options.Json = False,
) -> None:
    """Describe a problem: its dimensions, links or stages, its collectives or its training iteration, and its rules."""
    problem = options.load_problem(source, changes, network)
    ask("show", problem, problem, whole=whole, output=output, **network.given()).tell(as_json=as_json)


def schema(
    kind: Annotated[FileKind, Argument(help="The same as --of.")] = "instance",
    of: Annotated[
        FileKind | None,
        Option(help="Files of instances, experiments, schedules, order tables, times of layers, or design problems."),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of files."""
    from themis_opt.families import door
    from themis_opt.problem.documents import model_schema

    module, _, name = {**OTHER_SCHEMAS, **door.SCHEMAS}[of or kind].partition(":")
    made = getattr(import_module(module), name)
    typer.echo(model_schema(made) if isinstance(made, type) else made(), nl=False)
