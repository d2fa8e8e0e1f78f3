"""The outcome of a search, and of each of its trials."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from themis_opt.base.notebook import page
from themis_opt.base.units import format_percent, format_size, nanoseconds
from themis_opt.schedules.schedule import Schedule
from themis_opt.tuning.space import Choice, Space, TrialMeasurement, measurement

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


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


LEAST_GAIN = 0.001  # share of the time below which a setting is not worth a change


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The best choice of a space beside what users do today: the paper's default.

    `space`: what could be chosen.
    `best`: of least makespan; then of fewest pieces.
    `trials`: all of them, by number.
    `importances`: share of each parameter in what makes trials good; empty where that cannot be said.
    `interrupted`: whether Ctrl-C ended the search.
    `asked`: trials that were wanted, or different choices if there are fewer.
    `trials_of_optuna`: the study, for pictures and analyses of Optuna.
    """

    space: Space
    best: Trial
    trials: tuple[Trial, ...]
    importances: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
    asked: int = 0
    trials_of_optuna: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<Tuned {self.space.name}: {self.space.describe(self.choice)}, {format_percent(self.gain)} saved>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return page(
            self.verdict,
            list(frame),
            [
                [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
                for row in frame.itertuples(index=False)
            ],
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The best setting, and what it wins."""
        space = self.space
        ended = f"Stopped after {self.num_run} of {self.asked} trials"
        stopped = f"{ended}, gap {format_percent(self.gap)}: give more time."
        shorter = f"{format_percent(self.gain)} shorter" if self.gain >= LEAST_GAIN else "no shorter"
        return (
            *([stopped] if self.num_run < self.asked else []),
            f"Best of {self.num_run} settings: {space.describe(self.choice)}.",
            f"It is {shorter} than with the default of the Themis paper: {space.describe(space.reference)}.",
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The times of the default and of the best setting, and the bound as a line."""
        from themis_opt.formats.plot import plot_times

        times = {"default": self.default_schedule.makespan, "best": self.schedule.makespan}
        return plot_times(times, self.space.proven, ax)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per setting, with the columns of :meth:`rows`."""
        import pandas

        return pandas.DataFrame(self.rows())

    @property
    def choice(self) -> Choice:
        """The best values of the parameters."""
        return self.best.choice

    @property
    def policy(self) -> str:
        """The specification of the best policy."""
        return self.space.specification(self.choice)

    @property
    def num_run(self) -> int:
        """Trials that were run, not remembered."""
        return sum(trial.repeats is None for trial in self.trials)

    @property
    def gain(self) -> float:
        """Share of the time of the default that is saved."""
        return 1 - self.schedule.makespan / self.default_schedule.makespan

    @property
    def gap(self) -> float:
        """How far the best choice is from what is proven of all choices, and of all other schedules."""
        return self.schedule.makespan / self.space.proven - 1

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule of the best choice, simulated and validated."""
        return self.space.schedule(self.choice)

    @property
    def default_schedule(self) -> Schedule:
        """The same for what users do today."""
        return self.space.schedule(self.space.reference)

    def rows(self) -> list[dict[str, Any]]:
        """The default and the best as plain values: times in ns, fractions 0..1."""
        sizes = {exchange.size for exchange in self.space.instance.exchanges}
        size = ",".join(format_size(size).replace(" ", "") for size in sorted(sizes, reverse=True))
        default, best = measurement(self.default_schedule), measurement(self.schedule)
        return [
            {
                "size": size,
                "setting": setting,
                **_fields(taken, "chunks"),
                "gain": 1 - taken.makespan / default.makespan,
                "bound_ns": nanoseconds(self.space.proven),
                "gap": taken.makespan / self.space.proven - 1,
            }
            for setting, taken in (("default", default), ("best", best))
        ]

    def trial_rows(self) -> list[dict[str, Any]]:
        """One row per trial: what was chosen, and what came of it."""
        return [
            {
                "trial": trial.number,
                "state": trial.state,
                "repeats": trial.repeats,
                **{parameter.name: trial.choice.get(parameter.name) for parameter in self.space.parameters},
                "specification": self.space.specification(trial.choice),
                **_fields(trial.measurement, "chunks_used"),
                "error": trial.error,
            }
            for trial in self.trials
        ]


def _fields(taken: TrialMeasurement | None, chunks: str) -> dict[str, Any]:
    return {
        "makespan_ns": nanoseconds(taken.makespan) if taken else None,
        "utilisation": taken.utilisation if taken else None,
        chunks: taken.pieces if taken else None,
    }
