"""Options that subcommands share, and the instance they make together."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from themis_opt.errors import InputError, InvalidSchedule

if TYPE_CHECKING:
    from themis_opt.instance import Instance
    from themis_opt.iteration_instance import IterationInstance
    from themis_opt.schedule import Schedule

InstanceSource = Annotated[
    str, typer.Argument(help="Instance file, or the name of a shipped instance.", metavar="INSTANCE")
]
ScheduleFile = Annotated[Path, typer.Argument(help="Schedule file.", metavar="SCHEDULE")]
Size = Annotated[str | None, typer.Option(help="Size of every collective instead of the instance's, such as 500MiB.")]
NumChunks = Annotated[
    int | None, typer.Option("--chunks", help="Chunks of every collective instead of the instance's.")
]
Latency = Annotated[str | None, typer.Option(help="lag or occupy, instead of the instance's.")]
AgOrder = Annotated[str | None, typer.Option(help="free or reverse, instead of the instance's.")]
Policies = Annotated[
    str | None, typer.Option(help="Policies to run, with commas between them, such as baseline,themis+scf.")
]
TimeLimit = Annotated[
    float,
    typer.Option(
        help="Seconds for the whole command; with --deterministic, work that takes about so long.",
        min=0.1,
        max=1e9,
    ),
]
Workers = Annotated[int, typer.Option(help="Threads of the solver.", min=1, max=1024)]
Seed = Annotated[int, typer.Option(help="Seed of the solver and of random policies.", min=0, max=2**31 - 1)]
Gap = Annotated[
    float | None, typer.Option(help="Stop at this gap (a fraction); exit code 1 if it is not reached.", min=0)
]
Sizes = Annotated[str, typer.Option(help="Chunk sizes where a policy can choose: equal, or free (at most --chunks).")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Same result on every run: limits count work, the cache is not used.")
]
Memory = Annotated[float, typer.Option(help="GiB of memory at which the search ends.", min=0.001, max=1e6)]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep plans in the user's cache folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def load_instance(
    source: str, size: str | None, chunks: int | None, latency: str | None, ag_order: str | None
) -> "Instance":
    """The collectives of an instance, with the overrides of the command line."""
    from themis_opt.instance import Instance

    found = load_problem(source, size, chunks, latency, ag_order)
    if not isinstance(found, Instance):
        raise InputError("holds a training iteration; this command needs collectives", source=source)
    return found


def load_problem(
    source: str, size: str | None, chunks: int | None, latency: str | None, ag_order: str | None
) -> "Instance | IterationInstance":
    """The collectives or the training iteration of an instance, with the overrides of the command line."""
    from pydantic import ValidationError

    from themis_opt.catalog import load
    from themis_opt.cost import check_clock
    from themis_opt.instance import Instance, located

    instance = load(source)
    try:
        changed = instance.overridden(size=size, chunks=chunks, latency=latency, ag_order=ag_order)
    except ValidationError as error:
        raise located(error).within("command line") from None
    except InputError as error:
        raise error.within("command line") from None
    if isinstance(changed, Instance):
        check_clock(changed)
    return changed


def load_schedule(path: Path, instance: "Instance | None" = None) -> "Schedule":
    """The schedule of a file, validated; it must belong to `instance`, if there is one."""
    from themis_opt.formats.schedule_json import read_schedule
    from themis_opt.validation import validate

    schedule = read_schedule(path, instance)
    try:
        validate(schedule)
    except InvalidSchedule as error:
        raise error.within(str(path)) from None
    return schedule


def split_policies(text: str | None, default: Sequence[str], check: Callable[[str], object] | None = None) -> list[str]:
    """The specifications in a list with commas; `default` where there is none.

    Parameters
    ----------
    check : callable, optional
        Refuses a specification that is unknown; by default those of collectives are known.

    Raises
    ------
    InputError
        If the list names no policy, one twice, or one that is unknown.
    """
    from themis_opt.policies.registry import policy_name

    if text is None:
        return list(default)
    specifications = [part.strip() for part in text.split(",") if part.strip()]
    if not specifications or len(set(specifications)) < len(specifications):
        raise InputError("must name one or more policies, each once", field="--policies", value=text)
    for specification in specifications:
        (check or policy_name)(specification)
    return specifications
