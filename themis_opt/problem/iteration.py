"""What a training iteration is made of: compute tasks, and dimensions divided between groups."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field, StrictBool

from themis_opt.base.units import Bytes, Picoseconds
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.fields import MAX_BYTES, MAX_DIMENSIONS, Count, FieldError, Model
from themis_opt.problem.network import Dimension

MAX_TASKS = 10_000  # tasks of an iteration
MAX_TENSORS = 20_000  # tensors of an iteration
MAX_PIPELINE_STAGES = 64  # stages of an iteration


class ComputeTask(Model):
    """Work of the NPU that nothing interrupts, such as the forward pass of one layer.

    `after` names tasks of the same iteration that come first; `parameter_bytes` is the memory that it claims on
    each NPU for as long as training lasts; `activation_bytes` what it keeps from its start to the end of the task
    `freed_after`, itself by default, or of that task in the next iteration; `stage` is that of a pipeline whose NPUs
    run it.

    Examples
    --------
    >>> ComputeTask(name="forward 1", duration="2 ms").duration
    2000000000
    """

    name: Annotated[str, Field(min_length=1)]
    duration: Annotated[Picoseconds, Field(ge=0)]
    after: Annotated[tuple[str, ...], Field(fail_fast=True)] = ()
    parameter_bytes: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)] = 0
    activation_bytes: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)] = 0
    freed_after: str | None = None
    stage: Annotated[Count, Field(ge=0, lt=MAX_PIPELINE_STAGES)] = 0


class Split(Model):
    """One dimension divided between groups of NPUs: `sizes` multiply to its size, the innermost comes first.

    The parts have the full bandwidth each, or, where `shared`, are one resource together, as a NIC is.

    Examples
    --------
    >>> Split(dimension="nvlink", sizes=(2, 4), names=("tensor", "data")).sizes
    (2, 4)
    """

    dimension: str
    sizes: Annotated[tuple[Annotated[Count, Field(ge=2)], ...], Field(min_length=2, max_length=MAX_DIMENSIONS)]
    names: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=2, max_length=MAX_DIMENSIONS)]
    shared: StrictBool = False


def check_splits(splits: Iterable[Split], sizes: Mapping[str, int], field: str) -> None:
    """Refuse splits that do not fit dimensions of some sizes, by a FieldError within a field."""
    for number, split in enumerate(splits):
        where = f"{field}[{number}]"
        if split.dimension not in sizes:
            raise FieldError(f"names '{split.dimension}', the network has {', '.join(sizes)}", f"{where}.dimension")
        if len(split.names) != len(split.sizes):
            raise FieldError(f"must be as many as sizes, {len(split.sizes)}, are {len(split.names)}", f"{where}.names")
        if math.prod(split.sizes) != sizes[split.dimension]:
            raise FieldError(f"must multiply to {sizes[split.dimension]}, are {split.sizes}", f"{where}.sizes")
    divided = [split.dimension for split in splits]
    if len(set(divided)) < len(divided):
        raise FieldError("splits a dimension twice", field)


class Iteration(Model):
    """Compute tasks in the order they run, and the tensors exchanged beside them.

    In a pipeline each stage has separate NPUs, which run its tasks one after the other, beside those of other stages,
    and separate dimensions, as large as the network says: its tensors leave by them, those that go to other stages
    included.
    `steps` is the number of batches one iteration stands for, where gradients are not exchanged after each.  `links`
    are dimensions that every NPU has beside the network, such as one to the memory of its host: only tensors that name
    them use them.  `launching` is the policy of the tool that the iteration comes from, with which others are compared.

    Examples
    --------
    >>> import themis_opt
    >>> len(themis_opt.load("v100-64.vgg-16").iteration.tasks)
    32
    """

    tasks: Annotated[tuple[ComputeTask, ...], Field(min_length=1, max_length=MAX_TASKS)]
    tensors: Annotated[tuple[Tensor, ...], Field(min_length=1, max_length=MAX_TENSORS)]
    splits: Annotated[tuple[Split, ...], Field(fail_fast=True)] = ()
    steps: Annotated[Count, Field(gt=0)] = 1
    links: Annotated[tuple[Dimension, ...], Field(fail_fast=True)] = ()
    launching: str = ""

    @property
    def num_stages(self) -> int:
        """Stages of the pipeline; 1 where all NPUs do the same."""
        return 1 + max(task.stage for task in self.tasks)
