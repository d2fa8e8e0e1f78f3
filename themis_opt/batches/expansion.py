"""From an experiment to its runs: every instance and policy is made, and thus checked, before the first one runs.

Instances are shipped ones, files beside it, and random networks; workloads are made into training iterations.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from themis_opt.base.documents import digest
from themis_opt.base.errors import InputError
from themis_opt.base.units import nanoseconds
from themis_opt.batches.experiment import Block, Experiment, Workload
from themis_opt.batches.measured_run import RUN_KNOBS, Columns, RunTask, code_version, task_of
from themis_opt.batches.rows_file import BOUND
from themis_opt.families.calls import layers_of
from themis_opt.families.door import FAMILIES, family_named, family_of
from themis_opt.families.door import load_problem as read_problem
from themis_opt.families.family import Problem
from themis_opt.problem.catalog import (
    INSTANCES,
    MAX_SEED,
    PREFIX,
    seed_of,
    shipped,
    shipped_clusters,
    shipped_graphs,
    shipped_pipelines,
)
from themis_opt.problem.cost import check_clock
from themis_opt.problem.cost_terms import COST_TERMS, CostTerm
from themis_opt.problem.description import cost_in_words
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.schedules.plan import has_launches

KNOB_COLUMNS: Mapping[str, str] = {"seconds": "time_limit", "gap": "gap_asked"}
"""Columns of rows for knobs whose names say another thing there."""

MAX_RUNS = 10**6  # runs of an experiment

ITERATION = "iteration"  # what the column `kind` says of training iterations

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


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an experiment."""

    key: str  # hash of all that decides about the result
    task: RunTask  # what a worker needs
    columns: Columns  # the columns of the row that are known before it runs
    extra: Columns = field(default_factory=dict)  # what the column `extra` tells besides results

    def row(self, stored: Columns) -> Columns:
        """The row to show, from the one that is stored; runs with one key share it, and differ in what is known."""
        row = stored | self.columns
        if self.extra:
            row["extra"] = json.dumps(json.loads(row.get("extra") or "{}") | self.extra)
        return row


def expand(experiment: Experiment, path: Path, *, quick: bool = False) -> list[Run]:
    """All runs, in the order of the file: blocks, instances, overrides, policies, seeds.

    Raises InputError if an instance, an override or a policy breaks a rule; the message names file, field, value and
    rule.

    `path`: the experiment file; instance files are looked for beside it.
    `quick`: whether to apply ``[quick]``.
    """
    limit = experiment.quick.limit if quick else None
    chosen = experiment.quickened() if quick else experiment
    runs: list[Run] = []
    for number, block in enumerate(chosen.runs):
        try:
            runs += _block_runs(experiment.name, block, path.parent, limit)
        except InputError as error:
            if error.source:  # it is in another file
                raise
            field = ".".join(part for part in (f"runs[{number}]", error.field) if part)
            raise InputError(error.rule, field=field, value=error.value, source=str(path)) from None
    return runs


