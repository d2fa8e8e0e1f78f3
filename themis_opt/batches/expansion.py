"""From an experiment to its runs: every instance and policy is made, and thus checked, before the first one runs."""

import gc
import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from themis_opt.batches.code_version import code_version
from themis_opt.batches.experiment import Block, Experiment
from themis_opt.batches.instance_sources import Source, instance_sources
from themis_opt.batches.measured_run import Task, limits_of
from themis_opt.batches.measuring import Columns, Limits
from themis_opt.batches.variants import AnyInstance, Overrides, identity, instance_columns, varied
from themis_opt.batches.workload_sources import workload_sources
from themis_opt.errors import InputError

MAX_RUNS = 10**6


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an experiment.

    Attributes
    ----------
    key : str
        Hash of all that decides about the result.
    task : Task
        What a worker needs.
    columns : dict
        The columns of the row that are known before it runs.
    extra : dict
        What the column `extra` tells besides results.
    """

    key: str
    task: Task
    columns: Columns
    extra: Columns = field(default_factory=dict)

    def row(self, stored: Columns) -> Columns:
        """The row to show, from the one that is stored; runs with one key share it, and differ in what is known."""
        row = stored | self.columns
        if self.extra:
            row["extra"] = json.dumps(json.loads(row.get("extra") or "{}") | self.extra)
        return row


def expand(experiment: Experiment, path: Path, *, quick: bool = False) -> list[Run]:
    """All runs, in the order of the file: blocks, instances, overrides, policies, seeds.

    Parameters
    ----------
    path : Path
        The experiment file; instance files are looked for beside it.
    quick : bool
        Whether to apply ``[quick]``.

    Raises
    ------
    InputError
        If an instance, an override or a policy breaks a rule; the message names file, field, value and rule.
    """
    limit = experiment.quick.limit if quick else None
    chosen = experiment.quickened() if quick else experiment
    runs: list[Run] = []
    with _without_collections():
        for number, block in enumerate(chosen.runs):
            try:
                runs += _block_runs(experiment.name, block, path.parent, limit)
            except InputError as error:
                raise _within(error, f"runs[{number}]", path) from None
    return runs


@contextmanager
def _without_collections() -> Iterator[None]:
    """No search for garbage while thousands of objects are made that all stay: it takes a seventh of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _within(error: InputError, place: str, path: Path) -> InputError:
    """An error of a block, located in the experiment, unless it is in another file."""
    if error.source:
        return error
    field = ".".join(part for part in (place, error.field) if part)
    return InputError(error.rule, field=field, value=error.value, source=str(path))


def _block_runs(experiment: str, block: Block, folder: Path, limit: int | None) -> list[Run]:
    @cache
    def made(source: Source) -> AnyInstance:
        return source.make()

    @cache
    def policies_of(kind: type[AnyInstance]) -> list[tuple[str, Limits]]:
        return list(_policies(block, kind))

    variants = _variants(block, folder)
    count = len(policies_of(type(made(variants[0][0]))))
    if count * len(variants) > MAX_RUNS:
        raise InputError(f"must make at most {MAX_RUNS} runs", value=count * len(variants))
    if limit is not None:
        variants = _evenly(variants, max(1, limit // count))
    known = {"experiment": experiment, "block": block.block, "code_version": code_version()}
    runs: list[Run] = []
    for source, *values in variants:
        instance = varied(made(source), source.name, Overrides(*values), block)
        runs += _instance_runs(source, instance, policies_of(type(instance)), known)
    return runs if limit is None else _evenly(runs, limit)


def _instance_runs(
    source: Source, instance: AnyInstance, policies: list[tuple[str, Limits]], known: Columns
) -> Iterator[Run]:
    known = known | {"instance": source.name} | instance_columns(instance)
    content = identity(instance)
    for policy, limits in policies:
        columns = known | _policy_columns(policy, limits)
        yield Run(_key(content, policy, limits), Task(instance, policy, limits), columns, source.extra)


def _evenly(items: list[Any], count: int) -> list[Any]:
    """At most so many of the items, evenly spread."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def _key(identity: list[Any], policy: str, limits: Limits) -> str:
    content = [*identity, policy, *(getattr(limits, f.name) for f in fields(Limits)), code_version()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _policies(block: Block, kind: type[AnyInstance]) -> Iterator[tuple[str, Limits]]:
    """The policies of a block for a kind of instances, with every seed and time limit where they have such knobs."""
    given = Limits(None, block.workers, None, block.gap, block.sizes, block.record)
    found: dict[tuple[str, Limits], None] = {}
    for policy, seconds, seed in product(block.policies, block.time_limit or (None,), block.seeds):
        found[policy, limits_of(kind, policy, replace(given, time_limit=seconds, seed=seed))] = None
    yield from found


def _policy_columns(policy: str, limits: Limits) -> Columns:
    return {
        "policy": policy,
        "seed": limits.seed,
        "time_limit": limits.time_limit,
        "workers": limits.workers,
        "gap_asked": limits.gap,
        "sizes": limits.sizes,
    }


def _variants(block: Block, folder: Path) -> list[tuple[Any, ...]]:
    """Sources of instances with one value, or None, for each override."""
    sources = instance_sources(block.instances, folder) + workload_sources(block.workloads, folder)
    if block.sample is not None and block.sample.count < len(sources):
        picked = random.Random(block.sample.seed).sample(range(len(sources)), block.sample.count)
        sources = [sources[number] for number in sorted(picked)]
    overrides = (block.sizes_of_collectives, block.chunks, block.latency, block.ag_order)
    return list(product(sources, *(values or (None,) for values in (*overrides, block.launch_overhead, block.packet))))
