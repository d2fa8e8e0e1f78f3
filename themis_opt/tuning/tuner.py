"""Tuning as one call, and its loop: propose a choice, measure it unless it is known, tell the study."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from formulations.interruption import INTERRUPTION, TimeUp
from themis_opt.base.allowance import Allowance, cut_off
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.families.door import AnyProblem, family_of, problem_for
from themis_opt.problem.instance import Instance
from themis_opt.tuning.launching import ParameterValue, TunedParameter, every_choice, nearest_choice
from themis_opt.tuning.options import make_space
from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.space import Space
from themis_opt.tuning.storage import (
    OUTCOME,
    StorageError,
    Trial,
    best_of,
    finished_trials,
    fresh,
    open_study,
    sampler,
    storage_errors,
    without_secrets,
)

if TYPE_CHECKING:
    import optuna

FIRST_OVERTIME = 0.5  # seconds of processor past the limit for what users do today, so that there is a result
SECONDS_AFTER, SECONDS_PER_PIECE = 0.5, 1e-4
"""What bounds, files and pictures take after a search, and for each piece into which the data are cut."""
MOST_REPEATS = 8  # known choices in a row that the sampler may name, until an unknown one is tried
MOST_AFTER = 0.8  # largest part of the time for trials that files take, so that a second choice is tried

TrialProgress = Callable[[int, int, Trial], None]
"""Called with the number of trials run, the number to run, and the latest."""


class StorageLost(StorageError):
    """A storage that failed during a search, with the outcomes until then, if there are any."""

    tuned: Tuned | None = None


def tune(
    problem: AnyProblem | Space,
    *,
    trials: int = 100,
    seed: int = 0,
    time_limit: float = math.inf,
    storage: str | None = None,
    study: str | None = None,
    progress: TrialProgress = lambda run, total, trial: None,
    **options: Any,
) -> Tuned:
    """Search for the best chunk count, sizes and policy of an instance; for an iteration also what is fused.

    What users do today is the first choice tried: the paper's default, or for an iteration that of PyTorch.  Spaces of
    at most `trials` choices are tried as a whole; larger ones are sampled by a tree-structured Parzen estimator.  Equal
    seeds give equal results, resumed studies included.

    Parameters
    ----------
    problem : Instance, str, path or Space
        What to tune, its file or the name of a shipped one, or the choices that
        :func:`themis_opt.tuning.options.make_space` made for it.
    trials : int
        Choices to run in all, those of a resumed study included; remembered ones do not count.
    seed : int
        Of the sampler.
    time_limit : float
        Seconds for all trials; the one at work then is cut off, the first one half a second later.
    storage : str, optional
        Storage URL of Optuna, or ``journal:`` and a file; by default the study is kept in memory.
    study : str, optional
        Name of a study to resume, or to make if the storage has none of that name.
    progress : callable, optional
        Called after every trial.
    **options
        Those of :func:`themis_opt.tuning.options.make_space`, of an instance.

    Raises
    ------
    InputError
        If the problem has no chunks, an argument breaks a rule, the study is about something else, or no choice could
        be simulated.
    StorageError
        If the storage fails; :class:`StorageLost` with the outcomes so far, if that happens during the search.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.tune("fig5.all_reduce.256MB", trials=2).best.state
    'complete'
    """
    allowance = Allowance(time_limit)
    given: Any = problem if isinstance(problem, Space) else problem_for(problem)
    if not isinstance(given, Instance | Space):
        family_of(given).refuse("tune")
    if trials < 1:
        raise InputError("must be at least 1", field="trials", value=trials)
    space = given if isinstance(given, Space) else make_space(given, **options)
    search = Search(open_study(storage, study, space.name, space.identity), space, seed, storage)
    interrupted, lost = False, None
    try:
        search.run(trials, allowance, progress)
    except KeyboardInterrupt:
        interrupted = True
    except StorageError as error:
        lost = StorageLost(error.rule, field=error.field, value=error.value)
    tuned = search.outcome(interrupted or allowance.interrupted, allowance)
    if lost is not None:
        lost.tuned = tuned
        raise lost
    if tuned is None and interrupted:
        raise KeyboardInterrupt
    if tuned is None:
        raise InputError(_no_success(search.trials), field="trials", value=trials)
    return tuned


def _no_success(trials: Sequence[Trial]) -> str:
    errors = [trial.error for trial in trials if trial.error]
    return f"no trial succeeded: {errors[0]}" if errors else "no trial was finished within the time limit"


class Search:
    """A study, which may hold trials already, with its space; the URL is for messages.

    `trials`: those that are finished, by number.
    `known`: those of them that were run, by the key of their choice.
    `asked`: trials that are wanted in all.
    """

    def __init__(self, study: "optuna.Study", space: Space, seed: int, url: str | None) -> None:
        self.study, self.space, self.seed, self.url = study, space, seed, url
        self.trials: list[Trial] = []
        self.known: dict[str, Trial] = {}
        self.asked = 0
        self._is_small = False
        self._listed: dict[str, dict[str, ParameterValue]] = {}

    def _read(self) -> None:
        """Take in what was finished by now, also by other processes."""
        with storage_errors(self.url):
            finished = finished_trials(self.study, {trial.number for trial in self.trials})
        self.trials = sorted((*self.trials, *finished), key=lambda trial: trial.number)
        for trial in fresh(finished):
            self.known.setdefault(self.space.key(trial.choice), trial)

    def run(self, trials: int, allowance: Allowance, progress: TrialProgress) -> None:
        """Try choices until `trials` were run, all are known, or the allowance is used up.

        The one at work when time is up is cut off.  The first one, nearest to what users do today, may take some
        overtime; by its pieces some time is left for what follows the search, but not all of it.
        """
        self._read()
        self.asked, is_late = self._total(trials, allowance) if self.known else trials, False
        with suppress(TimeUp), ExitStack() as turns:
            while len(self.known) < self.asked and not is_late:
                INTERRUPTION.check()
                is_first, begin = not self.known, allowance.left
                with cut_off(allowance, self._overtime):
                    choice = self._next_choice()
                if choice is not None:
                    self._enqueue(choice)
                trial = self._try_next(allowance)
                if is_first and begin < math.inf and trial.measurement:
                    after = SECONDS_AFTER + SECONDS_PER_PIECE * trial.measurement.pieces
                    turns.enter_context(allowance.turn(allowance.left - min(after, MOST_AFTER * begin)))
                if is_first:
                    self.asked = self._total(trials, allowance)
                progress(len(self.known), self.asked, trial)
                is_late = allowance.left <= 0
                self._read()

    def outcome(self, interrupted: bool, allowance: Allowance) -> Tuned | None:
        """What came of the search; None if no choice was measured."""
        best = best_of(self.trials)
        if best is None:
            return None
        return Tuned(
            space=self.space,
            study=self.study.study_name,
            storage=without_secrets(self.url),
            best=best,
            trials=tuple(self.trials),
            importances=self._importances(),
            interrupted=interrupted,
            asked=self.asked,
            allowance=allowance,
            trials_of_optuna=self.study,
        )

    def _importances(self) -> dict[str, float]:
        """Share of each parameter in what makes trials good (PED-ANOVA, https://arxiv.org/abs/2304.10255).

        Empty where the trials are too few or too alike, or cannot be read.
        """
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        try:
            with storage_errors(self.url), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator())
        except StorageError as error:
            logging.getLogger(__name__).info("no importances: %s", error)
            return {}

    @property
    def _overtime(self) -> float:
        return 0.0 if self.known else FIRST_OVERTIME

    def _total(self, most: int, allowance: Allowance) -> int:
        """How many different choices there are, if they are few enough and counted while there is time to try them."""
        with suppress(TimeUp), cut_off(Allowance(0.3 * allowance.left)):
            count = len(list(islice(self._each(), most + 1)))
            self._is_small = count <= most
            return min(count, most)
        return most

    def _next_choice(self) -> dict[str, ParameterValue] | None:
        """The choice to try next, where the sampler is not to be asked: it has none, or only names known ones."""
        if not self.known:
            return nearest_choice(self.space.parameters, self.space.reference)
        repeats = sum(1 for _ in takewhile(lambda trial: trial.repeats is not None, reversed(self.trials)))
        if not self._is_small and repeats < MOST_REPEATS:
            return None
        unknown = [choice for key, choice in self._each() if key not in self.known]
        return unknown[self._num_at_work % len(unknown)]  # others that share the study try those before

    @property
    def _num_at_work(self) -> int:
        """Trials that are not finished, of other processes or of a search that was killed."""
        with storage_errors(self.url):
            return len(self.study.get_trials(deepcopy=False)) - len(self.trials)

    def _each(self) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
        """One choice for every schedule, with its key; the one nearest to what users do today comes first.

        Each key is computed once, since that of a large iteration takes long; the next call goes on where time is up.
        """
        yield from list(self._listed.items())
        while self._candidates:
            choice = self._candidates[-1]
            key = self.space.key(choice)
            self._candidates.pop()
            if key not in self._listed:
                self._listed[key] = choice
                yield key, choice

    @cached_property
    def _candidates(self) -> list[dict[str, ParameterValue]]:
        """The choices of unknown key, the next one last."""
        parameters = self.space.parameters
        return [nearest_choice(parameters, self.space.reference), *every_choice(parameters)][::-1]

    def _enqueue(self, choice: dict[str, ParameterValue]) -> None:
        """Let the next trial be this one, unless a search that was killed left it to be tried."""
        from optuna.trial import TrialState

        with storage_errors(self.url):
            if not self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                self.study.enqueue_trial(choice)

    def _try_next(self, allowance: Allowance) -> Trial:
        seeds = [self.seed, len(self.trials), self._num_at_work]
        with storage_errors(self.url):
            self.study.sampler = sampler(seeds)
            asked = self.study.ask()
        with self._failing_if_interrupted(asked):
            with storage_errors(self.url):
                raw: dict[str, ParameterValue] = {}
                for parameter in self.space.parameters:
                    if parameter.matters(raw):
                        raw[parameter.name] = suggested(asked, parameter)
            trial = self._outcome(asked.number, raw, allowance)
            with storage_errors(self.url):
                asked.set_user_attr(OUTCOME, trial.outcome())
                value = trial.value if trial.measurement else None
                self.study.tell(asked, value, state=_states()[trial.state])
        self.trials.append(trial)  # at once: Ctrl-C may come before the next look at the study
        return trial

    @contextmanager
    def _failing_if_interrupted(self, asked: "optuna.Trial") -> Iterator[None]:
        """Close the trial if Ctrl-C or the clock ends it; it counts as not tried."""
        try:
            yield
        except (KeyboardInterrupt, TimeUp):
            with storage_errors(self.url):
                self.study.tell(asked, state=_states()["failed"], skip_if_finished=True)
            raise

    def _outcome(self, number: int, raw: dict[str, ParameterValue], allowance: Allowance) -> Trial:
        with cut_off(allowance, self._overtime):
            choice, key = self.space.canonical(raw), self.space.key(raw)
            if (known := self.known.get(key)) is not None:
                return Trial(number, known.choice, known.state, known.measurement, known.number, known.error)
            try:
                trial = Trial(number, choice, "complete", self.space.measure(choice))
            except ThemisError as error:
                trial = Trial(number, choice, "failed", error=str(error))
        self.known[key] = trial
        return trial


def suggested(asked: "optuna.Trial", parameter: TunedParameter) -> ParameterValue:
    """What the sampler suggests; numbers on a logarithmic scale, then the nearest that is allowed."""
    if not parameter.is_number:
        return str(asked.suggest_categorical(parameter.name, parameter.values))
    low, high = int(parameter.values[0]), int(parameter.values[-1])
    return parameter.nearest(asked.suggest_int(parameter.name, low, high, log=True))


def _states() -> dict[str, Any]:
    from optuna.trial import TrialState

    return {"complete": TrialState.COMPLETE, "failed": TrialState.FAIL}