def _block_runs(experiment: str, block: Block, folder: Path, limit: int | None) -> list[Run]:
    tasks: dict[tuple[str, bool], list[RunTask]] = {}

    @cache
    def make(source: InstanceSource) -> Problem:
        return source.make()

    def tasks_for(instance: Problem) -> list[RunTask]:
        kind = instance.family, isinstance(instance, Instance) and has_launches(instance)
        if kind not in tasks:
            tasks[kind] = _tasks(block, instance)
        return tasks[kind]

    variants = _variants(block, folder)
    count = max(len(tasks_for(make(variants[0][0]))), 1)
    if count * len(variants) > MAX_RUNS:
        raise InputError(f"must make at most {MAX_RUNS} runs", value=count * len(variants))
    if limit is not None:
        variants = _evenly(variants, max(1, limit // count))
    known = {"experiment": experiment, "block": block.block, "code_version": code_version()}
    runs: list[Run] = []
    for source, *values in variants:
        instance = _override(make(source), source.name, dict(zip(block.overrides, values, strict=True)), block)
        runs += _instance_runs(source, instance, tasks_for(instance), known)
    if not runs:
        raise InputError("name no policy of the families of the instances", field="policies", value=str(block.policies))
    return runs if limit is None else _evenly(runs, limit)


def _instance_runs(source: InstanceSource, instance: Problem, tasks: list[RunTask], known: Columns) -> Iterator[Run]:
    known = known | {"instance": source.name} | instance_columns(instance)
    identity: list[Any] = [instance.fingerprint]
    if isinstance(instance, Instance) and has_launches(instance):  # what only policies and columns look at
        parallelisms = [exchange.parallelism for exchange in instance.exchanges]
        identity += [instance.steps, instance.parameter_bytes, parallelisms]
    for task in tasks:
        knobs = {KNOB_COLUMNS.get(name, name): task.knobs.get(name) for name in RUN_KNOBS}
        key = digest([*identity, task.policy, *knobs.values(), task.record, code_version()])
        yield Run(key, task._replace(instance=instance), known | {"policy": task.policy} | knobs, source.extra)


def _evenly(items: list[Any], count: int) -> list[Any]:
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def _tasks(block: Block, instance: Problem) -> list[RunTask]:
    """The policies of a block for instances like this one, with every seed and time limit that they have knobs for.

    Policies of other families are left out.
    """
    tasks: dict[tuple[Any, ...], RunTask] = {}
    family, *others = (family_named(name) for name in sorted(FAMILIES, key=lambda name: name != instance.family))
    ours = [
        policy
        for policy in block.policies
        if policy == BOUND or family.has_policy(policy) or not any(other.has_policy(policy) for other in others)
    ]
    for policy, seconds, seed in product(ours, block.time_limit or (None,), block.seeds):
        values = (seconds, block.workers, seed, block.gap, block.chunk_sizes)
        knobs = {name: value for name, value in zip(RUN_KNOBS, values, strict=True) if value is not None}
        task = task_of(instance, policy, knobs, block.record)
        tasks.setdefault((policy, *map(task.knobs.get, RUN_KNOBS)), task)
    return list(tasks.values())


def _variants(block: Block, folder: Path) -> list[tuple[Any, ...]]:
    names = dict.fromkeys(name for pattern in block.instances for name in _matches(pattern, folder))
    sources = [InstanceSource(name, partial(load_problem, name, folder)) for name in names]
    sources += workload_sources(block.workloads, folder)
    if block.sample is not None and block.sample.count < len(sources):
        picked = random.Random(block.sample.seed).sample(range(len(sources)), block.sample.count)
        sources = [sources[number] for number in sorted(picked)]
    return list(product(sources, *block.overrides.values()))


def _override(instance: Problem, name: str, overrides: Mapping[str, Any], block: Block) -> Problem:
    """The instance `name` with some of the overrides of a block.

    The clock is asked about the largest sizes and numbers of chunks alone, because these last longest.
    """
    if not isinstance(instance, Instance):
        try:
            changed: Problem = family_of(instance).changed(instance, overrides)
        except InputError as error:
            raise InputError(error.rule, field=error.field.lstrip("-"), value=name) from None
        return changed
    if "size" in overrides and has_launches(instance):
        rule = "is not for training iterations, whose tensors state their sizes"
        raise InputError(rule, field="size", value=name)
    try:
        changed = _with_values(instance, overrides)
        size_and_chunks = overrides.get("size"), overrides.get("chunks")
        if changed is not instance and size_and_chunks == block.largest:
            check_clock(changed)
    except InputError as error:
        raise InputError(error.rule, field=f"instance {name}") from None
    return changed


def _with_values(instance: Instance, overrides: Mapping[str, Any]) -> Instance:
    """The instance with the values that are given; its rules were checked with the block, collectives are here."""
    changes = {name: overrides[name] for name in ("latency", "ag_order") if name in overrides}
    each = {name: overrides[name] for name in ("size", "chunks") if name in overrides}
    if has_launches(instance):
        changes |= each
    elif each:
        changes["collectives"] = tuple(collective.replace(**each) for collective in instance.collectives)
    if costs := {name: overrides[name] for name in COST_TERMS if name in overrides}:
        changes["network"] = instance.network.with_costs(costs)
    return instance.varied(**changes) if changes else instance


def instance_columns(instance: Problem) -> Columns:
    """Columns that describe an instance; sizes and chunks are summed over its collectives, sizes over its tensors.

    Cost terms are empty where they differ between dimensions.
    """
    if not isinstance(instance, Instance):
        return {"fingerprint": instance.fingerprint, **family_of(instance).facts(instance)}
    dimensions = instance.network.dimensions
    exchanges, launches = instance.exchanges, has_launches(instance)
    return {
        "fingerprint": instance.fingerprint,
        "network": instance.network.name,
        "dimensions": len(dimensions),
        "npus": instance.network.num_npus,
        "kind": ITERATION if launches else exchanges[0].kind.value,
        "size_bytes": sum(exchange.size for exchange in exchanges),
        "chunks": instance.chunks if launches else sum(exchange.max_chunks for exchange in exchanges),
        "latency": instance.latency,
        "ag_order": instance.ag_order,
        **{term.column: _cost(term, {getattr(d, name) for d in dimensions}) for name, term in COST_TERMS.items()},
    }


def _cost(term: CostTerm, values: set[Any]) -> float | str | None:
    """A cost term as its column tells it, if all dimensions have the same."""
    if len(values) > 1:
        return None
    (value,) = values
    return nanoseconds(value) if term.column.endswith("_ns") else cost_in_words(value)


def load_problem(name: str, folder: Path) -> Problem:
    """The problem of a name: shipped, random or beside the experiment.

    Raises InputError if there is none, or it breaks a rule.
    """
    is_shipped = name.startswith(PREFIX) or any(name in names for names in shipped_names())
    return read_problem(name if is_shipped else folder / name)


def _matches(pattern: str, folder: Path) -> Sequence[str]:
    """The names that a name or pattern of shipped instances, a file, or ``random:A-B`` stands for."""
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
    from themis_opt.workloads.setup import rate_of
    from themis_opt.workloads.timing import read_times

    with _placed(place):
        model = find_model(workload.model)
        layers = layers_of(workload.model, workload.sequence, weights_only=workload.weights_only)
        rate = rate_of(workload.flops, workload.efficiency, "", workload.dtype)
        timing = rate if workload.times is None else read_times(folder / workload.times, layers)
        setup, _ = read_cut_setup(network, timing, layers, **workload.model_dump(exclude=set(APART)))
        instance = make_workload(model, layers, setup, parallelism=workload.parallelism, chunks=workload.chunks)
        check_clock(instance)
        return instance
