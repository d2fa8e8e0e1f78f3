"""A plan of a training iteration: which collectives are launched when, and what each does on the network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from themis_opt.cost import FloatArray, IntArray, read_only
from themis_opt.instance import Collective, CollectiveKind, Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.plan import Plan

Part = Literal["whole", "scatter", "gather"]
"""What a launch does with its tensors: all of it, or one half of their all-reduce."""

Order = Literal["ready", "newest", "layer"]
"""Which launch a dimension serves first: the one ready first, the newest, or the one needed first."""


class TaskOf(NamedTuple):
    """A compute task, of the iteration that launches (`later` 0) or of the one after it (1)."""

    task: int
    later: int


@dataclass(frozen=True)
class Launch:
    """One collective operation of every iteration.

    Attributes
    ----------
    name : str
        Unique in its plan.
    kind : CollectiveKind
        What is run: half an all-reduce is a reduce-scatter or an all-gather.
    tensors : tuple of int
        Tensors that it carries, fused.
    after : TaskOf
        The task whose end releases it.
    before : TaskOf
        The task that waits for its result.
    after_launches : tuple of int
        Launches of the same iteration whose results it waits for.
    part : {"whole", "scatter", "gather"}
        What it does with its tensors.
    """

    name: str
    kind: CollectiveKind
    tensors: tuple[int, ...]
    after: TaskOf
    before: TaskOf
    after_launches: tuple[int, ...] = ()
    part: Part = "whole"


@dataclass(frozen=True, eq=False)
class IterationPlan:
    """What policies decide about every iteration.

    Attributes
    ----------
    launches : tuple of Launch
        Together they carry every tensor once.
    stream : Instance
        The network as collectives see it, with one collective per launch.
    chunks : Plan
        Chunks and paths of every launch; its stages are the stages of an iteration.
    order : {"ready", "newest", "layer"}
        Which launch a dimension serves first, all-to-all aside, which goes before all.
    keys : float64 array, shape (stages,), or None
        Priority of the stages of launches that are equal otherwise, instead of the dispatch rule of `chunks`.
    sequences : tuple of int64 arrays, shape (stages on a resource, 2)
        Per resource the stages it serves in one period, each with the number of periods since the iteration it belongs
        to began; empty where `order` and dispatch rule decide.
    """

    launches: tuple[Launch, ...]
    stream: Instance
    chunks: Plan
    order: Order = "ready"
    keys: FloatArray | None = None
    sequences: tuple[IntArray, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(read_only(s) for s in self.sequences))

    @cached_property
    def launch_of_stage(self) -> IntArray:
        """Launch of every stage, shape (stages,)."""
        return read_only(np.repeat(np.arange(len(self.launches)), [c.paths.size for c in self.chunks.chunks]))

    @cached_property
    def ends_of_chunks(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per launch, the first and the last stage of each chunk."""
        pairs = []
        for first, own in zip(self.chunks.offsets, self.chunks.chunks, strict=False):
            starts = first + np.arange(len(own.sizes)) * own.paths.shape[1]
            pairs.append((starts, starts + own.paths.shape[1] - 1))
        return tuple(pairs)

    def enforcing(self, sequences: tuple[IntArray, ...]) -> Self:
        """The same launches and chunks with these sequences enforced."""
        return replace(self, sequences=sequences)


def stream_of(instance: IterationInstance, launches: Sequence[Launch]) -> Instance:
    """The network of an iteration with one collective per launch, in chunks as the instance says."""
    tensors = instance.iteration.tensors
    collectives = []
    for launch in launches:
        own = [tensors[t] for t in launch.tensors]
        element = own[0].element_bytes
        size = sum(tensor.size for tensor in own)
        span = instance.spans[launch.tensors[0]]
        collectives.append(
            Collective(
                name=launch.name,
                kind=launch.kind,
                size=size,
                chunks=min(instance.chunks, size // element),
                dimensions=tuple(instance.fabric.dimension_names[k] for k in span),
                element_bytes=element,
            )
        )
    return Instance(
        name=instance.name,
        network=instance.fabric,
        collectives=tuple(collectives),
        latency=instance.latency,
        ag_order=instance.ag_order,
    )
