"""What a study has found out so far, read from its storage."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Literal

from themis_opt.tuning.parameters import Choice
from themis_opt.tuning.space import Measurement

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

OUTCOME = "outcome"
"""The user attribute of an Optuna trial that holds what became of it."""

State = Literal["complete", "pruned", "failed"]
Objective = Literal["makespan", "pareto"]
OBJECTIVES: tuple[Objective, ...] = ("makespan", "pareto")
"""The least makespan, or all compromises between makespan and number of pieces."""


@dataclass(frozen=True)
class Trial:
    """One choice that was tried.

    Attributes
    ----------
    number : int
        Of the trial in its study.
    choice : mapping
        In canonical form.
    state : {"complete", "pruned", "failed"}
        Pruned trials were given up after some of the cases.
    measurements : tuple of Measurement
        Of the cases tried, from cheap to dear.
    repeats : int or None
        Number of the earlier trial with this choice, whose outcome was remembered.
    error : str
        Why it failed.
    """

    number: int
    choice: Choice
    state: State
    measurements: tuple[Measurement, ...] = ()
    repeats: int | None = None
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


def value_of(measurements: Sequence[Measurement]) -> float:
    """Makespan in ns; of several cases the geometric mean of makespan over ideal."""
    if len(measurements) == 1:
        return measurements[0].makespan / 1000
    return ratio_of(measurements)


def ratio_of(measurements: Sequence[Measurement]) -> float:
    """Geometric mean of makespan over ideal."""
    return math.exp(sum(math.log(m.ratio) for m in measurements) / len(measurements))


def key_of(choice: Choice) -> str:
    """Equal for equal canonical choices."""
    return json.dumps(dict(choice), sort_keys=True)


def history(study: "Study") -> tuple[Trial, ...]:
    """The finished trials of a study, by number."""
    trials = study.get_trials(deepcopy=False)
    return tuple(_read(t) for t in trials if t.state.is_finished() and OUTCOME in t.user_attrs)


def _read(trial: "FrozenTrial") -> Trial:
    choice, state, measured, repeats, error = json.loads(trial.user_attrs[OUTCOME])
    return Trial(trial.number, choice, state, tuple(Measurement(*m) for m in measured), repeats, error)


def fresh(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that were run, not remembered."""
    return [trial for trial in trials if trial.repeats is None]


def remembered(trials: Iterable[Trial]) -> Mapping[str, Trial]:
    """The trials that were run, by the key of their choice."""
    return {key_of(trial.choice): trial for trial in fresh(trials)}


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
