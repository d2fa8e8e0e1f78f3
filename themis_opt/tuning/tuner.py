"""Tuning as one call, and its loop: propose a choice, measure it unless it is known, tell Optuna's study."""

import json
import logging
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formulations.interruption import INTERRUPTION, TimeUp
from themis_opt.base.allowance import Allowance, cut_off
from themis_opt.base.compiled import compile_at_once
from themis_opt.base.documents import digest, write_atomically
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.base.notebook import progress_line, show_best
from themis_opt.families.door import AnyProblem, family_of, make_policy, problem_for, simulate
from themis_opt.problem.instance import Instance
from themis_opt.tuning.outcome import Trial, Tuned, best_of
from themis_opt.tuning.space import ParameterValue, Space, TrialMeasurement, TunedParameter, make_space

if TYPE_CHECKING:
    import optuna


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


FIRST_OVERTIME = 0.5  # seconds of processor past the limit for what users do today, so that there is a result
MOST_REPEATS = 8  # known choices in a row that the sampler may name, until an unknown one is tried

TrialProgress = Callable[[int, int, Trial], None]
"""Called with the number of trials run, the number to run, and the latest."""


def show_trial(run: int, total: int, trial: Trial) -> None:
    """Show the latest trial in the line of a notebook."""
    if trial.measurement:
        show_best(f"{run} of {total} trials, the latest", trial.measurement.makespan, 0.0)


@progress_line()
def tune(
    problem: AnyProblem | Space,
    *,
    trials: int = 100,
    seed: int = 0,
    time_limit: float = math.inf,
    journal: str | Path | None = None,
    progress: TrialProgress = show_trial,
    **options: Any,
) -> Tuned:
    """Search for the best chunk count, sizes and policy of collectives.

    What users do today is the first choice tried: the default of the Themis paper.  Spaces of
    at most `trials` choices are tried as a whole; larger ones are sampled by a tree-structured Parzen estimator.  Equal
    seeds give equal results.

    Parameters
    ----------
    problem : Instance, str, path or Space
        What to tune, its file or the name of a shipped one, or the choices that
        :func:`themis_opt.tuning.space.make_space` made for it.
    trials : int
        Choices to run in all; remembered ones do not count.
    seed : int
        Of the sampler.
    time_limit : float
        Seconds for all trials, from the first on; the one at work then is cut off, the first one half a second later.
    journal : str or path, optional
        File that keeps what each choice is worth: the same search goes on where a killed one ended.
    progress : callable, optional
        Called after every trial; by default a notebook shows a line.
    **options
        Those of :func:`themis_opt.tuning.space.make_space`, of an instance.

    Raises
    ------
    InputError
        If the problem has no chunks, an argument breaks a rule, or no choice could be simulated.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.tune("fig5.all_reduce.256MB", trials=2).best.state
    'complete'
    """
    given: Any = problem if isinstance(problem, Space) else problem_for(problem)
    if not isinstance(given, Instance | Space):
        family_of(given).refuse("tune")
    if trials < 1:
        raise InputError("must be at least 1", field="trials", value=trials)
    space = given if isinstance(given, Space) else make_space(given, **options)
    search, interrupted = Search(space, seed, Journal(Path(journal) if journal else None, space.identity)), False
    if time_limit < math.inf:
        load_machine_code()
    allowance = Allowance(time_limit)
    try:
        search.run(trials, allowance, progress)
    except KeyboardInterrupt:
        interrupted = True
    tuned = search.outcome(interrupted or allowance.interrupted)
    if tuned is None and interrupted:
        raise KeyboardInterrupt
    if tuned is None:
        errors = [trial.error for trial in search.trials if trial.error]
        rule = f"no trial succeeded: {errors[0]}" if errors else "no trial was finished within the time limit"
        raise InputError(rule, field="trials", value=trials)
    return tuned


def load_machine_code() -> None:
    """Load the compiled policy and simulator, on a small instance, so that no trial has to."""
    compile_at_once()
    instance = problem_for("fig5.all_reduce.256MB")
    simulate(instance, make_policy("hourglass")(instance))


