"""The best number of chunks of a policy on a network and size, and what it gains."""

from collections.abc import Sequence
from dataclasses import dataclass

from themis_opt.reports.results import Result, by_policy, grouped
from themis_opt.reports.statistics import geometric_mean

USUAL_POLICY, USUAL_CHUNKS = "themis+scf", 64
"""What a choice of chunks is compared with: the setting of the paper."""

NEARLY = 1.01
"""Up to so many times the best makespan, fewer chunks are as good."""


@dataclass(frozen=True)
class Choice:
    """What one policy gains by the number of chunks, on one network, size and block.

    Parameters
    ----------
    runs : tuple of Result
        Its runs, by rising number of chunks.
    usual_ns : float or None
        Makespan of the usual policy with the usual number of chunks.
    """

    runs: tuple[Result, ...]
    usual_ns: float | None

    @property
    def best(self) -> Result:
        """The run with the least makespan, of equal ones that with the fewest chunks."""
        return min(self.runs, key=lambda run: run.makespan_ns)

    @property
    def fewest(self) -> Result:
        """The run with the fewest chunks that is within 1 % of the best."""
        return next(run for run in self.runs if run.makespan_ns <= NEARLY * self.best.makespan_ns)

    @property
    def bytes_per_chunk(self) -> float:
        """Mean size of the best run's chunks."""
        return self.best.row.size_bytes / self.best.row.chunks

    @property
    def gain(self) -> float | None:
        """How many times faster than the usual setting the best run is."""
        return None if self.usual_ns is None else self.usual_ns / self.best.makespan_ns

    @property
    def is_interior(self) -> bool:
        """Whether both fewer and more chunks are slower than the best number."""
        ends = self.runs[0], self.runs[-1]
        return all(end.makespan_ns > self.best.makespan_ns for end in ends)


def choices(runs: Sequence[Result]) -> tuple[Choice, ...]:
    """One choice for each network, size and policy of a block."""
    cases = grouped(runs, lambda run: (run.row.instance, run.row.size_bytes))
    made = []
    for own in cases.values():
        usual = [r.makespan_ns for r in own if r.policy == USUAL_POLICY and r.row.chunks == USUAL_CHUNKS]
        made += [_choice(part, usual[0] if usual else None) for part in by_policy(own).values()]
    return tuple(made)


def _choice(runs: Sequence[Result], usual_ns: float | None) -> Choice:
    return Choice(tuple(sorted(runs, key=lambda run: run.row.chunks)), usual_ns)


def choices_by_policy(found: Sequence[Choice]) -> dict[str, list[Choice]]:
    """The choices of each policy."""
    return grouped(found, lambda choice: choice.best.policy)


def mean_gain(own: Sequence[Choice]) -> float | None:
    """Geometric mean of the gains; None if none is known."""
    return geometric_mean([choice.gain for choice in own if choice.gain is not None])


def usual_gain(own: Sequence[Choice]) -> float | None:
    """Gain of the policy with the usual number of chunks: what is not due to their number."""
    return geometric_mean(
        [
            choice.usual_ns / run.makespan_ns
            for choice in own
            for run in choice.runs
            if choice.usual_ns is not None and run.row.chunks == USUAL_CHUNKS
        ]
    )
