"""The Optuna study of a search: made or loaded, with the sampler and the pruner of each trial."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.tuning.storage import open_storage, storage_errors

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study

    from themis_opt.tuning.history import Objective

IDENTITY = "themis_opt"
"""The user attribute of a study that says what it is about."""

STARTUP_TRIALS = 10
"""Random trials before the sampler has enough to learn from."""

UNPRUNED_TRIALS = 5
"""Complete trials before one is given up."""


def open_study(
    url: str | None, name: str | None, prefix: str, identity: Mapping[str, str], objective: Objective
) -> Study:
    """A new study, or the one of that name.

    Raises StorageError if the storage fails. Raises InputError if the study of that name is about something else.

    `url`: storage; in memory if None.
    `name`: of a study to resume, or to make if there is none; a new one beginning with `prefix` if None.
    `identity`: what it is about; a study of that name must be about the same.
    """
    import optuna

    storage = open_storage(url)
    with storage_errors(url):
        taken = set(optuna.get_all_study_names(storage))
        study = optuna.create_study(
            storage=storage,
            study_name=name or _unused(prefix, taken),
            directions=["minimize"] * (2 if objective == "pareto" else 1),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=UNPRUNED_TRIALS),
            load_if_exists=True,
        )
        _check_identity(study, {**identity, "objective": objective})
    return study


def _unused(text: str, taken: set[str]) -> str:
    prefix, number = re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-") or "tune", 1
    while f"{prefix}-{number}" in taken:
        number += 1
    return f"{prefix}-{number}"


def _check_identity(study: Study, identity: Mapping[str, str]) -> None:
    kept = study.user_attrs.get(IDENTITY)
    if kept is None and not study.get_trials(deepcopy=False):
        study.set_user_attr(IDENTITY, dict(identity))
        return
    if kept is None:
        raise InputError("was not made by themis-opt tune", field="study", value=study.study_name)
    wrong = [part for part, value in identity.items() if kept.get(part) != value]
    if wrong:
        raise InputError(
            f"belongs to another {wrong[0]}; leave the name out for a new study", field="study", value=study.study_name
        )


def sampler(seeds: Sequence[int]) -> BaseSampler:
    """The sampler of one trial, which depends on its seeds alone, so that a resumed study goes on unchanged."""
    from optuna.samplers import TPESampler

    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=False, n_startup_trials=STARTUP_TRIALS)
