"""The greedy load-balancing scheduler of Themis.

S. Rashidi, W. Won, S. Srinivasan, S. Sridharan, T. Krishna, *Themis: A Network Bandwidth-Aware Collective
Scheduling Policy for Distributed Training of DL Models*, ISCA 2022, https://arxiv.org/abs/2110.04478.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from themis_opt.cost import PHASES, bytes_sent, fixed_lag, fixed_occupancy, path_costs, transfer_time
from themis_opt.instance import Collective, CollectiveKind, Instance
from themis_opt.plan import Chunks, Plan, equal_sizes, fixed_path


@dataclass(frozen=True)
class Themis:
    """Each chunk takes the dimensions by their load so far (algorithm 1 of the paper).

    Reduce-scatter goes through the dimensions by ascending load, all-gather by descending load, and the
    gather order of an all-reduce is its scatter order reversed.  While the loads differ by less than a
    threshold, the fixed order is kept.  Collectives released at one instant share the loads.  All-to-all
    keeps the fixed order.  Time: O(chunks x dimensions x log dimensions).

    Parameters
    ----------
    dispatch : str
        Rule inside a dimension; the paper compares ``fifo`` and ``scf``.
    threshold_divisor : int
        The threshold is the time of a stage of 1/`threshold_divisor` of a chunk on the least loaded dimension.
    threshold_latency : bool
        Whether that time includes the step latency.
    initial_loads : {"zero", "latency"}
        Loads before the first chunk: nothing, or the step latency of each dimension.
    load_latency : bool
        Whether each stage adds its step latency to the load.
    load_phases : {"first", "all"}
        Whether an all-reduce chunk adds only its scatter stages to the loads, or its gather stages too.

    Notes
    -----
    The defaults are the reading of the paper that fits its figure 8 best.
    """

    dispatch: str = "fifo"
    threshold_divisor: Annotated[int, Field(gt=0)] = 16
    threshold_latency: bool = False
    initial_loads: Literal["zero", "latency"] = "zero"
    load_latency: bool = False
    load_phases: Literal["first", "all"] = "first"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        loads_at: dict[int, list[float]] = {}
        chunks = []
        for number, collective in enumerate(instance.collectives):
            loads = loads_at.setdefault(collective.release, self._initial(instance))
            chunks.append(self._chunks(instance, number, loads))
        return Plan(tuple(chunks), self.dispatch)

    def _initial(self, instance: Instance) -> list[float]:
        dimensions = range(len(instance.network.dimensions))
        if self.initial_loads == "zero":
            return [0.0 for _ in dimensions]
        return [self._fixed(instance, k) for k in dimensions]

    @staticmethod
    def _fixed(instance: Instance, dimension: int) -> float:
        """Step latency of a reduce-scatter stage and launch overhead, in picoseconds."""
        phase = PHASES[CollectiveKind.ALL_REDUCE][0]
        return float(fixed_lag(instance, phase, dimension) + fixed_occupancy(instance, phase, dimension))

    def _chunks(self, instance: Instance, number: int, loads: list[float]) -> Chunks:
        collective, span = instance.collectives[number], instance.spans[number]
        sizes = equal_sizes(collective)

        @cache
        def added(size: int, path: tuple[int, ...]) -> tuple[float, ...]:
            return self._stage_times(instance, collective, size, path)

        paths = []
        for size in sizes.tolist():
            path = self._path(instance, collective, span, loads, size)
            for k, time in zip(path, added(size, path), strict=False):
                loads[k] += time
            paths.append(path)
        return Chunks(sizes, np.array(paths, dtype=np.int64))

    def _path(
        self, instance: Instance, collective: Collective, span: tuple[int, ...], loads: list[float], size: int
    ) -> tuple[int, ...]:
        ascending = sorted(span, key=lambda k: (loads[k], k))
        lowest, highest = ascending[0], ascending[-1]
        balanced = loads[highest] - loads[lowest] < self._threshold(instance, collective, lowest, size)
        if balanced or collective.kind is CollectiveKind.ALL_TO_ALL:
            return fixed_path(collective, span)
        return fixed_path(collective, tuple(ascending))

    def _threshold(self, instance: Instance, collective: Collective, dimension: int, size: int) -> float:
        phase = PHASES[collective.kind][0]
        part = np.array(size / self.threshold_divisor)
        peers = np.array(instance.network.sizes[dimension])
        time = float(transfer_time(instance, dimension, bytes_sent(instance, phase, dimension, part, peers)))
        return time + (self._fixed(instance, dimension) if self.threshold_latency else 0.0)

    def _stage_times(
        self, instance: Instance, collective: Collective, size: int, path: tuple[int, ...]
    ) -> tuple[float, ...]:
        """Predicted busy time that a chunk adds along its path, in picoseconds."""
        whole_path = np.array([path])
        costs = path_costs(instance, collective, np.array([size]), whole_path)
        times = transfer_time(instance, whole_path, costs.sent)[0]
        if self.load_latency:
            times = times + [self._fixed(instance, k) for k in path]
        counted = len(path) if self.load_phases == "all" else len(path) // len(PHASES[collective.kind])
        return tuple(times[:counted].tolist())
