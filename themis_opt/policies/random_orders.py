"""Random orders: what no scheduling thought at all achieves."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from themis_opt.base.arrays import IntArray
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes


@dataclass(frozen=True)
class RandomOrders:
    """An independent, uniformly random order for every chunk and phase, from `seed`."""

    dispatch: str = "fifo"
    seed: Annotated[int, Field(ge=0)] = 0

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        generator = np.random.default_rng(self.seed)
        chunks = []
        for collective in instance.exchanges:
            rows = np.tile(np.array(collective.span, dtype=np.int64), (collective.chunks, 1))
            orders: list[IntArray] = [generator.permuted(rows, axis=1) for _ in collective.kind.rule.phases]
            if collective.kind.rule.mirrors and instance.ag_order == "reverse":
                orders[1] = orders[0][:, ::-1]
            chunks.append(Chunks(equal_sizes(collective), np.concatenate(orders, axis=1)))
        return Plan(tuple(chunks), self.dispatch)
