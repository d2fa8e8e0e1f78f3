"""What is exchanged on a network: collectives, or tensors of a training iteration; one view of both."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from themis_opt.base.errors import InputError
from themis_opt.base.units import Bytes, Picoseconds
from themis_opt.problem.fields import MAX_BYTES, MAX_CHUNKS, Count, Model
from themis_opt.problem.phases import CollectiveKind

Parallelism = Literal["data", "model"]
"""Why NPUs exchange a tensor: they trained on different data, or hold different parts of the model."""


class Collective(Model):
    """One collective operation.

    `size` is the larger buffer of one NPU: the output of an all-gather, else the input.
    `dimensions` names the dimensions it spans (all by default).

    Examples
    --------
    >>> Collective(kind="all_reduce", size="256 MB", chunks=4).size
    256000000
    """

    kind: CollectiveKind
    size: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64
    name: str = ""
    dimensions: Annotated[tuple[str, ...], Field(min_length=1, fail_fast=True)] | None = None
    release: Annotated[Picoseconds, Field(ge=0)] = 0
    element_bytes: Annotated[Count, Field(gt=0, le=MAX_BYTES)] = 2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size % self.element_bytes:
            raise ValueError(f"size must be a multiple of element_bytes = {self.element_bytes}, is {self.size} bytes")
        return self


class Tensor(Model):
    """Bytes that one collective operation could exchange.

    `size` counts like that of a collective; `ready_after` is the task that makes it, `needed_before` the next task
    that uses the result: of the same iteration if it runs later there, of the following one otherwise.
    `after` names tensors of the same iteration that must have arrived before it leaves; it is done when all but the
    fraction `tolerance` of its bytes has arrived, and the rest is never sent.
    `freed_after` is for an all-gather: the task whose end gives the gathered bytes up, of the iteration that needs them
    or of the next one; without it they stay for as long as training lasts.

    Examples
    --------
    >>> Tensor(name="layer 1", size="4 MB", ready_after="backward 1", needed_before="forward 1").kind.value
    'all_reduce'
    """

    name: Annotated[str, Field(min_length=1)]
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE
    size: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    ready_after: str
    needed_before: str
    needed_in: Literal["this", "next"] | None = None
    dimensions: Annotated[tuple[str, ...], Field(min_length=1, fail_fast=True)] | None = None
    parallelism: Parallelism = "data"
    element_bytes: Annotated[Count, Field(gt=0, le=MAX_BYTES)] = 2
    after: Annotated[tuple[str, ...], Field(fail_fast=True)] = ()
    tolerance: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    freed_after: str | None = None

    @property
    def required(self) -> int:
        """Bytes that must arrive: whole elements, at least one."""
        elements = self.size // self.element_bytes
        return (elements - int(elements * Fraction(str(self.tolerance)))) * self.element_bytes

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size % self.element_bytes:
            raise ValueError(f"size must be a multiple of element_bytes = {self.element_bytes}, is {self.size} bytes")
        return self


@dataclass(frozen=True)
class Exchange:
    """One collective operation, whoever asks for it: a collective of a problem, a tensor, or several of them fused.

    Attributes
    ----------
    name : str
        Unique in its problem.
    size, element_bytes : int
        Bytes, counted like the size of a :class:`Collective`.
    max_chunks : int
        How many chunks the problem allows.
    span : tuple of int
        Indices of the dimensions, innermost first.
    release : int
        Earliest start in picoseconds.
    ready_task, needed_task : int
        Task that makes the data, and task that needs the result; -1 where no task does.
    needed_later : int
        1 if the result is needed in the next iteration, 0 if in the same one.
    freed_task, freed_later : int
        Task whose end gives a gathered result up, and in which iteration, counted like `needed_later`; -1 where it
        stays.
    parallelism : {"data", "model"}
    after : tuple of int
        Exchanges of the same iteration whose results it waits for.

    Examples
    --------
    >>> import themis_opt
    >>> (exchange,) = themis_opt.load("fig5.all_reduce.256MB").exchanges
    >>> exchange.size, exchange.span
    (256000000, (0, 1))
    """

    name: str
    kind: CollectiveKind
    size: int
    max_chunks: int
    span: tuple[int, ...]
    element_bytes: int = 2
    release: int = 0
    ready_task: int = -1
    needed_task: int = -1
    needed_later: int = 0
    freed_task: int = -1
    freed_later: int = 0
    parallelism: Parallelism = "data"
    after: tuple[int, ...] = ()

    @property
    def chunks(self) -> int:
        """Chunks into which it can be cut: no more than the problem allows, and than it has elements."""
        return min(self.max_chunks, self.size // self.element_bytes)

    @property
    def num_stages(self) -> int:
        """Stages of all its chunks."""
        return self.chunks * len(self.span) * len(self.kind.rule.phases)


def refuse_sends(exchanges: Iterable[Exchange], runtime: str) -> None:
    """Refuse messages between neighbours, by an InputError, where only collective operations can be run."""
    for exchange in exchanges:
        if any(phase.rule.shifts for phase in exchange.kind.rule.phases):
            raise InputError(f"{runtime} runs no messages between neighbours", field="kind", value=exchange.kind.value)
