"""The trials of a search, and the sampler that proposes them."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

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
