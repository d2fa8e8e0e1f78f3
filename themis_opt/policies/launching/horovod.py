"""The fusion buffer of Horovod."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from themis_opt.base.units import Bytes, Picoseconds
from themis_opt.policies.launching.common import (
    Bucket,
    Launching,
    fusible,
    grouped,
    launches_alone,
    next_iteration,
    whole,
)
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch


@dataclass(frozen=True)
class Horovod(Launching):
    """Every cycle, fuse the tensors that became ready in it, as far as they fit in the buffer.

    Cycles are counted in compute time from the start of the iteration, and a buffer is launched when the last of its
    tensors is ready rather than at the end of the cycle.  https://horovod.readthedocs.io/en/stable/tensor-fusion.html.
    The defaults are those since release 0.21 (https://github.com/horovod/horovod/pull/2468); before they were
    ``horovod:buffer=64MiB:cycle=5ms``.

    `buffer`: capacity of the fusion buffer, 128 MiB by default; a larger tensor goes alone.
    `cycle`: time between two looks at what is ready, 1 ms by default.
    """

    buffer: Annotated[Bytes, Field(gt=0)] = 128 * 2**20
    cycle: Annotated[Picoseconds, Field(gt=0)] = 1_000_000_000

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        ends = _ends(instance)
        launches = launches_alone(instance)
        for tensors in fusible(instance):
            for bucket in self._buffers(instance, tensors, ends):
                launches.append(whole(instance, bucket, before=next_iteration(instance, bucket)))
        return tuple(launches)

    def _buffers(self, instance: Instance, tensors: Bucket, ends: list[int]) -> list[Bucket]:
        def cycle(tensor: int) -> int:
            return ends[instance.exchanges[tensor].ready_task] // self.cycle

        def begins(buckets: list[list[int]], held: int, tensor: int) -> bool:
            is_full = held + instance.exchanges[tensor].size > self.buffer
            return is_full or cycle(tensor) != cycle(buckets[-1][-1])

        return grouped(instance, tensors, begins)


def _ends(instance: Instance) -> list[int]:
    """When every task ends if none waits for communication."""
    ends = [0] * len(instance.tasks)
    clocks = [0] * instance.num_stages
    before: dict[int, list[int]] = {}
    for one, other in instance.waits:
        before.setdefault(other, []).append(one)
    for exchange in instance.exchanges:
        if not exchange.needed_later:
            before.setdefault(exchange.needed_task, []).append(exchange.ready_task)
    for number, task in enumerate(instance.tasks):
        start = max(clocks[task.stage], *(ends[one] for one in before.get(number, ())), 0)
        ends[number] = clocks[task.stage] = start + task.duration
    return ends
