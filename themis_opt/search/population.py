"""Population annealing: several annealings cool down together, and good plans take the place of bad ones.

K. Hukushima, Y. Iba, *Population Annealing and Its Application to a Spin Glass*, AIP Conference Proceedings 690 (2003).
J. Machta, *Population annealing with weighted averages*, Physical Review E 82, 026704 (2010).
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.annealing import Annealing
from themis_opt.search.annealing_state import MoveParams

Stop = Callable[[float], bool]
"""Told the best makespan of a thread, in picoseconds, says whether to stop."""


class Population:
    """Annealings of one problem, which simulate so much each that the best plan of all is what counts.

    Where the temperature has fallen from `t` to `u`, a plan of cost `c` is copied, or dropped, so that its expected
    number is proportional to ``exp(c / t - c / u)``, as in thermal equilibrium.

    Parameters
    ----------
    start, seed, moves, resizes, pairs :
        As those of :class:`~themis_opt.search.annealing.Annealing`, with seeds that differ.
    slice_work : int
        Stages that each simulates between two looks at whether to stop, when plans are copied too.
    count : int
        Annealings; one alone is plain simulated annealing.
    """

    def __init__(
        self,
        start: Schedule,
        seed: int,
        moves: MoveParams,
        slice_work: int,
        *,
        resizes: bool = False,
        pairs: int | None = None,
        count: int = 1,
    ) -> None:
        seeds = [seed, *np.random.SeedSequence(seed).generate_state(count - 1).tolist()]
        self._annealings = [Annealing(start, own, moves, resizes=resizes, pairs=pairs) for own in seeds]
        self._slice_work = slice_work
        self._random = np.random.default_rng(seed)

    def cool(self, work: float, hot: float, cold: float, stop: Stop, *, keeps_sizes: bool = False) -> float:
        """Cool all down from `hot` to `cold`, fractions of the first makespan, or until it is to stop.

        No plan is dropped while sizes that are free stay: copies made early are all that would be left.

        Returns
        -------
        float
            Stages simulated, about `work`.
        """
        step_work = self._annealings[0].step_work * len(self._annealings)
        num_slices = max(1, round(work / self._slice_work / len(self._annealings)))
        steps = max(1, int(work / num_slices / step_work))
        temperatures = np.geomspace(hot, cold, num_slices + 1)
        for number, (above, below) in enumerate(pairwise(temperatures)):
            for annealing in self._annealings:
                annealing.run(steps, above, below, keeps_sizes=keeps_sizes)
                if stop(min(own.makespan for own in self._annealings)):
                    return steps * num_slices * step_work
            if number + 1 < num_slices and not keeps_sizes:
                self._resample(1 / below - 1 / above)
        return steps * num_slices * step_work

    def best(self) -> Schedule:
        """The best schedule so far; the first one if none is better."""
        return min((own.best() for own in self._annealings), key=lambda schedule: schedule.makespan)

    def _resample(self, colder: float) -> None:
        """Let plans replace each other, by so much as the inverse temperature has grown."""
        costs = np.array([own.cost for own in self._annealings])
        copies = copies_of(np.exp(colder * (costs.min() - costs)), self._random.random())
        spare = [number for number, count in enumerate(copies) if count == 0]
        for number in np.repeat(np.arange(len(copies)), np.maximum(copies - 1, 0)):
            self._annealings[spare.pop()].go_on_from(self._annealings[number])


def copies_of(weights: FloatArray, offset: float) -> IntArray:
    """As many copies as weights, of each about in proportion to its weight: systematic resampling.

    Parameters
    ----------
    offset : float
        Random number from 0 to 1.
    """
    shares = len(weights) * np.cumsum(weights) / weights.sum()
    last = np.ceil(shares - offset).astype(np.int64).clip(0, len(weights))
    copies: IntArray = np.diff(last, prepend=0)
    return copies
