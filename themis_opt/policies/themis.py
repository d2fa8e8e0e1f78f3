"""The greedy load-balancing scheduler of Themis.

S. Rashidi, W. Won, S. Srinivasan, S. Sridharan, T. Krishna, *Themis: A Network Bandwidth-Aware Collective
Scheduling Policy for Distributed Training of DL Models*, ISCA 2022, https://arxiv.org/abs/2110.04478.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from themis_opt.problem import cost
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import Phase
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes, fixed_path


@dataclass(frozen=True)
class Themis:
    """Each chunk takes the dimensions by their load so far (algorithm 1 of the paper).

    Reduce-scatter goes through the dimensions by ascending load, all-gather by descending load, and the gather order of
    an all-reduce is its scatter order reversed.  While the loads differ by less than a threshold, the fixed order is
    kept.  Collectives released at one instant share the loads.  All-to-all keeps the fixed order.  Time: O(chunks x
    dimensions x log dimensions). The defaults are the reading of the paper that fits its figure 8 best.

    `dispatch`: rule inside a dimension; the paper compares ``fifo`` and ``scf``.
    `threshold_divisor`: the threshold is the time of a stage of 1/`threshold_divisor` of a chunk on the least loaded
      dimension.
    `threshold_latency`: whether that time includes the step latency.
    `initial_loads`: loads before the first chunk: nothing, or the step latency of each dimension.
    `load_latency`: whether each stage adds its step latency to the load.
    `load_phases`: whether an all-reduce chunk adds only its scatter stages to the loads, or its gather stages too.
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
        for number, collective in enumerate(instance.exchanges):
            loads = loads_at.setdefault(collective.release, self._initial(instance))
            chunks.append(self._chunks(instance, number, loads))
        return Plan(tuple(chunks), self.dispatch)

    def _initial(self, instance: Instance) -> list[float]:
        dimensions = range(len(instance.fabric.dimensions))
        if self.initial_loads == "zero":
            return [0.0 for _ in dimensions]
        phases = {phase for exchange in instance.exchanges for phase in exchange.kind.rule.phases}
        return [max(self._fixed(instance, phase, k) for phase in phases) for k in dimensions]

    @staticmethod
    def _fixed(instance: Instance, phase: Phase, dimension: int) -> float:
        """Step latency of a stage and launch overhead, in picoseconds."""
        return float(cost.fixed_lag(instance, phase, dimension) + cost.fixed_occupancy(instance, phase, dimension))

    def _chunks(self, instance: Instance, number: int, loads: list[float]) -> Chunks:
        collective = instance.exchanges[number]
        sizes = equal_sizes(collective)

        @cache
        def added(size: int, path: tuple[int, ...]) -> tuple[float, ...]:
            return self._stage_times(instance, collective, size, path)

        @cache
        def threshold(dimension: int, size: int) -> float:
            return self._threshold(instance, collective, dimension, size)

        paths = []
        for size in sizes.tolist():
            path = _path(collective, loads, partial(threshold, size=size))
            for k, time in zip(path, added(size, path), strict=False):
                loads[k] += time
            paths.append(path)
        return Chunks(sizes, np.array(paths, dtype=np.int64))

    def _threshold(self, instance: Instance, collective: Exchange, dimension: int, size: int) -> float:
        phase = collective.kind.rule.phases[0]
        part = np.array(size / self.threshold_divisor)
        peers = np.array(instance.fabric.sizes[dimension])
        sent = cost.bytes_sent(instance, phase, dimension, part, peers)
        time = float(cost.variable_occupancy(instance, phase, dimension, sent))
        return time + (self._fixed(instance, phase, dimension) if self.threshold_latency else 0.0)

    def _stage_times(
        self, instance: Instance, collective: Exchange, size: int, path: tuple[int, ...]
    ) -> tuple[float, ...]:
        """Predicted busy time that a chunk adds along its path, in picoseconds."""
        whole_path = np.array([path])
        phases = cost.stage_phases(collective.kind, len(path))
        divisors = cost.path_divisors(instance, collective.kind, whole_path)
        sent = cost.bytes_sent(instance, phases, whole_path, np.array(size), divisors)
        times = cost.variable_occupancy(instance, phases, whole_path, sent)[0]
        if self.load_latency:
            times = times + [self._fixed(instance, Phase(phase), k) for phase, k in zip(phases, path, strict=True)]
        counted = len(path) if self.load_phases == "all" else len(path) // len(collective.kind.rule.phases)
        return tuple(times[:counted].tolist())


def _path(collective: Exchange, loads: list[float], threshold: Callable[[int], float]) -> tuple[int, ...]:
    """The fixed order while the loads are balanced, else the dimensions by ascending load."""
    ascending = sorted(collective.span, key=lambda k: (loads[k], k))
    lowest, highest = ascending[0], ascending[-1]
    balanced = loads[highest] - loads[lowest] < threshold(lowest)
    if balanced or not collective.kind.rule.order_matters:
        return fixed_path(collective)
    return fixed_path(collective, tuple(ascending))
