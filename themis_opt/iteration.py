"""What a training iteration is made of: compute tasks, tensors, and dimensions divided between groups."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from themis_opt.instance import MAX_BYTES, CollectiveKind, Count, Model
from themis_opt.units import Bytes, Picoseconds

MAX_TASKS = 10_000
MAX_TENSORS = 10_000

Parallelism = Literal["data", "model"]
"""Why NPUs exchange a tensor: they trained on different data, or hold different parts of the model."""


class ComputeTask(Model):
    """Work of the NPU that nothing interrupts, such as the forward pass of one layer.

    `after` names tasks of the same iteration that come first; `parameter_bytes` is the memory that it claims on
    each NPU for as long as training lasts.
    """

    name: Annotated[str, Field(min_length=1)]
    duration: Annotated[Picoseconds, Field(ge=0)]
    after: tuple[str, ...] = ()
    parameter_bytes: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)] = 0


class Tensor(Model):
    """Bytes that one collective operation could exchange.

    `size` counts like that of a collective; `ready_after` is the task that makes it, `needed_before` the next task
    that uses the result: of the same iteration if it runs later there, of the following one otherwise.
    """

    name: Annotated[str, Field(min_length=1)]
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE
    size: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    ready_after: str
    needed_before: str
    needed_in: Literal["this", "next"] | None = None
    dimensions: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    parallelism: Parallelism = "data"
    element_bytes: Annotated[Count, Field(gt=0, le=MAX_BYTES)] = 2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size % self.element_bytes:
            raise ValueError(f"size must be a multiple of element_bytes = {self.element_bytes}, is {self.size} bytes")
        return self


class Split(Model):
    """One dimension divided between two groups of NPUs: `sizes` multiply to its size, the first is the inner one.

    The parts have the full bandwidth each, or, where `shared`, are one resource together, as a NIC is.
    """

    dimension: str
    sizes: tuple[Annotated[Count, Field(ge=2)], Annotated[Count, Field(ge=2)]]
    names: tuple[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]]
    shared: StrictBool = False


class Iteration(Model):
    """Compute tasks in the order they run, and the tensors exchanged beside them.

    `steps` is the number of batches one iteration stands for, where gradients are not exchanged after each.
    """

    tasks: Annotated[tuple[ComputeTask, ...], Field(min_length=1, max_length=MAX_TASKS)]
    tensors: Annotated[tuple[Tensor, ...], Field(min_length=1, max_length=MAX_TENSORS)]
    splits: tuple[Split, ...] = ()
    steps: Annotated[Count, Field(gt=0)] = 1
