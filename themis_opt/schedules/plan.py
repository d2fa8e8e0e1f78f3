"""A plan: what is launched when, how it is cut in chunks, their paths, and who goes first on a dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray, read_only
from themis_opt.base.errors import InputError
from themis_opt.problem.cost import StageCosts, path_costs, stage_phases
from themis_opt.problem.phases import CollectiveKind, Data, Phase

if TYPE_CHECKING:
    from themis_opt.problem.exchanges import Exchange
    from themis_opt.problem.instance import Instance

# What a launch does with what it carries: all of it, or one half of their all-reduce
LaunchedPart = Literal["whole", "scatter", "gather"]
# Which launch a dimension serves first: the one ready first, the newest, or the one needed first
Order = Literal["ready", "newest", "layer"]


class TaskOf(NamedTuple):
    """A compute task, of the iteration that launches (`later` 0) or of the one after it (1).

    Examples
    --------
    >>> TaskOf(task=3, later=0).task
    3
    """

    task: int
    later: int


@dataclass(frozen=True)
class Launch:
    """One collective operation, in every iteration where there are iterations.

    Attributes
    ----------
    name : str
        Unique in its plan.
    kind : CollectiveKind
        What is run: half an all-reduce is a reduce-scatter or an all-gather.
    tensors : tuple of int
        Exchanges of the instance that it carries, fused.
    after : TaskOf or None
        The task whose end releases it, if there is one.
    before : TaskOf or None
        The task that waits for its result, if there is one.
    after_launches : tuple of int
        Launches of the same iteration whose results it waits for.
    part : {"whole", "scatter", "gather"}
        What it does with its exchanges.
    urgent : bool
        Whether every dimension serves it before all launches that are not.

    Examples
    --------
    >>> from themis_opt.problem.phases import CollectiveKind
    >>> Launch("bucket 1", CollectiveKind.ALL_REDUCE, tensors=(4, 5), after=TaskOf(7, 0)).part
    'whole'
    """

    name: str
    kind: CollectiveKind
    tensors: tuple[int, ...]
    after: TaskOf | None = None
    before: TaskOf | None = None
    after_launches: tuple[int, ...] = ()
    part: LaunchedPart = "whole"
    urgent: bool = False


class Stage(NamedTuple):
    """One visit of a chunk to a dimension; all fields are indices, `position` counts along the path."""

    launch: int
    chunk: int
    position: int
    phase: Phase
    dimension: int


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of one launch.

    Attributes
    ----------
    sizes : int64 array, shape (chunks,)
        Bytes of each chunk, counted like the size of the collective.
    paths : int64 array, shape (chunks, stages)
        Dimension of each stage.  The path of an all-reduce is its scatter order followed by its gather order.

    Examples
    --------
    >>> import numpy as np
    >>> Chunks(sizes=np.array([600, 400]), paths=np.array([[0, 1], [1, 0]])).paths.shape
    (2, 2)
    """

    sizes: IntArray
    paths: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", read_only(self.sizes))
        object.__setattr__(self, "paths", read_only(self.paths))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Chunks)
            and np.array_equal(self.sizes, other.sizes)
            and np.array_equal(self.paths, other.paths)
        )


