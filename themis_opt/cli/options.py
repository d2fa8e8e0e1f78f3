"""Options that subcommands share, and the instance they make together."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.cli import completion
from themis_opt.problem.cost_terms import COST_TERMS

if TYPE_CHECKING:
    from themis_opt.policies.registry import Policy
    from themis_opt.problem.instance import Instance
    from themis_opt.problem.network import Network
    from themis_opt.schedules.schedule import Schedule

InstanceSource = Annotated[
    str,
    typer.Argument(
        help="Instance file, or the name of a shipped instance.",
        metavar="INSTANCE",
        autocompletion=completion.instances,
    ),
]
ScheduleFile = Annotated[Path, typer.Argument(help="Schedule file.", metavar="SCHEDULE")]
Size = Annotated[str | None, typer.Option(help="Size of every collective instead of the instance's, such as 500MiB.")]
NumChunks = Annotated[
    int | None, typer.Option("--chunks", help="Chunks of every collective instead of the instance's.")
]
Latency = Annotated[str | None, typer.Option(help="lag or occupy, instead of the instance's.")]
AgOrder = Annotated[str | None, typer.Option(help="free or reverse, instead of the instance's.")]
Policies = Annotated[
    str | None,
    typer.Option(
        help="Policies to run, with commas between them, such as baseline,themis+scf.",
        autocompletion=completion.policies,
    ),
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
Sizes = Annotated[
    str, typer.Option("--chunk-sizes", help="Where a policy can choose: equal, or free (at most --chunks).")
]
Replanned = Annotated[
    str | None,
    typer.Option("--chunk-sizes", help="equal, or free for those that suit its order best, instead of the schedule's."),
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Same result on every run: limits count work, the cache is not used.")
]
Memory = Annotated[float, typer.Option(help="GiB of memory at which the search ends.", min=0.001, max=1e6)]
SolverLog = Annotated[
    Path | None, typer.Option("--solver-log", help="File for what CP-SAT logs of its models, presolve and search.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep plans in the user's cache folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def with_costs(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each cost term, after --latency, in the place of its ``**costs``.

    A command that calls something else so has no option for that term.
    """
    known = {name: p for name, p in signature(command).parameters.items() if p.kind is not Parameter.VAR_KEYWORD}
    parameters: list[Parameter] = []
    for name, parameter in known.items():
        parameters.append(parameter)
        if name == "latency":
            terms = ((name, term) for name, term in COST_TERMS.items() if name not in known)
            parameters += [_cost_option(name, term.meaning) for name, term in terms]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _cost_option(name: str, meaning: str) -> Parameter:
    kind = Annotated[str | None, typer.Option(help=meaning)]
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)


def load_instance(
    source: str,
    size: str | None = None,
    chunks: int | None = None,
    latency: str | None = None,
    ag_order: str | None = None,
    costs: Mapping[str, str | None] = MappingProxyType({}),
) -> "Instance":
    """An instance with the overrides of the command line; `costs` as :func:`with_costs` hands them on."""
    from pydantic import ValidationError

    from themis_opt.problem.catalog import load
    from themis_opt.problem.cost import check_clock
    from themis_opt.problem.fields import located

    instance = load(source)
    warn(instance.network, source)
    try:
        changed = instance.overridden(size=size, chunks=chunks, latency=latency, ag_order=ag_order)
    except ValidationError as error:
        raise located(error).within("command line") from None
    except InputError as error:
        raise error.within("command line") from None
    check_clock(changed)
    if not any(costs.values()):
        return changed
    from themis_opt.problem.cost_overrides import with_costs as with_terms

    return with_terms(changed, **costs)


def warn(network: "Network", source: str) -> None:
    """Tell what seems wrong with a network of a file; shipped ones are as their sources say."""
    from themis_opt.cli.printing import tell
    from themis_opt.problem.plausibility import doubts

    for doubt in doubts(network) if Path(source).exists() else ():
        tell(f"warning: {source}: {doubt}")


def load_schedule(path: Path, instance: "Instance | None" = None) -> "Schedule":
    """The schedule of a file, validated; it must belong to `instance`, if there is one."""
    from themis_opt.problem.catalog import shipped
    from themis_opt.schedules.schedule_file import read_schedule
    from themis_opt.schedules.validation import validate

    if not path.exists() and path.name in shipped():
        rule = "is an instance; a schedule of it is what 'themis-opt solve' writes"
        raise InputError(rule, field="schedule", value=path.name)
    schedule = read_schedule(path, instance)
    try:
        validate(schedule)
    except InvalidSchedule as error:
        raise error.within(str(path)) from None
    return schedule


@contextmanager
def solver_logged(path: Path | None) -> Iterator[None]:
    """Write what the solver logs into a file, if there is one."""
    if path is None:
        yield
        return
    from formulations.budget import LOG

    try:
        handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    except OSError as error:
        rule = f"cannot be written: {error.strerror}"
        raise InputError(rule, field="--solver-log", value=str(path)) from None
    LOG.setLevel(logging.INFO)
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(logging.NOTSET)
        handler.close()


def replan(schedule: "Schedule", latency: str | None, sizes: str | None, costs: Mapping[str, str | None]) -> "Schedule":
    """What the plan of a schedule takes with other costs or chunk sizes; the schedule itself where there are none."""
    from themis_opt.problem.cost_overrides import with_costs as with_terms
    from themis_opt.study.replanning import replanned

    changed = latency is not None or any(costs.values())
    instance = with_terms(schedule.instance, latency=latency, **costs) if changed else schedule.instance
    return replanned(schedule, instance, sizes)


def choose_policies(
    instance: "Instance",
    text: str | None,
    default: Callable[["Instance"], Sequence[str]],
    sizes: str = "equal",
) -> dict[str, "Policy"]:
    """The policies for an instance by their specifications: those in a list with commas, or the default ones.

    Those that can choose the sizes of chunks do so as `sizes` says.

    Raises
    ------
    InputError
        If the list names no policy, one twice, or one that cannot be made or is not for this instance.
    """
    from themis_opt.policies.registry import make_policy, specify

    names = split(text)
    if names is None:
        names = tuple(default(instance))
    if not names or len(set(names)) < len(names):
        raise InputError("must name one or more policies, each once", field="--policies", value=text)
    return {name: make_policy(specify(name, instance), sizes=sizes) for name in names}


def split(text: str | None) -> tuple[str, ...] | None:
    """What stands between commas; None where there is no text."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())
