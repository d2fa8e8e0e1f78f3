"""From an experiment to its runs: every instance and policy is made, and thus checked, before the first one runs."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from themis_opt.base.documents import digest
from themis_opt.base.errors import InputError
from themis_opt.base.units import nanoseconds
from themis_opt.batches.experiment import Block, Experiment
from themis_opt.batches.measured_run import RUN_KNOBS, Columns, RunTask, code_version, task_of
from themis_opt.batches.rows_file import BOUND
from themis_opt.batches.sources import InstanceSource, instance_sources, workload_sources
from themis_opt.families.door import FAMILIES, family_named, family_of
from themis_opt.families.family import Problem
from themis_opt.problem.cost import check_clock
from themis_opt.problem.cost_terms import COST_TERMS, CostTerm
from themis_opt.problem.description import cost_in_words
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches

KNOB_COLUMNS: Mapping[str, str] = {"seconds": "time_limit", "gap": "gap_asked"}
"""Columns of rows for knobs whose names say another thing there."""

MAX_RUNS = 10**6

ITERATION = "iteration"  # what the column `kind` says of training iterations


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
    sources = instance_sources(block.instances, folder) + workload_sources(block.workloads, folder)
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
    changes: dict[str, Any] = {}
    each = {name: overrides[name] for name in ("size", "chunks") if name in overrides}
    if has_launches(instance):
        changes |= each
    elif each:
        changes["collectives"] = tuple(collective.replace(**each) for collective in instance.collectives)
    costs = {name: overrides[name] for name in COST_TERMS if name in overrides}
    if costs:
        changes["network"] = instance.network.with_costs(costs)
    changes |= {name: overrides[name] for name in ("latency", "ag_order") if name in overrides}
    if not changes:
        return instance
    values = {name: getattr(instance, name) for name in Instance.model_fields} | changes
    return Instance.model_construct(instance.model_fields_set | set(changes), **values)


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
