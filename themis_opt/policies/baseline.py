"""Today's fixed order: every chunk visits the dimensions from the innermost outwards."""

from dataclasses import dataclass

import numpy as np

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes, fixed_path


@dataclass(frozen=True)
class Baseline:
    """Scatter from dim1 outwards and gather back, in equal chunks (Themis, ISCA 2022, section 2)."""

    dispatch: str = "fifo"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        chunks = []
        for collective in instance.exchanges:
            path = np.array(fixed_path(collective), dtype=np.int64)
            chunks.append(Chunks(equal_sizes(collective), np.tile(path, (collective.chunks, 1))))
        return Plan(tuple(chunks), self.dispatch)
