"""What a study has learnt so far, read from its storage."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Literal

from themis_opt.base.units import nanoseconds
from themis_opt.tuning.parameters import Choice
from themis_opt.tuning.space import CaseMeasurement

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

OUTCOME = "outcome"  # the user attribute of an Optuna trial that holds what became of it
TrialStatus = Literal["complete", "pruned", "failed"]
Objective = Literal["makespan", "pareto"]
"""The least makespan, or all compromises between makespan and number of pieces."""


@dataclass(frozen=True)
class Trial:
    """One choice that was tried."""

    number: int
    choice: Choice  # in canonical form
    state: TrialStatus  # pruned trials were given up after some of the cases
    measurements: tuple[CaseMeasurement, ...] = ()  # of the cases tried, from cheap to costly
    repeats: int | None = None  # number of the earlier trial with this choice, whose outcome was remembered
    error: str = ""

    @property
    def value(self) -> float:
        """See :func:`value_of`."""
        return value_of(self.measurements)

    @property
    def pieces(self) -> int:
        """The most pieces of all cases."""
        return max(m.pieces for m in self.measurements)

    @property
    def rank(self) -> tuple[float, int, int]:
        """What the best trial has least of."""
        return self.value, self.pieces, self.number

    def outcome(self) -> str:
        """Everything but the number as text for the storage."""
        measured = [astuple(m) for m in self.measurements]
        return json.dumps([dict(self.choice), self.state, measured, self.repeats, self.error])


def value_of(measurements: Sequence[CaseMeasurement]) -> float:
    """Makespan in ns; of several cases the geometric mean of makespan over ideal."""
    if len(measurements) == 1:
        return nanoseconds(measurements[0].makespan)
    return ratio_of(measurements)


def ratio_of(measurements: Sequence[CaseMeasurement]) -> float:
    """Geometric mean of makespan over ideal."""
    return math.exp(sum(math.log(m.ratio) for m in measurements) / len(measurements))


def key_of(choice: Choice) -> str:
    """Equal for equal canonical choices."""
    return json.dumps(dict(choice), sort_keys=True)


class History:
    """What all processes that search in a study have learnt.

    `trials`: the finished ones, by number.
    `known`: those of them that were run, by the key of their choice.
    `is_shared`: whether another process has been at work in it since it was opened.
    """

    def __init__(self, study: "Study") -> None:
        self._study = study
        self.trials: list[Trial] = []
        self.known: dict[str, Trial] = {}
        self._abandoned: set[int] = set()
        self.is_shared = False
        self.read()
        self._abandoned = {t.number for t in study.get_trials(deepcopy=False)} - {t.number for t in self.trials}
        self.is_shared = False

    def read(self) -> None:
        """Take in what was finished since."""
        read = {trial.number for trial in self.trials}
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.is_finished() and OUTCOME in trial.user_attrs and trial.number not in read:
                self.add(_read(trial))
            self.is_shared |= trial.state.name != "WAITING" and trial.number not in read | self._abandoned
        self.trials.sort(key=lambda trial: trial.number)

    def add(self, trial: Trial) -> None:
        """Take in a finished trial."""
        self.trials.append(trial)
        if trial.repeats is None:
            self.known.setdefault(key_of(trial.choice), trial)


def _read(trial: "FrozenTrial") -> Trial:
    choice, state, measured, repeats, error = json.loads(trial.user_attrs[OUTCOME])
    return Trial(trial.number, choice, state, tuple(CaseMeasurement(*m) for m in measured), repeats, error)


def fresh(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that were run, not remembered."""
    return [trial for trial in trials if trial.repeats is None]


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The complete trial of least value, then fewest pieces, then least number; None if there is none."""
    return min((t for t in fresh(trials) if t.state == "complete"), key=lambda t: t.rank, default=None)


def front_of(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """The complete trials that no other beats in value and pieces, by ascending pieces."""
    complete = sorted((t for t in fresh(trials) if t.state == "complete"), key=lambda t: (t.pieces, t.value, t.number))
    front: list[Trial] = []
    for trial in complete:
        if not front or trial.value < front[-1].value:
            front.append(trial)
    return tuple(front)
