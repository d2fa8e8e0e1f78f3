"""Tuning as one call, and its loop: propose a choice, measure it unless it is known, tell the study."""

import logging
import math
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from formulations.interruption import INTERRUPTION, TimeUp
from themis_opt.base.allowance import Allowance, cut_off
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.families.door import family_of
from themis_opt.problem.instance import Instance
from themis_opt.tuning.launching import ParameterValue, TunedParameter, every_choice, nearest_choice
from themis_opt.tuning.options import make_space
from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.space import CaseMeasurement, Space
from themis_opt.tuning.storage import (
    OUTCOME,
    History,
    Objective,
    StorageError,
    Trial,
    best_of,
    key_of,
    open_study,
    ratio_of,
    sampler,
    storage_errors,
    without_secrets,
)

if TYPE_CHECKING:
    import optuna

FIRST_OVERTIME = 0.5  # seconds of processor past the limit for what users do today, so that there is a result
SECONDS_AFTER, SECONDS_PER_PIECE = 0.5, 1e-4
"""What bounds, files and pictures take after a search, and for each piece into which the data are cut."""
MOST_AFTER = 0.8  # largest part of the time for trials that files take, so that a second choice is tried

TrialProgress = Callable[[int, int, Trial], None]
"""Called with the number of trials run, the number to run, and the latest."""


class StorageLost(StorageError):
    """A storage that failed during a search, with the outcomes until then, if there are any."""

    tuned: Tuned | None = None


