"""A scheduling problem one level up: a training iteration on a network.

An iteration is compute, serial on each NPU, and tensors that the NPUs exchange beside it.  What is fused, split or
reordered belongs to the plan, so that all policies share one instance and one bound.
"""

import hashlib
import json
import math
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from themis_opt.errors import InputError
from themis_opt.instance import (
    FORMAT,
    MAX_CHUNKS,
    MAX_DIMENSIONS,
    Collective,
    Count,
    Dimension,
    Instance,
    Model,
    Network,
)
from themis_opt.iteration import Iteration
from themis_opt.units import MAX_CLOCK, PICOSECONDS_PER_SECOND


class IterationInstance(Model):
    """A network with a training iteration, and the rules that every schedule of it obeys.

    `chunks` is the number of chunks of each collective operation; `latency` and `ag_order` are those of
    :class:`themis_opt.instance.Instance`.
    """

    format: Literal["themis-opt/instance/1"] = FORMAT
    name: str = ""
    description: str = ""
    network: Network
    iteration: Iteration
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64
    latency: Literal["lag", "occupy"] = "lag"
    ag_order: Literal["free", "reverse"] = "free"

    @cached_property
    def fabric(self) -> Network:
        """The network as collectives see it: split dimensions are two."""
        splits = {split.dimension: split for split in self.iteration.splits}
        dimensions: list[Dimension] = []
        for name, dimension in zip(self.network.dimension_names, self.network.dimensions, strict=True):
            parts = [(name, dimension.size)]
            if name in splits:
                parts = list(zip(splits[name].names, splits[name].sizes, strict=True))
            dimensions += [dimension.replace(name=part, size=size) for part, size in parts]
        return Network(name=self.network.name, dimensions=tuple(dimensions), source=self.network.source)

    @cached_property
    def resources(self) -> tuple[int, ...]:
        """For each dimension of the fabric, the resource it occupies; the compute of an NPU is one more."""
        shared = {split.names[1] for split in self.iteration.splits if split.shared}
        numbers: list[int] = []
        for name in self.fabric.dimension_names:
            numbers.append(numbers[-1] if name in shared else max(numbers, default=-1) + 1)
        return tuple(numbers)

    @property
    def num_resources(self) -> int:
        """Resources of the network, without the compute of the NPU."""
        return max(self.resources) + 1

    @cached_property
    def task_index(self) -> dict[str, int]:
        """Position of each task in the order of execution."""
        return {task.name: number for number, task in enumerate(self.iteration.tasks)}

    @cached_property
    def ready_task(self) -> tuple[int, ...]:
        """Per tensor, the task that makes it."""
        return tuple(self.task_index[t.ready_after] for t in self.iteration.tensors)

    @cached_property
    def needed_task(self) -> tuple[int, ...]:
        """Per tensor, the task that needs it."""
        return tuple(self.task_index[t.needed_before] for t in self.iteration.tensors)

    @cached_property
    def needed_later(self) -> tuple[int, ...]:
        """Per tensor, 1 if it is needed in the next iteration, 0 if in the same one."""
        return tuple(
            int(tensor.needed_in == "next" or needed <= ready)
            for tensor, ready, needed in zip(self.iteration.tensors, self.ready_task, self.needed_task, strict=True)
        )

    @cached_property
    def spans(self) -> tuple[tuple[int, ...], ...]:
        """Per tensor, the indices of the dimensions of the fabric that it spans, innermost first."""
        index = {name: k for k, name in enumerate(self.fabric.dimension_names)}
        everything = tuple(index)
        return tuple(
            tuple(sorted(index[name] for name in tensor.dimensions or everything)) for tensor in self.iteration.tensors
        )

    @property
    def compute(self) -> int:
        """Picoseconds of compute in one iteration."""
        return sum(task.duration for task in self.iteration.tasks)

    @property
    def memory(self) -> int:
        """Bytes that the tasks claim on each NPU."""
        return sum(task.parameter_bytes for task in self.iteration.tasks)

    def one_by_one(self) -> Instance:
        """Its tensors as collectives of their own, all released after as much compute as one iteration has."""
        collectives = tuple(
            Collective(
                name=tensor.name,
                kind=tensor.kind,
                size=tensor.size,
                chunks=min(self.chunks, tensor.size // tensor.element_bytes),
                dimensions=tuple(self.fabric.dimension_names[k] for k in span),
                release=f"{self.compute} ps",
                element_bytes=tensor.element_bytes,
            )
            for tensor, span in zip(self.iteration.tensors, self.spans, strict=True)
        )
        return Instance(network=self.fabric, collectives=collectives, latency=self.latency, ag_order=self.ag_order)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides which schedules are legal, how long they take and what policies do."""
        apart = {"name", "dimensions", "ready_after", "needed_before", "needed_in"}
        tensors = [tensor.model_dump(exclude=apart) for tensor in self.iteration.tensors]
        where = [self.ready_task, self.needed_task, self.needed_later, self.spans, self.resources]
        durations = [task.duration for task in self.iteration.tasks]
        content = [
            FORMAT,
            "iteration",
            self.fabric.identity,
            tensors,
            where,
            durations,
            self.chunks,
            self.latency,
            self.ag_order,
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def overridden(
        self,
        *,
        size: str | int | None = None,
        chunks: int | None = None,
        latency: str | None = None,
        ag_order: str | None = None,
    ) -> Self:
        """The instance with its chunks and rules replaced where given; tensors keep their sizes."""
        if size is not None:
            raise InputError("an iteration has none: its tensors have their own sizes", field="size", value=size)
        given = {"chunks": chunks, "latency": latency, "ag_order": ag_order}
        changes = {name: value for name, value in given.items() if value is not None}
        return self.replace(**changes) if changes else self

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_splits()
        self._check_names()
        self._check_references()
        self._check_order()
        if self.compute > MAX_CLOCK:
            longest = MAX_CLOCK / PICOSECONDS_PER_SECOND
            raise ValueError(f"iteration.tasks must take at most the {longest:.3g} s together that the clock holds")
        return self

    def _check_splits(self) -> None:
        sizes = dict(zip(self.network.dimension_names, self.network.sizes, strict=True))
        for number, split in enumerate(self.iteration.splits):
            field = f"iteration.splits[{number}]"
            if split.dimension not in sizes:
                raise ValueError(f"{field}.dimension names '{split.dimension}', the network has {', '.join(sizes)}")
            if math.prod(split.sizes) != sizes[split.dimension]:
                raise ValueError(f"{field}.sizes must multiply to {sizes[split.dimension]}, are {split.sizes}")
        divided = {split.dimension for split in self.iteration.splits}
        if len(divided) < len(self.iteration.splits):
            raise ValueError("iteration.splits splits a dimension twice")
        if len(sizes) + len(divided) > MAX_DIMENSIONS:
            raise ValueError(f"must have at most {MAX_DIMENSIONS} dimensions after splits")
        parts = [name for split in self.iteration.splits for name in split.names]
        names = [name for name in sizes if name not in divided] + parts
        if len(set(names)) < len(names):
            raise ValueError(f"dimension names must differ after splits, got {', '.join(names)}")

    def _check_names(self) -> None:
        for what, parts in (("task", self.iteration.tasks), ("tensor", self.iteration.tensors)):
            names = [part.name for part in parts]
            repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
            if repeated:
                raise ValueError(f"iteration.{what}s: names must differ, '{repeated[0]}' stands twice")

    def _check_references(self) -> None:
        tasks, dimensions = self.task_index, self.fabric.dimension_names
        for number, task in enumerate(self.iteration.tasks):
            for name in task.after:
                if name not in tasks:
                    raise ValueError(f"iteration.tasks[{number}].after names '{name}', there is no such task")
        for number, tensor in enumerate(self.iteration.tensors):
            field = f"iteration.tensors[{number}]"
            for key, name in (("ready_after", tensor.ready_after), ("needed_before", tensor.needed_before)):
                if name not in tasks:
                    raise ValueError(f"{field}.{key} names '{name}', there is no such task")
            chosen = tensor.dimensions or ()
            unknown = [name for name in chosen if name not in dimensions]
            if unknown:
                raise ValueError(f"{field}.dimensions names '{unknown[0]}', the network has {', '.join(dimensions)}")
            if len(set(chosen)) < len(chosen):
                raise ValueError(f"{field}.dimensions repeats a dimension")

    def _check_order(self) -> None:
        """Dependencies must have no cycle, and tasks must be listed in an order that obeys them."""
        waits: dict[str, set[str]] = {task.name: set(task.after) for task in self.iteration.tasks}
        for tensor, later in zip(self.iteration.tensors, self.needed_later, strict=True):
            if tensor.needed_in == "this" or not later:
                waits[tensor.needed_before].add(tensor.ready_after)
        try:
            tuple(TopologicalSorter(waits).static_order())
        except CycleError as error:
            raise ValueError(f"iteration: dependencies form a cycle: {' <- '.join(error.args[1])}") from None
        for task in self.iteration.tasks:
            late = [name for name in waits[task.name] if self.task_index[name] >= self.task_index[task.name]]
            if late:
                raise ValueError(f"iteration.tasks: '{task.name}' waits for '{late[0]}', which is listed after it")
