"""Tuning as one call."""

import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any

from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError
from themis_opt.families.door import family_of
from themis_opt.problem.instance import Instance
from themis_opt.tuning.history import OBJECTIVES, Objective, Trial, best_of
from themis_opt.tuning.options import make_space
from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.space import Space
from themis_opt.tuning.storage import StorageError, open_study, storage_errors, without_secrets
from themis_opt.tuning.trials import Search, TrialProgress


class StorageLost(StorageError):
    """A storage that failed during a search, with the outcomes until then, if there are any."""

    tuned: Tuned | None = None


def tune(
    instance: Instance,
    *,
    trials: int = 100,
    seed: int = 0,
    time_limit: float = math.inf,
    objective: str = "makespan",
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
    instance : Instance
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
        Those of :func:`themis_opt.tuning.options.make_space`.

    Raises
    ------
    InputError
        If the problem has no chunks, an argument breaks a rule, the study is about something else, or no choice could
        be simulated.
    StorageError
        If the storage fails; :class:`StorageLost` with the outcomes so far, if that happens during the search.
    """
    if not isinstance(instance, Instance):
        family_of(instance).tune(instance)
    allowance = Allowance(time_limit)
    return tune_in(make_space(instance, **options), allowance, trials, seed, objective, storage, study, progress)


def tune_in(
    space: Space,
    allowance: Allowance,
    trials: int = 100,
    seed: int = 0,
    objective: str = "makespan",
    storage: str | None = None,
    study: str | None = None,
    progress: TrialProgress = lambda run, total, trial: None,
) -> Tuned:
    """The same in a space that is made already."""
    if trials < 1:
        raise InputError("must be at least 1", field="trials", value=trials)
    checked = _checked(objective)
    opened = open_study(storage, study, space.name, space.identity, checked)
    search = Search(opened, space, checked, seed, storage)
    interrupted, lost = False, None
    try:
        search.run(trials, allowance, progress)
    except KeyboardInterrupt:
        interrupted = True
    except StorageError as error:
        lost = StorageLost(error.rule, field=error.field, value=error.value)
    tuned = _tuned(search, interrupted or allowance.interrupted, allowance)
    if lost is not None:
        lost.tuned = tuned
        raise lost
    if tuned is None and interrupted:
        raise KeyboardInterrupt
    if tuned is None:
        raise InputError(_no_success(search.trials), field="trials", value=trials)
    return tuned


def _checked(text: str) -> Objective:
    for objective in OBJECTIVES:
        if text == objective:
            return objective
    raise InputError(f"must be {' or '.join(OBJECTIVES)}", field="--objective", value=text)


def _no_success(trials: Sequence[Trial]) -> str:
    errors = [trial.error for trial in trials if trial.error]
    return f"no trial succeeded: {errors[0]}" if errors else "no trial was finished within the time limit"


def _tuned(search: Search, interrupted: bool, allowance: Allowance) -> Tuned | None:
    best, space = best_of(search.trials), search.space
    if best is None:
        return None
    return Tuned(
        space=space,
        objective=search.objective,
        study=search.study.study_name,
        storage=without_secrets(search.url or "", search.url or ""),
        best=best,
        trials=tuple(search.trials),
        default=tuple(space.measure_reference(case) for case in range(len(space.cases))),
        importances=importances(search),
        interrupted=interrupted,
        allowance=allowance,
        trials_of_optuna=search.study,
    )


def importances(search: Search) -> dict[str, float]:
    """Share of each parameter in what makes trials good (PED-ANOVA, https://arxiv.org/abs/2304.10255).

    Empty where the trials are too few or too alike, or cannot be read.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    target: Any = None if search.objective == "makespan" else lambda trial: float(trial.values[0])
    try:
        with storage_errors(search.url), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return get_param_importances(search.study, evaluator=PedAnovaImportanceEvaluator(), target=target)
    except StorageError as error:
        logging.getLogger(__name__).info("no importances: %s", error)
        return {}
