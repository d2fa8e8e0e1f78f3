"""A scheduling problem: a network, what is exchanged on it, and perhaps the compute of a training iteration beside it.

The classes are frozen pydantic models: they check every field once, at the border, and are trusted inside.
They read and write the JSON documents described in ``instances/README.md``.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from themis_opt.base.documents import digest
from themis_opt.base.errors import InputError
from themis_opt.base.units import MAX_CLOCK, Bytes, format_seconds, format_size
from themis_opt.problem.documents import INSTANCE_FORMAT
from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.fields import MAX_BYTES, MAX_CHUNKS, MAX_DIMENSIONS, Count, FieldError, Model
from themis_opt.problem.iteration import ComputeTask, Iteration, check_splits
from themis_opt.problem.network import Dimension, Fabric, Network, links_of
from themis_opt.problem.phases import CollectiveKind
from themis_opt.problem.ports import Ports, ports_of

OF_ITERATIONS = ("chunks", "memory")  # fields that collectives alone do not have
MAX_COLLECTIVES = 2**17  # most collectives: several errors of each would take much memory


def _of_stage(name: str, stage: int) -> str:
    """The name of a dimension of a stage: that of the network for the first one."""
    return f"{name}@{stage + 1}" if stage else name


def _longest_path(
    origin: int, goal: int, order: Iterable[int], before: Mapping[int, set[int]], lengths: Sequence[float]
) -> float:
    start = dict.fromkeys(order, -math.inf)
    start[origin] = 0.0
    for node in order:
        for other in before[node]:
            start[node] = max(start[node], start[other] + lengths[other % len(lengths)])
    return start[goal]


class Instance(Model):
    """A network with collectives or with a training iteration, and the two rules that every schedule of it obeys.

    A training iteration is compute, serial on each NPU, and tensors that the NPUs exchange beside it.  What is fused,
    split or reordered belongs to the plan, so that all policies share one instance and one bound.

    `chunks` is the number of chunks of each collective operation of an iteration; collectives state theirs.
    `memory` limits what each NPU holds at any time of an iteration (:mod:`themis_opt.schedules.memory`).
    `latency` says whether the step latency occupies the dimension or only delays the chunk; `ag_order` whether a chunk
    that is scattered and gathered gathers in any order or only in the reverse of its scatter order.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.load("fig5.all_reduce.256MB")
    <Instance fig5 all_reduce 256 MB: 16 NPUs (4x4), 1 collective>
    """

    format: Literal["themis-opt/instance/1"] = INSTANCE_FORMAT
    name: str = ""
    description: str = ""
    network: Network
    collectives: Annotated[tuple[Collective, ...], Field(min_length=1, max_length=MAX_COLLECTIVES)] = ()
    iteration: Iteration | None = None
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64
    latency: Literal["lag", "occupy"] = "lag"
    ag_order: Literal["free", "reverse"] = "free"
    memory: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)] | None = None

    @cached_property
    def fabric(self) -> Network:
        """The network as collectives see it: split dimensions are two, links are more, stages have theirs."""
        if self.num_stages == 1 and not self._links and not self._splits:
            return self.network
        dimensions = tuple(
            dimension.replace(
                name=_of_stage(dimension.name, stage), shares=dimension.shares and _of_stage(dimension.shares, stage)
            )
            for stage in range(self.num_stages)
            for dimension in self._dimensions_of_a_stage()
        )
        return Fabric(name=self.network.name, dimensions=dimensions, source=self.network.source)

    def _dimensions_of_a_stage(self) -> Iterable[Dimension]:
        """What the NPUs of one stage have; those behind a link that dimensions share name the first of them."""
        firsts: dict[int, str] = {}
        for k, dimension in enumerate((*self.network.dimensions, *self._links)):
            name, link = self._wired_names[k], self._wires[k]
            split = self._splits.get(name)
            parts = [(name, dimension.size)] if split is None else zip(split.names, split.sizes, strict=True)
            for part, size in parts:
                first = firsts.setdefault(link, part) if self._wires.count(link) > 1 else part
                yield dimension.replace(name=part, size=size, shares=None if first == part else first)

    @cached_property
    def _names_of_a_stage(self) -> tuple[str, ...]:
        """Names of the dimensions of a stage, without its number."""
        names = self.network.dimension_names
        parts = [part for name in names for part in (self._splits[name].names if name in self._splits else (name,))]
        return (*parts, *(link.name for link in self._links))

    @cached_property
    def num_stages(self) -> int:
        """Stages of the pipeline; 1 where all NPUs do the same."""
        return self.iteration.num_stages if self.iteration else 1

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Per stage its tasks, in the order they run; none where collectives stand alone."""
        chains: list[list[int]] = [[] for _ in range(self.num_stages if self.tasks else 0)]
        for number, task in enumerate(self.tasks):
            chains[task.stage].append(number)
        return tuple(map(tuple, chains))

    @cached_property
    def waits(self) -> tuple[tuple[int, int], ...]:
        """Pairs of tasks of which the second waits for the first, of another stage."""
        return tuple(
            (self.task_index[name], number)
            for number, task in enumerate(self.tasks)
            for name in task.after
            if self.tasks[self.task_index[name]].stage != task.stage
        )

    def least_period(self, durations: Sequence[float], windows: Mapping[tuple[int, int, int], float] = {}) -> float:
        """Longest path from the start of a task to its next start, where each tensor takes a given time.

        Nodes are tasks, then tensors, then windows, of two periods.  `windows`: the time between the end of a task and
        the start of another one, so many periods later.
        """
        tasks = len(self.tasks)
        lengths = [*(float(task.duration) for task in self.tasks), *durations, *windows.values()]
        count = len(lengths)
        uses = [(one.ready_task, one.needed_task, one.needed_later) for one in self.exchanges]
        before: dict[int, set[int]] = {node: set() for node in range(2 * count)}
        for row in (0, count):
            pairs = [*chain.from_iterable(map(pairwise, self.chains)), *self.waits]
            for one, other in pairs:
                before[row + other].add(row + one)
            for number, (ready, needed, later) in enumerate([*uses, *windows], start=tasks):
                before[row + number].add(row + ready)
                if row + count * later <= count:
                    before[row + count * later + needed].add(row + number)
            for number, exchange in enumerate(self.exchanges, start=tasks):
                before[row + number] |= {row + tasks + source for source in exchange.after}
        for tasks_of_stage in self.chains:
            before[count + tasks_of_stage[0]].add(tasks_of_stage[-1])
        order = tuple(TopologicalSorter(before).static_order())
        return max(_longest_path(one[0], one[0] + count, order, before, lengths) for one in self.chains)

    @cached_property
    def bubble(self) -> int:
        """Picoseconds that the stage with the most work waits in each period on an infinitely fast network."""
        if self.num_stages == 1:
            return 0
        return int(self.least_period([0.0] * len(self.exchanges))) - self.compute

    @cached_property
    def links(self) -> tuple[int, ...]:
        """For each dimension of the fabric the number of its link; those that share one are never busy at once."""
        numbers: dict[tuple[int, ...], int] = {}
        keys = ((stage, *link) for stage in range(self.num_stages) for link in self._links_of_a_stage())
        return tuple(numbers.setdefault(key, len(numbers)) for key in keys)

    def _links_of_a_stage(self) -> Iterable[tuple[int, ...]]:
        """What tells the links of the dimensions of a stage apart: parts that are split have one or two."""
        for k, link in enumerate(self._wires):
            split = self._splits.get(self._wired_names[k])
            if split is None:
                yield (link,)
            else:
                is_one = split.shared or self._wires.count(link) > 1
                yield from ((link,) if is_one else (link, part) for part in range(len(split.names)))

    @cached_property
    def _wired_names(self) -> tuple[str, ...]:
        """Names of the dimensions of the network, then of links beside it."""
        return (*self.network.dimension_names, *(link.name for link in self._links))

    @cached_property
    def _wires(self) -> tuple[int, ...]:
        """For each of these the first one behind its link."""
        return links_of(self._wired_names, (*self.network.dimensions, *self._links))

    @cached_property
    def ports(self) -> Ports:
        """The resources of the network, and which one each stage holds."""
        groups = {(exchange.kind, exchange.span) for exchange in self.exchanges}
        visits = ((phase, k) for kind, span in groups for phase in kind.rule.phases for k in span)
        return ports_of(self.fabric.dimensions, self.fabric.dimension_names, self.links, visits)

    @cached_property
    def bandwidth_by_resource(self) -> Mapping[int, float]:
        """Bytes per second of the resources that exchanges hold: the most of the dimensions that share one."""
        speeds: dict[int, float] = {}
        for kind, span in {(exchange.kind, exchange.span) for exchange in self.exchanges}:
            for resource, k in ((int(self.ports.resource[phase, k]), k) for phase in kind.rule.phases for k in span):
                speeds[resource] = max(speeds.get(resource, 0.0), self.fabric.bandwidths[k])
        return dict(sorted(speeds.items()))

    @cached_property
    def num_resources(self) -> int:
        """Resources of the network, without the compute of the NPU."""
        return len(self.ports.names)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """Names of the dimensions that occupy each resource, joined by a plus where they share it."""
        return self.ports.names

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What NPUs exchange: one entry per collective, or per tensor of the iteration."""
        return tuple(self._exchanges())

    def _exchanges(self) -> Iterable[Exchange]:
        for number, collective in enumerate(self.collectives, start=1):
            yield Exchange(
                name=collective.name or f"{collective.kind}{number}",
                kind=collective.kind,
                size=collective.size,
                max_chunks=collective.chunks,
                span=self._span(collective.dimensions),
                element_bytes=collective.element_bytes,
                release=collective.release,
            )
        tensors = self.iteration.tensors if self.iteration else ()
        places = {tensor.name: number for number, tensor in enumerate(tensors)}
        for tensor in tensors:
            ready, needed = self.task_index[tensor.ready_after], self.task_index[tensor.needed_before]
            later = int(tensor.needed_in == "next" or needed <= ready)
            freed = -1 if tensor.freed_after is None else self.task_index[tensor.freed_after]
            yield Exchange(
                name=tensor.name,
                kind=tensor.kind,
                size=tensor.required,
                max_chunks=self.chunks,
                span=self._span(tensor.dimensions, self.tasks[ready].stage),
                element_bytes=tensor.element_bytes,
                ready_task=ready,
                needed_task=needed,
                needed_later=later,
                freed_task=freed,
                freed_later=later + int(freed < needed),
                parallelism=tensor.parallelism,
                after=tuple(places[name] for name in tensor.after),
            )

    def _span(self, chosen: tuple[str, ...] | None, stage: int = 0) -> tuple[int, ...]:
        """Indices of the named dimensions of a stage, innermost first; of all of the network without names."""
        names = self._names_of_a_stage
        first = stage * len(names)
        if chosen is None:
            return tuple(range(first, first + len(names) - len(self._links)))
        return tuple(sorted(first + names.index(name) for name in chosen))

    @property
    def tasks(self) -> tuple[ComputeTask, ...]:
        """The compute tasks in the order they run; none where collectives stand alone."""
        return self.iteration.tasks if self.iteration else ()

    @cached_property
    def task_index(self) -> dict[str, int]:
        """Position of each task in the order of execution."""
        return {task.name: number for number, task in enumerate(self.tasks)}

    @cached_property
    def busiest_chain(self) -> tuple[int, ...]:
        """The tasks of the stage that computes longest."""
        return max(self.chains, key=lambda chain: sum(self.tasks[task].duration for task in chain), default=())

    @property
    def compute(self) -> int:
        """Picoseconds of compute in one iteration, of the stage that computes longest."""
        return sum(self.tasks[task].duration for task in self.busiest_chain)

    @property
    def work(self) -> int:
        """Picoseconds of compute in one iteration, of all stages together."""
        return sum(task.duration for task in self.tasks)

    @property
    def steps(self) -> int:
        """Batches that one iteration stands for."""
        return self.iteration.steps if self.iteration else 1

    @property
    def parameter_bytes(self) -> int:
        """Bytes that the tasks claim on each NPU, of the stage that claims most."""
        return max((sum(self.tasks[task].parameter_bytes for task in chain) for chain in self.chains), default=0)

    def group(self, exchanges: Iterable[Exchange]) -> "Instance":
        """The problem of these exchanges without compute, on the same network and by the same rules."""
        names = self.fabric.dimension_names
        collectives = tuple(
            Collective(
                name=exchange.name,
                kind=exchange.kind,
                size=exchange.size,
                chunks=exchange.chunks,
                dimensions=tuple(names[k] for k in exchange.span),
                release=f"{exchange.release} ps",
                element_bytes=exchange.element_bytes,
            )
            for exchange in exchanges
        )
        return Instance(
            name=self.name, network=self.fabric, collectives=collectives, latency=self.latency, ag_order=self.ag_order
        )

    @property
    def family(self) -> str:
        """The kind of problem: collectives on a product of dimensions."""
        return "product"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides which schedules are legal, how long they take and what policies do."""
        if self.iteration is None:
            what: list[Any] = [
                collective.model_dump(exclude={"name"}) | {"dimensions": exchange.span}
                for collective, exchange in zip(self.collectives, self.exchanges, strict=True)
            ]
            return digest([INSTANCE_FORMAT, self.network.identity, what, self.latency, self.ag_order])
        apart = {"name", "dimensions", "ready_after", "needed_before", "needed_in", "after", "tolerance", "freed_after"}
        tensors = [
            tensor.model_dump(exclude=apart)
            | {"size": format_size(exchange.size)}
            | ({"after": exchange.after} if exchange.after else {})
            for tensor, exchange in zip(self.iteration.tensors, self.exchanges, strict=True)
        ]
        where = [
            *([getattr(e, field) for e in self.exchanges] for field in ("ready_task", "needed_task", "needed_later")),
            [e.span for e in self.exchanges],
            self.links,
        ]
        durations = [task.duration for task in self.tasks]
        if self.num_stages > 1:
            where += [self.chains, self.waits]
        if self.memory is not None or any(e.freed_task >= 0 for e in self.exchanges):
            where += [[self.memory], *([e.freed_task, e.freed_later] for e in self.exchanges)]
            where += [[task.parameter_bytes, task.activation_bytes, task.freed_after] for task in self.tasks]
        rules = [self.chunks, self.latency, self.ag_order]
        return digest([INSTANCE_FORMAT, "iteration", self.fabric.identity, tensors, where, durations, *rules])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Instance) and self._document == other._document)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        parts = {"collective": self.collectives, "task": self.tasks, "tensor": self.exchanges if self.tasks else ()}
        counts = ", ".join(
            f"{len(members)} {what}{'s' * (len(members) > 1)}" for what, members in parts.items() if members
        )
        sizes = "x".join(map(str, self.network.sizes))
        return f"<Instance {self.name or 'without a name'}: {self.network.num_npus} NPUs ({sizes}), {counts}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from themis_opt.base.notebook import page
        from themis_opt.problem.description import dimension_rows, headline

        rows = dimension_rows(self)
        return page(headline(self).split("\n"), list(rows[0]), [list(row.values()) for row in rows])

    @cached_property
    def _document(self) -> str:
        """Everything that was said: comparing it is faster than field by field, for caches whose key an instance is."""
        return self.model_dump_json()

    def overridden(
        self,
        *,
        size: str | int | None = None,
        chunks: int | None = None,
        latency: str | None = None,
        ag_order: str | None = None,
    ) -> Self:
        """The instance with `size` and `chunks` of every collective, and its rules, replaced where given.

        Raises
        ------
        InputError
            If a size is given for tensors, which state theirs.
        """
        given = {"chunks": chunks, "latency": latency, "ag_order": ag_order}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.iteration is not None:
            if size is not None:
                raise InputError("an iteration has none: its tensors state their sizes", field="size", value=size)
            changes = {name: value for name, value in changes.items() if value != getattr(self, name)}
            return self.replace(**changes) if changes else self
        each = {
            name: value
            for name, value in (("size", size), ("chunks", changes.pop("chunks", None)))
            if value is not None
        }
        if each:
            changes["collectives"] = tuple(collective.replace(**each) for collective in self.collectives)
        return self.replace(**changes) if changes else self

    def scaled(
        self, bandwidths: Sequence[float], durations: Sequence[float], *, latency: Literal["lag", "occupy"]
    ) -> Self:
        """The instance with every bandwidth and every duration of a task multiplied, and a rule for latency.

        `bandwidths`, `durations`: one factor per dimension of the network, and one per task.
        """
        # Not `replace`, which checks everything again: this is called many thousand times.
        dimensions = (
            dimension.faster(factor) for dimension, factor in zip(self.network.dimensions, bandwidths, strict=True)
        )
        changes: dict[str, Any] = {"network": self.network.varied(dimensions=tuple(dimensions)), "latency": latency}
        if self.iteration is not None:
            tasks = (
                task.model_copy(update={"duration": round(task.duration * factor)})
                for task, factor in zip(self.tasks, durations, strict=True)
            )
            changes["iteration"] = self.iteration.varied(tasks=tuple(tasks))
        return self.varied(**changes)

    @model_serializer(mode="wrap")
    def _without_the_other_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Plain values, without the fields that a problem of this kind does not have."""
        apart = ("iteration", *OF_ITERATIONS) if self.iteration is None else ("collectives",)
        return {name: value for name, value in handler(self).items() if name not in apart}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.iteration is None:
            self._check_collectives()
        else:
            self._check_iteration(self.iteration)
        return self

    def _check_collectives(self) -> None:
        if not self.collectives:
            raise FieldError("required field is missing", "collectives")
        for name in OF_ITERATIONS:
            if name in self.model_fields_set:
                raise FieldError("unknown field", name)
        for number, collective in enumerate(self.collectives):
            elements = collective.size // collective.element_bytes
            if collective.chunks > elements:
                rule = f"chunks must be at most the number of elements, {elements}, is {collective.chunks}"
                raise FieldError(rule, f"collectives[{number}]")
            self._check_dimensions(f"collectives[{number}]", collective.dimensions or ())
        labels = [exchange.name for exchange in self.exchanges]
        if len(set(labels)) < len(labels):
            raise ValueError(f"collective names must differ, got {', '.join(labels)}")

    def _check_dimensions(self, field: str, chosen: tuple[str, ...]) -> None:
        names = self._names_of_a_stage
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ValueError(f"{field}.dimensions names '{unknown[0]}', the network has {', '.join(names)}")
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"{field}.dimensions repeats a dimension")

    def _check_iteration(self, iteration: Iteration) -> None:
        if self.collectives:
            raise FieldError("has either collectives or an iteration", "iteration")
        self._check_splits(iteration)
        for what, parts in (("task", iteration.tasks), ("tensor", iteration.tensors)):
            names = [part.name for part in parts]
            if len(set(names)) < len(names):
                repeated = min(name for name in names if names.count(name) > 1)
                raise ValueError(f"iteration.{what}s: names must differ, '{repeated}' stands twice")
        if not all(self.chains):
            raise ValueError(f"iteration.tasks: stage {self.chains.index(())} of {self.num_stages} has no task")
        self._check_references(iteration)
        self._check_order(iteration)
        if self.work > MAX_CLOCK:
            longest = format_seconds(MAX_CLOCK)
            raise ValueError(f"iteration.tasks must take at most the {longest} together that the clock holds")

    def _check_splits(self, iteration: Iteration) -> None:
        sizes = dict(zip(self.network.dimension_names, self.network.sizes, strict=True))
        check_splits(iteration.splits, sizes, "iteration.splits")
        for number, split in enumerate(iteration.splits):
            kind = self.network.dimensions[self.network.dimension_names.index(split.dimension)].kind
            flaw = next(filter(None, map(kind.rule.flaw, split.sizes)), None)
            if flaw:
                raise ValueError(f"iteration.splits[{number}].sizes: '{split.dimension}' is a {kind}, {flaw}")
        divided = {split.dimension for split in iteration.splits}
        added = sum(len(split.sizes) - 1 for split in iteration.splits)
        if len(sizes) + added + len(iteration.links) > MAX_DIMENSIONS:
            raise ValueError(f"must have at most {MAX_DIMENSIONS} dimensions after splits")
        parts = [name for split in iteration.splits for name in split.names] + [link.name for link in iteration.links]
        if "" in parts:
            raise ValueError("iteration.links must have names")
        links_of(self._wired_names, (*self.network.dimensions, *self._links))
        names = [name for name in sizes if name not in divided] + parts
        if len(set(names)) < len(names):
            raise ValueError(f"dimension names must differ after splits, got {', '.join(names)}")

    def _check_references(self, iteration: Iteration) -> None:
        for number, task in enumerate(iteration.tasks):
            self._check_tasks(f"iteration.tasks[{number}]", {"after": task.after, "freed_after": [task.freed_after]})
        names = {tensor.name for tensor in iteration.tensors}
        for number, tensor in enumerate(iteration.tensors):
            field = f"iteration.tensors[{number}]"
            self._check_tasks(field, {key: [getattr(tensor, key)] for key in ("ready_after", "needed_before")})
            for name in tensor.after:
                if name not in names or name == tensor.name:
                    raise ValueError(f"{field}.after names '{name}', there is no such other tensor")
            self._check_dimensions(field, tensor.dimensions or ())
            self._check_tasks(field, {"freed_after": [tensor.freed_after]})
            if tensor.freed_after is not None and tensor.kind is not CollectiveKind.ALL_GATHER:
                raise ValueError(f"{field}.freed_after is for an all_gather, the kind is {tensor.kind}")

    def _check_tasks(self, field: str, names: Mapping[str, Iterable[str | None]]) -> None:
        for key, name in ((key, name) for key, given in names.items() for name in given):
            if name is not None and name not in self.task_index:
                raise ValueError(f"{field}.{key} names '{name}', there is no such task")

    def _check_order(self, iteration: Iteration) -> None:
        """Dependencies must have no cycle, and tasks must be listed in an order that obeys them."""
        waits = defaultdict[str, set[str]](set, {task.name: {*task.after} for task in iteration.tasks if task.after})
        for tensor, exchange in zip(iteration.tensors, self.exchanges, strict=True):
            if tensor.needed_in == "this" or not exchange.needed_later:
                waits[tensor.needed_before].add(tensor.ready_after)
        for graph in (waits, {tensor.name: set(tensor.after) for tensor in iteration.tensors if tensor.after}):
            try:
                tuple(TopologicalSorter(graph).static_order())
            except CycleError as error:
                raise ValueError(f"iteration: dependencies form a cycle: {' <- '.join(error.args[1])}") from None
        for task in iteration.tasks:
            late = [name for name in waits.get(task.name, ()) if self.task_index[name] >= self.task_index[task.name]]
            if late:
                raise ValueError(f"iteration.tasks: '{task.name}' waits for '{late[0]}', which is listed after it")
        for number, exchange in enumerate(self.exchanges):
            early = [earlier for earlier in exchange.after if self.exchanges[earlier].ready_task > exchange.ready_task]
            if early:
                rule = f"is ready before '{self.exchanges[early[0]].name}', which it comes after"
                raise ValueError(f"iteration.tensors[{number}]: '{exchange.name}' {rule}")

    @property
    def _links(self) -> tuple[Dimension, ...]:
        return self.iteration.links if self.iteration else ()

    @property
    def _splits(self) -> dict[str, Any]:
        return {split.dimension: split for split in self.iteration.splits} if self.iteration else {}
