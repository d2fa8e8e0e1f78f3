"""How long the rest of a batch may take, from the runs that are done."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import Any

from themis_opt.batches.expansion import Run

OVERHEADS = 16  # groups of runs whose sending and receiving is looked back at
Like = tuple[str, str, float | None]
"""What runs have in common that take about equally long: policy, kind of collective (or iterations), time limit."""


def like(run: Run) -> Like:
    """What a run has in common with others that take about as long."""
    return run.task.policy, run.columns["kind"], run.task.knobs.get("seconds")


class RunEstimate:
    """Seconds that the runs without a row may take on some slots.

    `missing`: those without a row.
    `slots`: threads that work at once.
    `rows`: what is known of others, with ``policy``, ``kind`` and ``seconds``.
    """

    def __init__(self, missing: Iterable[Run], slots: int, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.slots = slots
        self.missing = Counter((like(run), self._threads(run)) for run in missing)
        self.seconds: dict[Like, float] = {}
        self.overheads: deque[float] = deque(maxlen=OVERHEADS)
        for row in rows:
            if isinstance(row.get("seconds"), float):
                self._learn((row["policy"], row["kind"], row.get("time_limit")), row["seconds"])

    def finish(self, run: Run, seconds: float | None) -> None:
        """Take a run off, and learn how long it took, where that is known."""
        self.missing[like(run), self._threads(run)] -= 1
        if seconds is not None:
            self._learn(like(run), seconds)

    def add_overhead(self, seconds: float) -> None:
        """Learn for how long a run held its slot besides."""
        self.overheads.append(max(seconds, 0.0))

    def seconds_left(self) -> float | None:
        """How long the rest takes: no less than its longest run, nor than all shared among the slots; None if unknown.

        Runs of a kind that nobody tried take their time limit, else as long as the others do on average.
        """
        left = {kind: count for kind, count in self.missing.items() if count > 0}
        if not left:
            return 0.0
        usual = fmean(self.seconds.values()) if self.seconds else None
        overhead = median(self.overheads) if self.overheads else 0.0
        longest = busy = 0.0
        for (kind, threads), count in left.items():
            limit = kind[-1]
            seconds = self.seconds.get(kind, usual if limit is None else limit)
            if seconds is None:
                return None
            longest, busy = max(longest, seconds), busy + count * threads * (seconds + overhead)
        return max(longest, busy / self.slots)

    def _threads(self, run: Run) -> int:
        return min(run.task.threads, self.slots)

    def _learn(self, kind: Like, seconds: float) -> None:
        self.seconds[kind] = (self.seconds.get(kind, seconds) + seconds) / 2
