"""The buckets of PyTorch DistributedDataParallel."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from themis_opt.base.units import Bytes
from themis_opt.policies.launching.common import Launching, capped, fusible, launches_alone, next_iteration, whole
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch


@dataclass(frozen=True)
class Ddp(Launching):
    """Buckets in reverse order of the layers, launched in the order of their numbers; the iteration ends with the last.

    A bucket is launched when its gradients and those of all buckets before it are ready.  All parameters are reduced,
    used or not.  S. Li et al., *PyTorch Distributed*, VLDB 2020, https://arxiv.org/abs/2006.15704;
    https://pytorch.org/docs/stable/notes/ddp.html.

    `first_cap`, `cap`: size from which the first bucket, and each other, is closed: 1 MiB and 25 MiB by default.
    """

    first_cap: Annotated[Bytes, Field(gt=0)] = 2**20
    cap: Annotated[Bytes, Field(gt=0)] = 25 * 2**20

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        launches = launches_alone(instance)
        for tensors in fusible(instance):
            ready = 0
            for bucket in capped(instance, tensors, self.cap, self.first_cap):
                ready = max(ready, *(instance.exchanges[t].ready_task for t in bucket))
                launches.append(whole(instance, bucket, ready=ready, before=next_iteration(instance, bucket)))
        return tuple(launches)
