"""The Optuna study of a search, made or loaded, and its storage, whose failures are one line."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.base.units import nanoseconds
from themis_opt.tuning.launching import Choice
from themis_opt.tuning.space import TrialMeasurement

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial


IDENTITY = "themis_opt"  # the user attribute of a study that says what it is about
JOURNAL = "journal:"  # what begins the name of a journal file, in place of a URL
RIVAL_SECONDS = 1.0  # for which another process may still be making the tables of a new database
_CONNECT_ARGUMENTS = {"postgresql": "connect_timeout", "mysql": "connect_timeout", "sqlite": "timeout"}


def without_secrets(url: str | None) -> str:
    """The file of a storage, or of a URL the dialect and driver alone: the rest may hold a password."""
    if url is None:
        return "memory"
    return url if url.startswith((JOURNAL, "sqlite:")) else url.partition(":")[0]


class StorageError(InputError):
    """A study that cannot be read or written."""


def open_study(url: str | None, name: str | None, prefix: str, identity: Mapping[str, str]) -> Study:
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
            load_if_exists=True,
        )
        _check_identity(study, identity)
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
    return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=False, n_startup_trials=10)


def sqlite_url(path: Path) -> str:
    """URL of a database in a file."""
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def open_storage(url: str | None) -> BaseStorage:
    """The storage behind a URL; in memory if there is none.

    Raises StorageError if it cannot be reached, is damaged, or needs a driver that is not installed.
    """
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    with storage_errors(url):
        try:
            return _opened(url)
        except (OptunaError, SQLAlchemyError) as error:
            if not _is_made_elsewhere(error):
                raise
            sleep(RIVAL_SECONDS)
        return _opened(url)


def _is_made_elsewhere(error: BaseException) -> bool:
    """Whether another process has just made the tables that a new database lacks."""
    said = str(_cause(error)).lower()
    return "already exists" in said or "unique" in said


def _opened(url: str | None) -> BaseStorage:
    from optuna.storages import InMemoryStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend, JournalRedisBackend, JournalStorage

    silence()
    if url is None:
        return InMemoryStorage()
    if url.startswith(JOURNAL):
        return JournalStorage(JournalFileBackend(url.removeprefix(JOURNAL)))
    if url.startswith("redis"):
        return JournalStorage(JournalRedisBackend(url))
    return RDBStorage(url, engine_kwargs=_engine_arguments(url))


def _engine_arguments(url: str) -> dict[str, Any]:
    """A limit on the time to connect, for the drivers that take one."""
    dialect, _, driver = url.partition(":")[0].partition("+")
    argument = _CONNECT_ARGUMENTS.get(dialect)
    if argument is None or driver in ("pg8000", "asyncpg"):
        return {}
    return {"connect_args": {argument: 10}}


def silence() -> None:
    """Let Optuna speak through :mod:`logging` alone."""
    import optuna

    optuna.logging.disable_default_handler()
    optuna.logging.enable_propagation()
    logger = logging.getLogger("optuna")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


@contextmanager
def storage_errors(url: str | None) -> Iterator[None]:
    """Turn every failure of a storage into a :class:`StorageError`, and hear no warnings of what is experimental."""
    from optuna.exceptions import ExperimentalWarning, OptunaError
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

    failures = (ImportError, OptunaError, SQLAlchemyError, OSError)
    damages = (RuntimeError, ValueError, KeyError, AssertionError)  # damaged journals, other schema versions
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=ExperimentalWarning)
            yield
    except (*failures, *damages) as error:
        match error:
            case ImportError():
                rule = "needs a database driver that is not installed"
            case ArgumentError() | NoSuchModuleError():
                rule = "must be a storage URL such as sqlite:///study.db"
            case OptunaError() | SQLAlchemyError() | OSError():
                rule = f"failed: {_cause(error)}"
            case _:
                rule = f"cannot be read: {error!r}"
        raise StorageError(rule.splitlines()[0].rstrip("."), field="storage", value=without_secrets(url)) from None


def _cause(error: BaseException) -> BaseException:
    """What the driver said, behind the exceptions of Optuna and SQLAlchemy."""
    inner = error.__cause__ or getattr(error, "orig", None)
    return error if inner is None or inner is error else _cause(inner)


OUTCOME = "outcome"  # the user attribute of an Optuna trial that holds what became of it
TrialStatus = Literal["complete", "failed"]


@dataclass(frozen=True)
class Trial:
    """One choice that was tried."""

    number: int
    choice: Choice  # in canonical form
    state: TrialStatus
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

    def outcome(self) -> str:
        """Everything but the number as text for the storage."""
        return json.dumps([dict(self.choice), self.state, self.measurement, self.repeats, self.error])


def finished_trials(study: Study, known: Collection[int] = ()) -> list[Trial]:
    """The trials of a study whose outcome is told, by number, but for those of known numbers."""
    trials = study.get_trials(deepcopy=False)
    finished = (one for one in trials if one.state.is_finished() and OUTCOME in one.user_attrs)
    return [_trial(one) for one in finished if one.number not in known]


def _trial(trial: FrozenTrial) -> Trial:
    choice, state, measured, repeats, error = json.loads(trial.user_attrs[OUTCOME])
    return Trial(trial.number, choice, state, TrialMeasurement(*measured) if measured else None, repeats, error)


def fresh(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that were run, not remembered."""
    return [trial for trial in trials if trial.repeats is None]


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The trial of least value, then fewest pieces, then least number; None if none has a makespan."""
    return min((t for t in fresh(trials) if t.measurement), key=lambda t: t.rank, default=None)
