"""One bucket for each block of layers, and what frameworks for sharded parameters make of it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from themis_opt.policies.launching.common import Bucket, Launching, may_fuse, of_runs, runs
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch

BLOCK = re.compile(r"^.*?\d+")
"""The beginning of the name of a tensor that those of the same block share, such as ``layer12``."""


@dataclass(frozen=True)
class BlockBuckets(Launching):
    """Fuse what belongs to one block of layers, and launch it when the last part is ready.

    A block is what the names of tensors say up to their first number; each tensor without one is a block.
    This is what is written by hand for a transformer: https://github.com/pytorch/pytorch/issues/184236.
    """

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        return tuple(of_runs(instance, (bucket for run in runs(instance) for bucket in _blocks(instance, run))))


@dataclass(frozen=True)
class Fsdp2(BlockBuckets):
    """PyTorch's ``fully_shard`` on every block: one stream for each kind of collective.

    Each gather is launched `ahead` blocks before its use, 1 by default, as implicit prefetching does, or
    ``set_modules_to_forward_prefetch`` with longer lists.  https://docs.pytorch.org/docs/main/distributed.fsdp.fully_shard.html.
    """

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        return in_streams(instance, super().__call__(instance), lambda launch: launch.kind)


@dataclass(frozen=True)
class OneStream(BlockBuckets):
    """All data-parallel collectives one after the other, as Megatron-LM launches them by default.

    https://github.com/NVIDIA/Megatron-LM, distributed optimizer with overlapped gathers and reductions.
    """

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        return in_streams(instance, super().__call__(instance), lambda _: None)


@dataclass(frozen=True)
class StreamPerDomain(BlockBuckets):
    """A stream for each group of dimensions, such as those inside of nodes and those between them."""

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        exchanges = instance.exchanges
        return in_streams(instance, super().__call__(instance), lambda launch: exchanges[launch.tensors[0]].span)


def _blocks(instance: Instance, run: Bucket) -> Iterator[Bucket]:
    """Neighbours in a run whose names begin alike; alone where some are needed before others are ready."""

    def block(tensor: int) -> str:
        name = instance.exchanges[tensor].name
        match = BLOCK.match(name)
        return match[0] if match else name

    for _, tensors in groupby(run, key=block):
        bucket = tuple(tensors)
        yield from [bucket] if may_fuse(instance, bucket) else [(tensor,) for tensor in bucket]


def in_streams(
    instance: Instance, launches: tuple[Launch, ...], stream: Callable[[Launch], object]
) -> tuple[Launch, ...]:
    """The launches, each data-parallel one waiting for the one before it in its stream, of the same iteration."""
    moved, last = list(launches), dict[object, int]()

    def moment(number: int) -> tuple[int, int, bool, int]:
        launch = launches[number]
        task, later = launch.after or (-1, -1)
        return later, task, bool(launch.after_launches), number

    for number in sorted(range(len(launches)), key=moment):
        launch = launches[number]
        if instance.exchanges[launch.tensors[0]].parallelism == "data":
            before = last.setdefault(stream(launch), number)
            if before != number and before not in launch.after_launches:
                moved[number] = replace(launch, after_launches=(*launch.after_launches, before))
            last[stream(launch)] = number
    return tuple(moved)