def tune(
    problem: Instance | Space,
    *,
    trials: int = 100,
    seed: int = 0,
    time_limit: float = math.inf,
    objective: Objective = "makespan",
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
    problem : Instance or Space
        What to tune, or the choices that :func:`themis_opt.tuning.options.make_space` made for it.
    trials : int
        Choices to run in all, those of a resumed study included; remembered ones do not count.
    seed : int
        Of the sampler.
    time_limit : float
        Seconds for all trials; the one at work then is cut off, the first one half a second later.
    objective : {"makespan", "pareto"}
        Whether to minimise the makespan, for an iteration its time, or both that and the number of chunks.
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
    >>> themis_opt.tune(themis_opt.load("fig5.all_reduce.256MB"), trials=2).best.state
    'complete'
    """
    allowance = Allowance(time_limit)
    if not isinstance(problem, Instance | Space):
        family_of(problem).tune(problem)
    if trials < 1:
        raise InputError("must be at least 1", field="trials", value=trials)
    if objective not in get_args(Objective):
        raise InputError(f"must be {' or '.join(get_args(Objective))}", field="--objective", value=objective)
    space = problem if isinstance(problem, Space) else make_space(problem, **options)
    search = Search(open_study(storage, study, space.name, space.identity, objective), space, objective, seed, storage)
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
    """A study, which may hold trials already, with its space; the URL is for messages."""

    def __init__(self, study: "optuna.Study", space: Space, objective: Objective, seed: int, url: str | None) -> None:
        self.study, self.space, self.objective, self.seed, self.url = study, space, objective, seed, url
        self.asked = 0  # trials in all
        self._first, self._is_small = nearest_choice(space.parameters, space.reference), False
        self._listed: dict[str, dict[str, ParameterValue]] = {}
        with storage_errors(url):
            self.history = History(study)

    @property
    def trials(self) -> list[Trial]:
        """The finished trials of the study, by number."""
        return self.history.trials

    def run(self, trials: int, allowance: Allowance, progress: TrialProgress) -> None:
        """Try choices until `trials` were run, all are known, or the allowance is used up.

        The one at work when time is up is cut off.  The first one, nearest to what users do today, may take some
        overtime; by its pieces some time is left for what follows the search, but not all of it.
        """
        total, is_late = self._total(trials, allowance) if self._num_known() else trials, False
        with suppress(TimeUp), ExitStack() as turns:
            while self._num_known() < total and not is_late:
                INTERRUPTION.check()
                is_first, begin = not self.history.known, allowance.left
                with cut_off(allowance, self._overtime):
                    choice = self._next_choice()
                if choice is not None:
                    self._enqueue(choice)
                trial = self._try_next(allowance)
                if is_first and begin < math.inf and trial.measurements:
                    after = SECONDS_AFTER + SECONDS_PER_PIECE * trial.pieces
                    turns.enter_context(allowance.turn(allowance.left - min(after, MOST_AFTER * begin)))
                if is_first:
                    total = self._total(trials, allowance)
                self.asked = total
                progress(len(self.history.known), total, trial)
                is_late = allowance.left <= 0

    def outcome(self, interrupted: bool, allowance: Allowance) -> Tuned | None:
        """What came of the search; None if no choice was measured."""
        best, space = best_of(self.trials), self.space
        if best is None:
            return None
        return Tuned(
            space=space,
            objective=self.objective,
            study=self.study.study_name,
            storage=without_secrets(self.url or "", self.url or ""),
            best=best,
            trials=tuple(self.trials),
            default=tuple(space.measure_reference(case) for case in range(len(space.cases))),
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

        target: Any = None if self.objective == "makespan" else lambda trial: float(trial.values[0])
        try:
            with storage_errors(self.url), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator(), target=target)
        except StorageError as error:
            logging.getLogger(__name__).info("no importances: %s", error)
            return {}

    @property
    def _overtime(self) -> float:
        return 0.0 if self.history.known else FIRST_OVERTIME

    def _total(self, most: int, allowance: Allowance) -> int:
        """How many different choices there are, if they are few enough and counted while there is time to try them."""
        with suppress(TimeUp), cut_off(Allowance(0.3 * allowance.left)):
            count = len(list(islice(self._each(), most + 1)))
            self._is_small = count <= most
            return min(count, most)
        return most

    def _next_choice(self) -> dict[str, ParameterValue] | None:
        """The choice to try next, where the sampler is not to be asked."""
        if not self.history.known and not self.history.is_shared:
            return self._first
        if self._is_small or not self.history.known:
            return self._next_unknown()
        return self._any_unknown() if self._repeats_in_a_row() >= 8 else None

    def _num_known(self) -> int:
        """Choices that were tried by now, also by other processes."""
        with storage_errors(self.url):
            self.history.read()
        return len(self.history.known)

    def _each(self) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
        """One choice of every canonical form, with its key; the one nearest to what users do today comes first.

        Each form is computed once, since that of a large iteration takes long; the next call goes on where time is up.
        """
        yield from list(self._listed.items())
        while self._candidates:
            choice = self._candidates[-1]
            key = key_of(self.space.canonical(choice))
            self._candidates.pop()
            if key not in self._listed:
                self._listed[key] = choice
                yield key, choice

    @cached_property
    def _candidates(self) -> list[dict[str, ParameterValue]]:
        """The choices of unknown form, the next one last."""
        return [self._first, *every_choice(self.space.parameters)][::-1]

    def _next_unknown(self) -> dict[str, ParameterValue]:
        """The first choice that nobody tried; any of them if others try some at the same time."""
        if self.history.is_shared:
            return self._any_unknown()
        return next(choice for key, choice in self._each() if key not in self.history.known)

    def _any_unknown(self) -> dict[str, ParameterValue]:
        unknown = [choice for key, choice in self._each() if key not in self.history.known]
        return unknown[np.random.default_rng(self._seeds).integers(len(unknown))]

    @property
    def _seeds(self) -> list[int]:
        """Seeds of the next trial: equal in equal searches, but for those that share a study at the same time."""
        process = [os.getpid(), uuid.getnode()] if self.history.is_shared else []
        return [self.seed, len(self.trials), *process]

    def _repeats_in_a_row(self) -> int:
        return sum(1 for _ in takewhile(lambda trial: trial.repeats is not None, reversed(self.trials)))

    def _enqueue(self, choice: dict[str, ParameterValue]) -> None:
        """Let the next trial be this one, unless a search that was killed left it to be tried."""
        from optuna.trial import TrialState

        with storage_errors(self.url):
            if not self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                self.study.enqueue_trial(choice)

    def _try_next(self, allowance: Allowance) -> Trial:
        with storage_errors(self.url):
            self.study.sampler = sampler(self._seeds)
            asked = self.study.ask()
        with self._failing_if_interrupted(asked):
            with storage_errors(self.url):
                raw: dict[str, ParameterValue] = {}
                for parameter in self.space.parameters:
                    if parameter.matters(raw):
                        raw[parameter.name] = suggested(asked, parameter)
            with cut_off(allowance, self._overtime):
                choice = self.space.canonical(raw)
            trial = self._outcome(asked, choice, allowance)
            self._tell(asked, trial)
        self.history.add(trial)
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

    def _outcome(self, asked: "optuna.Trial", choice: dict[str, ParameterValue], allowance: Allowance) -> Trial:
        known = self.history.known.get(key_of(choice))
        if known is not None:
            return Trial(asked.number, choice, known.state, known.measurements, known.number, known.error)
        measured: list[CaseMeasurement] = []
        try:
            for case in range(len(self.space.cases)):
                with cut_off(allowance, self._overtime):
                    measured.append(self.space.measure(choice, case))
                if self._gives_up(asked, measured):
                    return Trial(asked.number, choice, "pruned", tuple(measured))
        except ThemisError as error:
            return Trial(asked.number, choice, "failed", tuple(measured), error=str(error))
        return Trial(asked.number, choice, "complete", tuple(measured))

    def _gives_up(self, asked: "optuna.Trial", measured: list[CaseMeasurement]) -> bool:
        """Whether the cases so far do not look worth the others, which are dearer."""
        num_cases = len(self.space.cases)
        if num_cases == 1 or self.objective == "pareto":
            return False
        with storage_errors(self.url):
            asked.report(ratio_of(measured), step=len(measured) - 1)
            return len(measured) < num_cases and asked.should_prune()

    def _tell(self, asked: "optuna.Trial", trial: Trial) -> None:
        values: list[float] | None = None
        if trial.state == "complete":
            values = [trial.value, float(trial.pieces)] if self.objective == "pareto" else [trial.value]
        with storage_errors(self.url):
            asked.set_user_attr(OUTCOME, trial.outcome())
            self.study.tell(asked, values, state=_states()[trial.state])


def suggested(asked: "optuna.Trial", parameter: TunedParameter) -> ParameterValue:
    """What the sampler suggests; numbers on a logarithmic scale, then the nearest that is allowed."""
    if not parameter.is_number:
        return str(asked.suggest_categorical(parameter.name, parameter.values))
    low, high = int(parameter.values[0]), int(parameter.values[-1])
    return parameter.nearest(asked.suggest_int(parameter.name, low, high, log=True))


def _states() -> dict[str, Any]:
    from optuna.trial import TrialState

    return {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
