"""What the `instances` and `workloads` of an experiment stand for.

Instances are shipped ones, files beside it, and random networks; workloads are made into training iterations.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.batches.experiment import Workload
from themis_opt.families.door import load_problem as read_problem
from themis_opt.families.family import Problem
from themis_opt.problem.catalog import INSTANCES, shipped, shipped_clusters, shipped_graphs, shipped_pipelines
from themis_opt.problem.cost import check_clock
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.problem.random_networks import MAX_SEED, PREFIX, seed_of

MAX_INSTANCES = 10**6  # most instances that one pattern stands for
# Choices that every name of a workload tells; others are told where they differ among a model and parallelism
NAMED = ("model", "parallelism", "npus")
# Fields that are no choices of a setup
APART = {*NAMED, "network", "sequence", "flops", "efficiency", "times", "weights_only", "chunks"}
# Fields of the command line that are called otherwise in a table
RENAMED = {"MODEL": "model", "--tensor-group": "group"}


@dataclass(frozen=True, eq=False)
class InstanceSource:
    """An instance that is made when it is needed."""

    name: str  # what the column `instance` calls it
    make: Callable[[], Problem]  # makes it; raises an InputError if it breaks a rule
    extra: dict[str, Any] = field(default_factory=dict)  # what the column `extra` of its rows tells besides results


def instance_sources(patterns: Iterable[str], folder: Path) -> list[InstanceSource]:
    """The instances that names and patterns stand for, each once. Raises InputError if one of them stands for nothing.

    `patterns`: names or patterns of shipped instances, files, and ``random:A-B``.
    `folder`: where files are looked for.
    """
    names = dict.fromkeys(name for pattern in patterns for name in _matches(pattern, folder))
    return [InstanceSource(name, partial(load_problem, name, folder)) for name in names]


def load_problem(name: str, folder: Path) -> Problem:
    """The problem of a name: shipped, random or beside the experiment.

    Raises InputError if there is none, or it breaks a rule.
    """
    is_shipped = name.startswith(PREFIX) or any(name in names for names in shipped_names())
    return read_problem(name if is_shipped else folder / name)


def _matches(pattern: str, folder: Path) -> Sequence[str]:
    if pattern.startswith(PREFIX):
        return [f"{PREFIX}{seed}" for seed in _seeds(pattern)]
    if _is_file(folder / pattern):
        return [pattern]
    for known in shipped_names():
        names = [name for name, known_as in known.items() if any(fnmatchcase(n, pattern) for n in known_as)]
        if names:
            return names
    rule = "no such file beside the experiment, and no shipped instance of that name"
    raise InputError(rule, field="instances", value=pattern)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


@cache
def shipped_names() -> tuple[dict[str, tuple[str, str]], ...]:
    """The names of each shipped problem, alone and after its folder: first of instances on dimensions, then of others.

    A pattern stands for others only if it stands for no instance on dimensions.
    """
    return tuple(
        {name: (name, f"{path.parent.relative_to(INSTANCES).as_posix()}/{name}") for name, path in files.items()}
        for files in (shipped(), {**shipped_graphs(), **shipped_clusters(), **shipped_pipelines()})
    )


def _seeds(pattern: str) -> range:
    first, dash, last = pattern.removeprefix(PREFIX).partition("-")
    numbers = [seed_of(f"{PREFIX}{digits}") for digits in ((first, last) if dash else (first, first))]
    low, high = numbers
    if low is None or high is None or not low <= high <= MAX_SEED or high - low >= MAX_INSTANCES:
        rule = f"must be '{PREFIX}' and a seed, or two with a dash between, in order, up to {MAX_SEED}"
        raise InputError(rule, field="instances", value=pattern)
    return range(low, high + 1)


def workload_sources(tables: Sequence[Sequence[Workload]], folder: Path) -> list[InstanceSource]:
    """The training iterations of all tables, each once.

    Raises InputError if there is no such network, or `npus` do not fit it; other rules are checked when an instance is
    made.

    `tables`: the workloads of each table.
    `folder`: where files are looked for.
    """

    @cache
    def network_of(name: str) -> Network:
        problem = load_problem(name, folder)
        if not isinstance(problem, Instance):
            raise InputError("must be an instance on dimensions, whose network is taken")
        return problem.network

    known: dict[Workload, tuple[str, Network]] = {}
    for number, table in enumerate(tables):
        place = f"workloads[{number}]"
        for workload in table:
            with _placed(place, "network", workload.network):
                network = network_of(workload.network)
            network = _resize(network, workload.npus, f"{place}.npus")
            sizes = workload.npus or network.sizes
            known.setdefault(workload.model_copy(update={"npus": sizes}), (place, network))
    distinctive = _choices_to_tell(known)
    return [
        InstanceSource(
            _name(workload, distinctive),
            partial(_make, workload, network, folder, place),
            {"workload": workload.model_dump(mode="json", exclude={"chunks"})},
        )
        for workload, (place, network) in known.items()
    ]


@contextmanager
def _placed(place: str, field: str = "", value: object = None) -> Iterator[None]:
    """Name the field of the table in errors, unless they are in another file that is there."""
    try:
        yield
    except ModelError as error:
        raise InputError(": ".join(part for part in (error.field, error.rule) if part), field=place) from None
    except InputError as error:
        if field and not error.field:
            raise InputError(error.rule, field=f"{place}.{field}", value=value) from None
        if error.source:
            raise
        name = RENAMED.get(error.field, error.field.removeprefix("--").replace("-", "_"))
        where = ".".join(part for part in (place, name) if part)
        raise InputError(error.rule.replace("--", ""), field=where, value=error.value) from None


def _resize(network: Network, npus: tuple[int, ...] | None, field: str) -> Network:
    """The network with these NPUs along its dimensions, without those that have one."""
    if npus is None or npus == network.sizes:
        return network
    if len(npus) != len(network.sizes):
        rule = f"must have one number for each of the {len(network.sizes)} dimensions"
        raise InputError(rule, field=field, value=list(npus))
    names = network.dimension_names
    dimensions = tuple(
        dimension.model_copy(update={"size": size, "name": name})
        for dimension, name, size in zip(network.dimensions, names, npus, strict=True)
        if size > 1
    )
    if not dimensions:
        raise InputError("must leave 2 NPUs or more: one alone exchanges nothing", field=field, value=list(npus))
    title = f"{network.name} {_by(npus)}".strip()
    with _placed(field):
        return Network(name=title, dimensions=dimensions, source=network.source)


def _by(npus: Sequence[int]) -> str:
    return "x".join(map(str, npus))


def _choices_to_tell(workloads: Iterable[Workload]) -> dict[tuple[str, str], list[str]]:
    """For each model and parallelism the choices that differ, besides those that every name tells."""
    groups: defaultdict[tuple[str, str], list[Workload]] = defaultdict(list)
    for workload in workloads:
        groups[workload.model, workload.parallelism].append(workload)
    fields = [name for name in Workload.model_fields if name not in NAMED]
    return {
        group: [name for name in fields if len({getattr(workload, name) for workload in members}) > 1]
        for group, members in groups.items()
    }


def _name(workload: Workload, distinctive: Mapping[tuple[str, str], Sequence[str]]) -> str:
    parts = [workload.model, workload.parallelism, _by(workload.npus or ())]
    for name in distinctive[workload.model, workload.parallelism]:
        value = getattr(workload, name)
        if value is True:
            parts.append(name)
        elif value is not None and value is not False:
            parts.append(f"{name} {value}")
    return " ".join(parts)


def _make(workload: Workload, network: Network, folder: Path, place: str) -> Instance:
    """The training iteration; errors name the field of the table."""
    from themis_opt.pipelines.cuts import read_cut_setup
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.parallelisms import make_workload
    from themis_opt.workloads.setup import weights_only
    from themis_opt.workloads.timing import Rate, Timing, parse_rate, read_times

    with _placed(place):
        model = find_model(workload.model)
        layers = model.layers(workload.sequence)
        if workload.weights_only:
            layers = weights_only(layers)
        if workload.times is not None:
            timing: Timing = read_times(folder / workload.times, layers)
        else:
            timing = Rate(parse_rate(workload.flops), workload.efficiency)
        setup, _ = read_cut_setup(network, timing, layers, **workload.model_dump(exclude=set(APART)))
        instance = make_workload(model, layers, setup, parallelism=workload.parallelism, chunks=workload.chunks)
        check_clock(instance)
        return instance