class Search:
    """A study of Optuna in memory, with its space.

    `trials`: those that are finished, by number.
    `journal`: what is measured, for a search that goes on.
    `known`: those of them that were run, by the key of their choice.
    `asked`: trials that are wanted in all.
    """

    def __init__(self, space: Space, seed: int, journal: Journal) -> None:
        import optuna
        from optuna.exceptions import ExperimentalWarning

        optuna.logging.disable_default_handler()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        self.study, self.space, self.journal = optuna.create_study(sampler=sampler), space, journal
        self.trials: list[Trial] = []
        self.known: dict[str, Trial] = {}
        self.asked = 0
        self._is_small = False
        self._choices = space.choices()

    def run(self, trials: int, allowance: Allowance, progress: TrialProgress) -> None:
        """Try choices until `trials` were run, all are known, or the allowance is used up.

        The one at work when time is up is cut off.  The first one, nearest to what users do today, may take some
        overtime.
        """
        self.asked, is_late = trials, False
        with suppress(TimeUp):
            while len(self.known) < self.asked and not is_late:
                INTERRUPTION.check()
                is_first = not self.known
                with cut_off(allowance, self._overtime):
                    choice = self._next_choice()
                if choice is not None:
                    self.study.enqueue_trial(choice)
                trial = self._try_next(allowance)
                if is_first:
                    self.asked = self._total(trials, allowance)
                progress(len(self.known), self.asked, trial)
                is_late = allowance.left <= 0

    def outcome(self, interrupted: bool) -> Tuned | None:
        """What came of the search; None if no choice was measured."""
        best = best_of(self.trials)
        if best is None:
            return None
        return Tuned(
            space=self.space,
            best=best,
            trials=tuple(self.trials),
            importances=self._importances(),
            interrupted=interrupted,
            asked=self.asked,
            trials_of_optuna=self.study,
        )

    def _importances(self) -> dict[str, float]:
        """Share of each parameter in what makes trials good (PED-ANOVA, https://arxiv.org/abs/2304.10255).

        Empty where the trials are too few or too alike.
        """
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator())
        except (RuntimeError, ValueError) as error:
            logging.getLogger(__name__).info("no importances: %s", error)
            return {}

    @property
    def _overtime(self) -> float:
        return 0.0 if self.known else FIRST_OVERTIME

    def _total(self, most: int, allowance: Allowance) -> int:
        """How many different choices there are, if they are few enough and counted while there is time to try them."""
        keys: set[str] = set()
        with suppress(TimeUp), cut_off(Allowance(0.3 * allowance.left)):
            for choice in self.space.choices():
                keys.add(self.space.key(choice))
                if len(keys) > most:
                    return most
            self._is_small = True
            return len(keys)
        return most

    def _next_choice(self) -> dict[str, ParameterValue] | None:
        """The choice to try next, where the sampler is not to be asked: it has none, or only names known ones."""
        repeats = sum(1 for _ in takewhile(lambda trial: trial.repeats is not None, reversed(self.trials)))
        if self.known and not self._is_small and repeats < MOST_REPEATS:
            return None
        return next(choice for choice in self._choices if self.space.key(choice) not in self.known)

    def _try_next(self, allowance: Allowance) -> Trial:
        from optuna.trial import TrialState

        asked = self.study.ask()
        raw = {parameter.name: suggested(asked, parameter) for parameter in self.space.parameters}
        trial = self._outcome(asked.number, raw, allowance)
        self.trials.append(trial)
        value = trial.value if trial.measurement else None
        self.study.tell(asked, value, state=TrialState.FAIL if value is None else TrialState.COMPLETE)
        return trial

    def _outcome(self, number: int, raw: dict[str, ParameterValue], allowance: Allowance) -> Trial:
        with cut_off(allowance, self._overtime):
            choice, key = self.space.canonical(raw), self.space.key(raw)
            if (known := self.known.get(key)) is not None:
                return Trial(number, known.choice, known.state, known.measurement, known.number, known.error)
            try:
                measurement = self.journal.recall(key) or self.space.measure(choice)
                trial = Trial(number, choice, "complete", measurement)
            except ThemisError as error:
                trial = Trial(number, choice, "failed", error=str(error))
        self.known[key] = trial
        if trial.measurement and not self.journal.recall(key):
            self.journal.keep(key, trial.measurement)
        return trial


def suggested(asked: "optuna.Trial", parameter: TunedParameter) -> ParameterValue:
    """What the sampler suggests; numbers on a logarithmic scale, then the nearest that is allowed."""
    if isinstance(parameter.values[0], str):
        return str(asked.suggest_categorical(parameter.name, parameter.values))
    low, high = int(parameter.values[0]), int(parameter.values[-1])
    return parameter.nearest(asked.suggest_int(parameter.name, low, high, log=True))
