"""The overlap pass of PyTorch's Inductor: a greedy list of collectives that compute hides."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from themis_opt.base.units import Bytes
from themis_opt.policies.launching.common import (
    Bucket,
    Launching,
    delayed,
    grouped,
    may_fuse,
    of_runs,
    runs,
    times_alone,
)
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch


@dataclass(frozen=True)
class Inductor(Launching):
    """Task by task, launch what the task hides: at first what is under way, then gathers, in the order of their use.

    Each pass does so for itself.  Then neighbours are fused: gathers launched before the same task, and
    gradients that become ready while those before them are not yet hidden.  As in
    https://github.com/pytorch/pytorch/blob/main/torch/_inductor/fx_passes/overlap_scheduling.py, whose knobs these are:

    `max_in_flight`: bytes of collectives under way, 5 GiB by default.
    `max_compute_pre_fetch`: tasks ahead of which a gather is looked for, 200.
    `compute_overlap_multiplier`: factor on the time of tasks, 1.
    `max_memory_increase`: bytes of gathers that are launched ahead of the task that needs them, 1 GiB.
    `max_bucket_memory`: bytes of a bucket, 2 GB.
    """

    max_in_flight: Annotated[Bytes, Field(gt=0)] = 5 * 2**30
    max_compute_pre_fetch: Annotated[int, Field(ge=0)] = 200
    compute_overlap_multiplier: Annotated[float, Field(gt=0)] = 1.0
    max_memory_increase: Annotated[Bytes, Field(gt=0)] = 2**30
    max_bucket_memory: Annotated[Bytes, Field(gt=0)] = 2 * 10**9

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        hidden = _Hidden(self, instance)
        buckets = [bucket for run in runs(instance) for bucket in self._buckets(instance, run, hidden)]
        launches = []
        for launch in of_runs(instance, buckets):
            if instance.exchanges[launch.tensors[0]].freed_task >= 0:
                first = min(hidden.distance(tensor) for tensor in launch.tensors)
                launch = delayed(instance, launch, first)
            launches.append(launch if self.urgent else replace(launch, urgent=False))
        return tuple(launches)

    def _buckets(self, instance: Instance, run: Bucket, hidden: "_Hidden") -> list[Bucket]:
        def begins(buckets: list[list[int]], held: int, tensor: int) -> bool:
            size = held + instance.exchanges[tensor].size
            is_one = size <= self.max_bucket_memory and hidden.together(buckets[-1][-1], tensor)
            return not (is_one and may_fuse(instance, (*buckets[-1], tensor)))

        return grouped(instance, run, begins)


class _Hidden:
    """Before which task every collective is launched, and until which it is under way, in the greedy list.

    Tasks are counted on from those of one iteration to those of the next.
    """

    def __init__(self, knobs: Inductor, instance: Instance) -> None:
        self._knobs, self._instance, tasks = knobs, instance, len(instance.tasks)
        self._exposed = list(times_alone(instance))
        self._needs = [exchange.needed_task + exchange.needed_later * tasks for exchange in instance.exchanges]
        self._is_gather = [exchange.freed_task >= 0 for exchange in instance.exchanges]
        self._sizes = [exchange.size for exchange in instance.exchanges]
        self.launched: dict[int, int] = {}
        self.done: dict[int, int] = {}
        waiting = list(range(len(instance.exchanges)))
        for task in range(2 * tasks):
            self._start_ready(waiting, task)
            left = instance.tasks[task % tasks].duration * knobs.compute_overlap_multiplier
            left = self._hide(list(self._under_way()), task, left)
            for tensor in self._possible(waiting, task):
                if left <= 0:
                    break
                if self._has_room(tensor, task):
                    self._launch(waiting, tensor, task)
                    left = self._hide([tensor], task, left)

    def _has_room(self, tensor: int, task: int) -> bool:
        under_way = sum(self._sizes[other] for other in self._under_way())
        ahead = sum(self._sizes[n] for n in self.launched if self._is_gather[n] and self._needs[n] > task)
        more = self._sizes[tensor]
        return under_way + more <= self._knobs.max_in_flight and ahead + more <= self._knobs.max_memory_increase

    def _start_ready(self, waiting: list[int], task: int) -> None:
        """Launch gradients that are ready, and gathers that this task needs."""
        for tensor in list(waiting):
            ready = self._instance.exchanges[tensor].ready_task
            if self._needs[tensor] <= task if self._is_gather[tensor] else ready < task:
                self._launch(waiting, tensor, task)
        for tensor in self._under_way():
            if self._needs[tensor] <= task:
                self.done[tensor] = task

    def _launch(self, waiting: list[int], tensor: int, task: int) -> None:
        waiting.remove(tensor)
        self.launched[tensor] = task

    def _under_way(self) -> list[int]:
        return [tensor for tensor in self.launched if tensor not in self.done]

    def _possible(self, waiting: list[int], task: int) -> list[int]:
        """Gathers of the same pass that may be launched before this task, in the order of their use."""
        exchanges, tasks = self._instance.exchanges, len(self._instance.tasks)
        gathers = [
            (self._needs[tensor], tensor)
            for tensor in waiting
            if self._is_gather[tensor] and exchanges[tensor].ready_task < task
        ]
        last = task + self._knobs.max_compute_pre_fetch
        return [tensor for need, tensor in sorted(gathers) if need <= last and need // tasks == task // tasks]

    def _hide(self, tensors: list[int], task: int, left: float) -> float:
        """What is left of the time of a task after it has hidden some collectives."""
        for tensor in tensors:
            amount = min(left, self._exposed[tensor])
            self._exposed[tensor] -= amount
            left -= amount
            if self._exposed[tensor] <= 0:
                self.done[tensor] = task
        return left

    def distance(self, tensor: int) -> int:
        """Tasks from the launch of a gather to its need."""
        return self._needs[tensor] - self.launched[tensor]

    def together(self, first: int, second: int) -> bool:
        """Whether a tensor may be fused with the one before it without hiding less."""
        if self._instance.exchanges[second].freed_task >= 0:
            return self.launched[first] == self.launched[second]
        return self.launched[second] <= self.done.get(first, self.launched[first])
