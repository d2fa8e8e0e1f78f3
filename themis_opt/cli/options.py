"""Options that subcommands share, in groups, and the instance or schedule that they make together."""

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_type_hints

from typer import Argument, Option

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.cli import completion
from themis_opt.problem.cost_terms import COST_TERMS

if TYPE_CHECKING:
    from themis_opt.families.family import AnySchedule, Problem
    from themis_opt.policies.registry import Policy
    from themis_opt.problem.instance import Instance
    from themis_opt.workloads.timing import Rate

InstanceArgument = Annotated[
    str,
    Argument(
        help="Instance file, or the name of a shipped instance.",
        metavar="INSTANCE",
        autocompletion=completion.instances,
    ),
]
ScheduleFile = Annotated[Path, Argument(help="Schedule file.", metavar="SCHEDULE")]
Size = Annotated[str | None, Option(help="Size of every collective instead of the instance's, such as 500MiB.")]
NumChunks = Annotated[int | None, Option("--chunks", help="Chunks of every collective instead of the instance's.")]
Latency = Annotated[str | None, Option(help="lag or occupy, instead of the instance's.")]
AgOrder = Annotated[str | None, Option(help="free or reverse, instead of the instance's.")]
Policies = Annotated[
    str | None,
    Option(
        help="Policies to run, with commas between them, such as baseline,themis+scf.",
        autocompletion=completion.policies,
    ),
]
Seed = Annotated[int, Option(help="Seed of the solver and of random policies.", min=0, max=2**31 - 1)]
SizeChoice = Literal["equal", "free"]
ChunkSizes = Annotated[SizeChoice, Option("--chunk-sizes", help="Where a policy can choose; free: at most --chunks.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]


REPLACED = "Existing files of the same names are replaced."


def output(meaning: str, replaced: str = REPLACED) -> Any:
    """The option of where results are written, and what becomes of files that are there."""
    return Option("-o", "--output", help=f"{meaning} {replaced}")


@dataclass(frozen=True)
class OptionGroup:
    """Options that several commands share: each field is an option, or a group of them, and its value the default."""

    def parameters(self) -> Iterator[Parameter]:
        """One parameter for each option, in order."""
        hints = get_type_hints(type(self), include_extras=True)
        for option in fields(self):
            value = getattr(self, option.name)
            if isinstance(value, OptionGroup):
                yield from value.parameters()
            else:
                yield _option(option.name, hints[option.name], value)

    def given(self) -> dict[str, Any]:
        """What is not left as it is, by the names of options."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        groups = [value.given() for value in values.values() if isinstance(value, OptionGroup)]
        single = {name: value for name, value in values.items() if not isinstance(value, OptionGroup | None)}
        return {name: value for group in (single, *groups) for name, value in group.items()}

    def filled(self, values: Mapping[str, Any]) -> Self:
        """The group with the values of a command line, by the names of options."""
        changes = {}
        for option in fields(self):
            value = getattr(self, option.name)
            is_group = isinstance(value, OptionGroup)
            changes[option.name] = value.filled(values) if is_group else values.get(option.name, value)
        return replace(self, **changes)


def _option(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@dataclass(frozen=True)
class Costs(OptionGroup):
    """How latencies count, and one option for each term of :data:`~themis_opt.problem.cost_terms.COST_TERMS`."""

    latency: Latency = None
    terms: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys(COST_TERMS))

    def parameters(self) -> Iterator[Parameter]:
        """The latency, and the terms by their names."""
        yield _option("latency", Latency)
        for name, term in COST_TERMS.items():
            yield _option(name, Annotated[str | None, Option(help=term.meaning)])

    def filled(self, values: Mapping[str, Any]) -> "Costs":
        """The costs that a command line names."""
        return Costs(values["latency"], {name: values.get(name) for name in COST_TERMS})

    def given(self) -> dict[str, str]:
        """What is not left as it is, by the names of options."""
        every = {"latency": self.latency, **self.terms}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True)
class Changes(OptionGroup):
    """What differs from the instance of a file."""

    size: Size = None
    chunks: NumChunks = None
    ag_order: AgOrder = None
    costs: Costs = field(default_factory=Costs)


EACH = "each"  # the value of ``--lost`` for one part of every role in turn

LIMITS = ("time_limit", "workers", "seed", "gap", "deterministic", "memory")
"""Options that limit the searches of every family."""


@dataclass(frozen=True)
class NetworkChanges(OptionGroup):
    """Links and nodes that are lost or slow."""

    lost: Annotated[
        str | None,
        Option(
            help="Links, nodes and boxes that fail, with commas between, such as nic,spine0; each: one of every role."
        ),
    ] = None
    slow: Annotated[str | None, Option(help="Parts with a share of their bandwidth, such as nic=0.5,leaf3=0.9.")] = None


@dataclass(frozen=True)
class Replanning(OptionGroup):
    """How the plan of a schedule file is timed."""

    costs: Costs = field(default_factory=Costs)
    chunk_sizes: Annotated[
        SizeChoice | None, Option(help="Instead of the schedule's; free: those that suit its order best.")
    ] = None

    def apply(self, schedule: Any) -> Any:
        """What the plan of a schedule takes with these costs and sizes; the schedule itself where there are none."""
        from themis_opt.families.door import family_of
        from themis_opt.families.family import refuse_changes
        from themis_opt.problem.cost_overrides import with_costs
        from themis_opt.schedules.schedule import Schedule
        from themis_opt.solving.sizing import replanned

        if not isinstance(schedule, Schedule):
            refuse_changes(family_of(schedule.problem).name, self.given())
            return schedule
        costs = self.costs.given()
        instance = with_costs(schedule.instance, **costs) if costs else schedule.instance
        return replanned(schedule, instance, self.chunk_sizes)


@dataclass(frozen=True)
class SearchOptions(OptionGroup):
    """What a search may spend, and what it keeps."""

    time_limit: Annotated[
        float,
        Option(
            help="Seconds for the whole command; with --deterministic, work that takes about so long.", min=0.1, max=1e9
        ),
    ] = 60.0
    workers: Annotated[int, Option(help="Threads of the solver.", min=1, max=1024)] = 2
    seed: Seed = 0
    gap: Annotated[
        float | None, Option(help="Stop at this gap (a fraction); exit code 1 if it is not reached.", min=0)
    ] = None
    sizes: ChunkSizes = "equal"
    deterministic: Annotated[bool, Option("--deterministic", help="Same result on every run: limits count work.")] = (
        False
    )
    memory: Annotated[float, Option(help="GiB of memory at which the search ends.", min=0.001, max=1e6)] = 4.0
    solver_log: Annotated[
        Path | None, Option("--solver-log", help="File for what CP-SAT logs of its models, presolve and search.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """The limits as :func:`themis_opt.compare` takes them."""
        from formulations.limits import PROVEN_GAP

        names = ("time_limit", "workers", "seed", "gap", "sizes", "deterministic", "memory")
        given = {name: getattr(self, name) for name in names}
        return given | {"gap": PROVEN_GAP if self.gap is None else self.gap}


SLOWEST_NPU = 10**6  # floating-point operations per second below those of any processor


@dataclass(frozen=True)
class Training(OptionGroup):
    """What a model is trained on, and how fast NPUs compute."""

    batch: Annotated[int, Option(help="Samples of one step, for each NPU or group that holds a copy of the model.")] = (
        32
    )
    sequence: Annotated[int | None, Option(help="Tokens of one sample, where the model reads sequences.")] = None
    dtype: Annotated[str, Option("--dtype", help="fp16, bf16 or fp32.")] = "fp16"
    flops: Annotated[
        str | None,
        Option(help="Floating-point operations per second of an NPU: those of --device in 16 bits, else 120 TFLOP/s."),
    ] = None
    efficiency: Annotated[float, Option(help="Fraction of --flops that is reached.")] = 1.0

    def rate(self, device: str = "") -> "Rate":
        """The speed of an NPU, by default the peak of a device. Raises InputError if it is that of no processor."""
        from themis_opt.workloads.setup import rate_of

        rate = rate_of(self.flops, self.efficiency, device, self.dtype)
        if self.flops and self.flops[-1].isdigit() and rate.flops < SLOWEST_NPU:
            rule = f"means {rate.flops} FLOP/s: write the unit, such as '{rate.flops} TFLOP/s'"
            raise InputError(rule, field="--flops", value=self.flops)
        return rate


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups, which are parameters whose type is an :class:`OptionGroup`.

    An option that the command has for itself stands for the one of that name in a group.
    """
    known = signature(command).parameters
    groups = {name: group for name, parameter in known.items() if (group := _group(parameter)) is not None}
    parameters: list[Parameter] = []
    for name, parameter in known.items():
        if name in groups:
            parameters += [option for option in groups[name].parameters() if option.name not in known]
        else:
            parameters.append(parameter)

    @wraps(command)
    def with_groups(**values: Any) -> None:
        single = {name: values.pop(name) for name in list(values) if name in known}
        command(**single, **{name: group.filled(values) for name, group in groups.items()})

    with_groups.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return with_groups


def _group(parameter: Parameter) -> OptionGroup | None:
    """The group that a parameter stands for, with its defaults."""
    kind = parameter.annotation
    if not (isinstance(kind, type) and issubclass(kind, OptionGroup)):
        return None
    return kind() if parameter.default is Parameter.empty else parameter.default


def load_problem(
    source: str, changes: Changes = Changes(), network: NetworkChanges | None = None, policies: str | None = None
) -> "Problem":
    """The problem of a file or a name, with the changes of the command line.

    Collectives on dimensions move to a graph where links are to be lost or slow, or all policies are those of graphs.
    """
    from themis_opt.families.door import family_of

    problem = _read(source)
    gc.freeze()  # it stays until the end, as what is imported does: no need to look through them again and again
    family, given = family_of(problem), changes.given()
    changed = family.changed(problem, given)
    if not given.keys().isdisjoint(COST_TERMS) or Path(source).exists():  # shipped networks are as their sources say
        warn(family.doubts(changed), source)
    is_changed = network is not None and bool(network.given())
    moved: Problem = family.on_graph(changed, split(policies) or (), needed=is_changed)
    return moved


def _read(source: str) -> "Problem":
    """The problem of a file or a name; a schedule is refused with the commands that take one."""
    from themis_opt.families.door import format_in, load_problem

    try:
        return load_problem(source)
    except InputError:
        if "schedule" in format_in(Path(source)):
            rule = "is a schedule: give its instance; 'validate', 'explain', 'plot', 'export' and 'run' take schedules"
            raise InputError(rule, field="instance", value=source) from None
        raise


def load_instance(source: str, changes: Changes = Changes()) -> "Instance":
    """An instance on dimensions with the changes of the command line, for commands that take no other problem."""
    from themis_opt.families.calls import instance_for

    return instance_for(load_problem(source, changes))


def warn(doubts: Iterable[str], source: str) -> None:
    """Tell what seems wrong with a network."""
    from themis_opt.cli.printing import tell

    for doubt in doubts:
        tell(f"warning: {source}: {doubt}")


def load_solution(path: Path, instance: str | None = None) -> "tuple[AnySchedule, Any]":
    """The schedule of a file of any family, validated, and the summary beside it.

    It must belong to `instance`, if there is one.
    """
    from themis_opt.families.door import read_solution

    try:
        return read_solution(path, None if instance is None else load_problem(instance))
    except InputError:
        is_problem = False
        with suppress(InputError):
            is_problem = bool(_read(str(path)))
        if is_problem:
            rule = "is an instance: solve it, then give the schedule.json that 'themis-opt solve' writes"
            raise InputError(rule, field="schedule", value=path.name) from None
        raise
    except InvalidSchedule as error:
        raise error.within(str(path)) from None


@contextmanager
def solver_logged(path: Path | None) -> Iterator[None]:
    """Write what the solver logs into a file, if there is one."""
    if path is None:
        yield
        return
    from formulations.limits import LOG

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


def choose_policies(
    instance: "Instance", text: str | None, default: Callable[["Instance"], Sequence[str]], sizes: SizeChoice = "equal"
) -> dict[str, "Policy"]:
    """The policies for an instance by their specifications: those in a list with commas, or the default ones.

    Those that can choose the sizes of chunks do so as `sizes` says. Raises InputError if the list names no policy, one
    twice, or one that cannot be made or is not for this instance.
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
