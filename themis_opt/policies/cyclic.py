"""Chunks that start on one dimension after the other, and go round."""

from dataclasses import dataclass

import numpy as np

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes, fixed_path


@dataclass(frozen=True)
class Cyclic:
    """Chunk c scatters from dimension c mod D outwards and goes round; it gathers in the reverse order.

    Every dimension begins as many chunks as every other, which is balanced where all of them are equally fast, as on
    the tori of TPU pods.  The round robin over dimensions of ASTRA-sim 1.0 is the same.
    """

    dispatch: str = "fifo"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        chunks = []
        for collective in instance.exchanges:
            span = collective.span
            paths_by_first = [fixed_path(collective, span[first:] + span[:first]) for first in range(len(span))]
            paths = np.array(
                [paths_by_first[number % len(span)] for number in range(collective.chunks)], dtype=np.int64
            )
            chunks.append(Chunks(equal_sizes(collective), paths))
        return Plan(tuple(chunks), self.dispatch)
