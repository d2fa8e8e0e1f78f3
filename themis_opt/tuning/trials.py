"""The trials of a search, and the sampler that proposes them."""

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from themis_opt.base.documents import digest, write_atomically
from themis_opt.base.units import nanoseconds
from themis_opt.tuning.parameters import Choice
from themis_opt.tuning.space import TrialMeasurement

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@dataclass(frozen=True)
class Trial:
    """One choice that was tried."""

    number: int
    choice: Choice  # in canonical form
    state: Literal["complete", "failed"]
    measurement: TrialMeasurement | None = None
    repeats: int | None = None  # number of the earlier trial that made the same schedule, whose outcome was remembered
    error: str = ""

    @property
    def value(self) -> float:
        """Makespan in ns; infinite where there is none."""
        return math.inf if self.measurement is None else nanoseconds(self.measurement.makespan)

    @property
    def rank(self) -> tuple[float, int, int]:
        """What the best trial has least of."""
        return self.value, self.measurement.pieces if self.measurement else 0, self.number


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The trial of least value, then fewest pieces, then least number; None if none has a makespan."""
    return min((t for t in trials if t.measurement and t.repeats is None), key=lambda t: t.rank, default=None)


def sampler(seeds: Sequence[int]) -> "BaseSampler":
    """The sampler of one trial, which depends on its seeds alone."""
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import TPESampler

    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=False, n_startup_trials=10)


class Journal:
    """What a search measured, in a file with a line for each choice, so that the same search goes on after a kill.

    `path`: of the file; nothing is kept if None.
    `identity`: equal for searches that may share what they measured.
    """

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path = path
        self._measured: dict[str, TrialMeasurement] = {}
        if path is None:
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        if lines[:1] == [identity]:
            for line in lines[1:]:
                with suppress(ValueError, TypeError):  # the last line of a killed search
                    name, measurement = json.loads(line)
                    self._measured[name] = TrialMeasurement(*measurement)
        write_atomically(path, "".join(f"{line}\n" for line in (identity, *map(self._line, self._measured))))

    def recall(self, key: str) -> TrialMeasurement | None:
        """What a choice was worth; None if no search measured it."""
        return self._measured.get(digest(key))

    def keep(self, key: str, measurement: TrialMeasurement) -> None:
        """Append a line.  A full disk ends the journal, and the search goes on."""
        name = digest(key)  # keys of iterations are long
        self._measured[name] = measurement
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(self._line(name) + "\n")
            except OSError:
                self.path = None

    def _line(self, name: str) -> str:
        return json.dumps([name, self._measured[name]])