NO_SHIFTS = read_only(np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Plan:
    """What a policy decides.

    Stages are numbered through: launch by launch, chunk by chunk, along the path.

    Attributes
    ----------
    chunks : tuple of Chunks
        One entry per launch.
    dispatch : str
        Rule that picks among the waiting stages of a dimension, a key of
        :data:`themis_opt.schedules.dispatch.DISPATCH`.
    sequences : tuple of (int64 array or None)
        Per resource of the network the stage numbers in the order to enforce, or None where `order` and `dispatch`
        rule; empty when they rule everywhere.
    launches : tuple of Launch
        Together they carry every exchange of the instance once.  Without any, each exchange is launched alone, as
        soon as it is ready.
    order : {"ready", "newest", "layer"}
        Which launch a dimension serves first; urgent ones go before all others.
    keys : float64 array, shape (stages,), or None
        Priority of the stages of launches that are equal otherwise, instead of the dispatch rule.
    shifts : int64 array, shape (stages,) or (0,)
        Per stage, how many periods after its iteration began the enforced sequences serve it; 0 for all when empty.

    Examples
    --------
    >>> import themis_opt
    >>> instance = themis_opt.load("fig5.all_reduce.256MB")
    >>> themis_opt.make_policy("themis+scf")(instance).dispatch
    'scf'
    """

    chunks: tuple[Chunks, ...]
    dispatch: str = "fifo"
    sequences: tuple[IntArray | None, ...] = ()
    launches: tuple[Launch, ...] = ()
    order: Order = "ready"
    keys: FloatArray | None = None
    shifts: IntArray = field(default_factory=lambda: NO_SHIFTS)

    def __post_init__(self) -> None:
        frozen = tuple(None if s is None else read_only(s) for s in self.sequences)
        object.__setattr__(self, "sequences", frozen)
        object.__setattr__(self, "shifts", read_only(self.shifts))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and (self.chunks, self.dispatch, self.launches, self.order)
            == (other.chunks, other.dispatch, other.launches, other.order)
            and len(self.sequences) == len(other.sequences)
            and all(_same(a, b) for a, b in zip(self.sequences, other.sequences, strict=True))
            and _same(self.keys, other.keys)
            and np.array_equal(self.shifts, other.shifts)
        )

    def launched(self, instance: Instance) -> tuple[Exchange, ...]:
        """The collective operation of every launch."""
        return fused(instance, self.launches) if self.launches else instance.exchanges

    def launches_of(self, instance: Instance) -> tuple[Launch, ...]:
        """The launches, also where each exchange is launched alone."""
        return self.launches or default_launches(instance)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first stage of each launch, and the number of stages."""
        return (0, *np.cumsum([c.paths.size for c in self.chunks]).tolist())

    @property
    def num_stages(self) -> int:
        """Stages of the whole plan."""
        return self.offsets[-1]

    @cached_property
    def stage_dimensions(self) -> IntArray:
        """Dimension of every stage, shape (stages,)."""
        return read_only(np.concatenate([c.paths.ravel() for c in self.chunks]))

    def stage_resources(self, instance: Instance) -> IntArray:
        """Resource of the network that every stage occupies, shape (stages,)."""
        if instance.ports.is_plain:
            return self.stage_dimensions
        resources: IntArray = instance.ports.resource[self.phases(instance), self.stage_dimensions]
        return resources

    @cached_property
    def launch_of_stage(self) -> IntArray:
        """Launch of every stage, shape (stages,)."""
        return read_only(np.repeat(np.arange(len(self.chunks)), [c.paths.size for c in self.chunks]))

    @cached_property
    def chunk_of_stage(self) -> IntArray:
        """Chunk of every stage within its launch, shape (stages,)."""
        return read_only(np.concatenate([np.repeat(np.arange(len(c.paths)), c.paths.shape[1]) for c in self.chunks]))

    @cached_property
    def ends_of_chunks(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per launch, the first and the last stage of each chunk."""
        pairs = []
        for first, chunks in zip(self.offsets, self.chunks, strict=False):
            starts = first + np.arange(len(chunks.sizes)) * chunks.paths.shape[1]
            pairs.append((starts, starts + chunks.paths.shape[1] - 1))
        return tuple(pairs)

    @cached_property
    def last_of_chunk(self) -> IntArray:
        """The last stage of the chunk of every stage, shape (stages,)."""
        pairs = zip(self.ends_of_chunks, self.chunks, strict=True)
        return read_only(np.concatenate([np.repeat(last, part.paths.shape[1]) for (_, last), part in pairs]))

    @cached_property
    def positions(self) -> IntArray:
        """Place of every stage along the path of its chunk, shape (stages,)."""
        return read_only(np.concatenate([np.tile(np.arange(c.paths.shape[1]), len(c.paths)) for c in self.chunks]))

    def stage_of(self, instance: Instance, number: int) -> Stage:
        """The stage with a number."""
        launch = int(np.searchsorted(self.offsets, number, side="right")) - 1
        paths = self.chunks[launch].paths
        chunk, position = divmod(number - self.offsets[launch], paths.shape[1])
        phase = Phase(stage_phases(self.launched(instance)[launch].kind, paths.shape[1])[position])
        return Stage(launch, chunk, position, phase, int(paths[chunk, position]))

    def stages(self, instance: Instance) -> Iterator[Stage]:
        """All stages, in the order of their numbers."""
        return (self.stage_of(instance, number) for number in range(self.num_stages))

    def label(self, instance: Instance, number: int) -> str:
        """A stage in words, such as ``gradients chunk 3 reduce_scatter on dim2``."""
        stage = self.stage_of(instance, number)
        name, dimension = self.launched(instance)[stage.launch].name, instance.fabric.dimension_names[stage.dimension]
        return f"{name} chunk {stage.chunk} {stage.phase.name.lower()} on {dimension}"

    def costs(self, instance: Instance) -> StageCosts:
        """Costs of every stage, arrays of shape (stages,); launches of one kind are looked at together."""
        alike: dict[tuple[CollectiveKind, int], list[int]] = {}
        for number, (exchange, chunks) in enumerate(zip(self.launched(instance), self.chunks, strict=True)):
            alike.setdefault((exchange.kind, chunks.paths.shape[1]), []).append(number)
        parts = [self._costs_of(instance, kind, numbers) for (kind, _), numbers in alike.items()]
        if len(parts) == 1:
            return parts[0]
        numbers = [number for group in alike.values() for number in group]
        order = np.argsort(np.concatenate([np.arange(*self.offsets[number : number + 2]) for number in numbers]))
        return StageCosts(*(np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True)))

    def _costs_of(self, instance: Instance, kind: CollectiveKind, numbers: Sequence[int]) -> StageCosts:
        """Costs of the stages of some launches of one kind and as many stages, one launch after the other."""
        chunks = [self.chunks[number] for number in numbers]
        sizes = np.concatenate([part.sizes for part in chunks])
        paths = np.concatenate([part.paths for part in chunks])
        return StageCosts._make(array.ravel() for array in path_costs(instance, kind, sizes, paths))

    def releases(self, instance: Instance) -> IntArray:
        """Release of the collective of every stage in picoseconds, shape (stages,)."""
        pairs = zip(self.chunks, self.launched(instance), strict=True)
        return np.concatenate([np.full(part.paths.size, exchange.release) for part, exchange in pairs])

    def phases(self, instance: Instance) -> IntArray:
        """Phase of every stage, shape (stages,)."""
        pairs = zip(self.chunks, self.launched(instance), strict=True)
        return np.concatenate(
            [np.tile(stage_phases(e.kind, part.paths.shape[1]), len(part.sizes)) for part, e in pairs]
        )

    def enforcing(self, sequences: tuple[IntArray, ...], shifts: IntArray = NO_SHIFTS) -> Self:
        """The same launches and chunks with these sequences enforced."""
        return replace(self, sequences=sequences, shifts=shifts)

    def in_order_of(self, instance: Instance, starts: IntArray | FloatArray, shifts: IntArray = NO_SHIFTS) -> Self:
        """The same launches and chunks, every resource serving its stages by their `starts`, shape (stages,).

        Equal starts are ordered by the iteration they belong to, the earlier first, and by position along the path, so
        that stages of no length cannot make the sequences wait for each other.
        """
        earlier = -shifts if len(shifts) else np.zeros(self.num_stages, dtype=np.int64)
        order = np.lexsort((np.arange(self.num_stages), self.positions, earlier, starts))
        resource = self.stage_resources(instance)[order]
        sequences = tuple(order[resource == number] for number in range(instance.num_resources))
        return self.enforcing(sequences, shifts)


