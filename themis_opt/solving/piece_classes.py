"""The exchanges in a window of a training iteration as classes of :mod:`formulations.pieces`.

The bytes of one kind and span are a class for each phase, since the halves of an all-reduce may be cut in different
chunks.  A chunk that holds more than bytes of the window is a piece of no more than it has.  Before its stage on the
machine come those before it in the phase, and of an earlier phase at least what the bytes of the piece take on any one
dimension: all chunks of a launch are scattered before one is gathered, or the chunk itself is scattered first.  The
same is true of what comes after.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from formulations.lattice import Arc, arcs, cheapest_paths, subsets
from formulations.pieces import OneMachineUse, PieceClass, piece_bound
from themis_opt.base.arrays import FloatArray
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.solving.lowering import job_class, without_fixed

NUM_POSITIONS = 256  # where a piece may end: half as many lower a bound by half a percent
POSITION_SHARES = np.arange(NUM_POSITIONS) / NUM_POSITIONS


class Waiting(NamedTuple):
    """An exchange in a window, and least picoseconds between their begins, and between their ends."""

    exchange: Exchange
    head: float
    tail: float


def window_time(instance: Instance, window: Sequence[Waiting], known: float) -> float:
    """Least picoseconds of a window with some exchanges, at least those that are known."""
    groups: dict[object, list[Waiting]] = {}
    for waiting in window:
        groups.setdefault((waiting.exchange.kind, waiting.exchange.span), []).append(waiting)
    lowered = [_Group(instance, group) for group in groups.values()]
    machines = sorted({k for group in lowered for k in group.job.machines})
    busiest = max(machines, key=lambda k: sum(group.load(k) for group in lowered))
    classes = [piece_class for group in lowered for piece_class in group.classes(busiest)]
    return piece_bound(classes, known)


class _Group:
    """Exchanges of one kind and span in a window; `job` without what is fixed, which `least` is."""

    def __init__(self, instance: Instance, group: Sequence[Waiting]) -> None:
        exchange, total = group[0].exchange, sum(waiting.exchange.size for waiting in group)
        whole = job_class(instance, replace(exchange, size=total), total, "fluid")
        self.members, self.least = group, job_class(instance, exchange, 0, "fluid")
        self.job = without_fixed(whole, self.least)

    def load(self, machine: int) -> float:
        """Least time for which all bytes hold a machine."""
        return sum(
            min((d for (_, k), d in phase.duration.items() if k == machine), default=0.0) for phase in self.job.phases
        )

    def classes(self, machine: int) -> Iterable[PieceClass]:
        """The class of each phase, if the machine is one of theirs."""
        if machine not in self.job.machines:
            return
        head, tail = self._levels()
        alone = [self._alone(number) for number in range(len(self.job.phases))]
        for number in range(len(alone)):
            earlier, later = (sum(others, np.zeros(NUM_POSITIONS)) for others in (alone[:number], alone[number + 1 :]))
            yield PieceClass(head, tail, list(self._ways(number, machine, earlier, later)))

    def _levels(self) -> tuple[FloatArray, FloatArray]:
        """Heads and tails at all positions; where their order is not the same, the least of all that follow."""
        ordered = sorted(self.members, key=lambda waiting: waiting.head + waiting.tail)
        until = np.cumsum([waiting.exchange.size for waiting in ordered])
        positions = [int(until[-1]) * number // NUM_POSITIONS for number in range(1, NUM_POSITIONS + 1)]
        last = np.searchsorted(until, positions)
        sides = (np.array([waiting[side] for waiting in ordered], dtype=np.float64) for side in (1, 2))
        head, tail = (np.minimum.accumulate(side[::-1])[::-1][last] for side in sides)
        return head, tail

    def _alone(self, number: int) -> FloatArray:
        """Least time that shares of the bytes take in a phase on the machine that takes longest."""
        whole, fixed = self.job.phases[number].duration, self.least.phases[number].duration
        by_machine = (
            np.min(
                [whole[arc] * POSITION_SHARES + fixed[arc] for arc in arcs(self.job.machines) if arc[1] == k], axis=0
            )
            for k in self.job.machines
        )
        longest: FloatArray = np.maximum.reduce(list(by_machine))
        return longest

    def _ways(self, number: int, machine: int, earlier: FloatArray, later: FloatArray) -> Iterable[OneMachineUse]:
        """One way for each set of machines that a piece visits before this one in a phase."""
        fixed, whole = self.least.phases[number], self.job.phases[number].duration

        def passage(arc: Arc) -> FloatArray:
            return whole[arc] * POSITION_SHARES + self.least.passage(number, arc)

        reached, left = (
            cheapest_paths(self.job.machines, passage, np.zeros(NUM_POSITIONS), np.minimum, backwards=backwards)
            for backwards in (False, True)
        )
        for visited in subsets(tuple(k for k in self.job.machines if k != machine)):
            arc = visited, machine
            yield OneMachineUse(
                fixed=fixed.duration[arc],
                rate=whole[arc] / NUM_POSITIONS,
                before=earlier + reached[visited],
                after=fixed.lag[machine] + left[visited | 1 << machine] + later,
            )
