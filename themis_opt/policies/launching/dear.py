"""DeAR: the two halves of all-reduce in different passes."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from themis_opt.base.units import Bytes
from themis_opt.policies.launching.common import (
    Bucket,
    Launching,
    capped,
    first_need,
    fused_name,
    fusible,
    grouped,
    launches_alone,
    whole,
)
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind, Halves
from themis_opt.schedules.plan import Launch, TaskOf


@dataclass(frozen=True)
class Dear(Launching):
    """Reduce-scatter in the backward pass, all-gather in the next forward pass, one group ahead of it.

    Groups of tensors are formed in the order the forward pass needs them.  All reduce-scatters are finished before
    the all-gather of group 0 is launched, at the end of the iteration; that of group g + 1 is launched when the first
    layer of group g begins.  L. Zhang et al., *DeAR*, ICDCS 2023, https://arxiv.org/abs/2302.12445.

    `threshold`: a group is closed if the next tensor would make it reach this size, 25 MB by default.
    """

    threshold: Annotated[Bytes, Field(gt=0)] = 25 * 10**6

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        launches = launches_alone(instance)
        for tensors in fusible(instance):
            halves = instance.exchanges[tensors[0]].kind.rule.halves
            if halves:
                launches += self._halves(instance, tensors, halves, len(launches))
            else:
                launches += [whole(instance, bucket) for bucket in capped(instance, tensors, self.threshold)]
        return tuple(launches)

    def _halves(self, instance: Instance, tensors: Bucket, halves: Halves, number: int) -> list[Launch]:
        groups = self._groups(instance, tensors)
        by_readiness = sorted(groups, key=lambda group: max(instance.exchanges[t].ready_task for t in group))
        scatters = [_half(instance, group, "scatter", halves[0]) for group in by_readiness]
        every = tuple(range(number, number + len(scatters)))
        exchange = instance.exchanges[tensors[0]]
        backward, forward = (
            instance.chains[instance.tasks[task].stage] for task in (exchange.ready_task, exchange.needed_task)
        )
        last = TaskOf(backward[-1], 0)
        gathers: list[Launch] = []
        for place_of_group, group in enumerate(groups):
            gather = _half(instance, group, "gather", halves[1])
            if place_of_group == 0:
                gathers.append(replace(gather, after=last, after_launches=every))
            else:
                begun = first_need(instance, groups[place_of_group - 1])
                previous = number + len(scatters) + place_of_group - 1
                place = forward.index(begun.task)
                after = TaskOf(forward[place - 1], begun.later) if place else last
                gathers.append(replace(gather, after=after, after_launches=(previous,)))
        return [*scatters, *gathers]

    def _groups(self, instance: Instance, tensors: Bucket) -> list[Bucket]:
        exchanges = instance.exchanges
        forward = sorted(tensors, key=lambda t: (exchanges[t].needed_task, t))
        return grouped(instance, forward, lambda _, held, tensor: held + exchanges[tensor].size >= self.threshold)


def _half(instance: Instance, group: Bucket, part: Literal["scatter", "gather"], kind: CollectiveKind) -> Launch:
    return replace(whole(instance, group), name=fused_name(instance, group, part), kind=kind, part=part)