def check_sequences(instance: Instance, plan: Plan, sequences: Mapping[str, IntArray | None]) -> None:
    """Refuse enforced sequences, one per resource by its field, that are no orderings of the stages there."""
    resources = plan.stage_resources(instance)
    for number, (name, stages) in enumerate(sequences.items()):
        if stages is not None and not np.array_equal(np.sort(stages), np.flatnonzero(resources == number)):
            raise InputError("must list each of the stages of the resource once", field=name)


def _same(a: IntArray | FloatArray | None, b: IntArray | FloatArray | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


@lru_cache(maxsize=256)
def fused(instance: Instance, launches: tuple[Launch, ...]) -> tuple[Exchange, ...]:
    """The collective operation of every launch: as large as all that it carries, in as many chunks as that allows."""
    return tuple(_fused(launch, [instance.exchanges[number] for number in launch.tensors]) for launch in launches)


def _fused(launch: Launch, carried: Sequence[Exchange]) -> Exchange:
    return replace(
        carried[0],
        name=launch.name,
        kind=launch.kind,
        size=sum(exchange.size for exchange in carried),
        max_chunks=max(exchange.max_chunks for exchange in carried),
        release=max(exchange.release for exchange in carried),
    )


@lru_cache(maxsize=256)
def default_launches(instance: Instance) -> tuple[Launch, ...]:
    """One launch for every exchange, released by the task that makes its data."""
    return tuple(
        Launch(
            name=exchange.name,
            kind=exchange.kind,
            tensors=(number,),
            after=TaskOf(exchange.ready_task, 0) if exchange.ready_task >= 0 else None,
            before=TaskOf(exchange.needed_task, exchange.needed_later) if exchange.needed_task >= 0 else None,
            after_launches=exchange.after,
        )
        for number, exchange in enumerate(instance.exchanges)
    )


def has_launches(instance: Instance) -> bool:
    """Whether it matters what is launched when: where there is compute."""
    return bool(instance.tasks)


def mirrored_launches(instance: Instance, launches: Sequence[Launch]) -> dict[int, int]:
    """Where gathers must reverse scatters, the scatter of every gather that is launched alone."""
    if instance.ag_order == "free":
        return {}
    scatters = {launch.tensors: n for n, launch in enumerate(launches) if launch.part == "scatter"}
    return {n: scatters[launch.tensors] for n, launch in enumerate(launches) if launch.part == "gather"}


def equal_sizes(exchange: Exchange) -> IntArray:
    """Chunk sizes that differ by at most one element, shape (chunks,), the larger ones first."""
    elements, extra = divmod(exchange.size // exchange.element_bytes, exchange.chunks)
    sizes = np.full(exchange.chunks, elements, dtype=np.int64)
    sizes[:extra] += 1
    return sizes * exchange.element_bytes


def fixed_path(exchange: Exchange, order: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Today's fixed order: scatter (and all-to-all) inwards out, gather outwards in; or another `order` of its span."""
    span = order or exchange.span
    paths = (span[::-1] if phase.rule.data is Data.GROW else span for phase in exchange.kind.rule.phases)
    return tuple(k for phase_path in paths for k in phase_path)
