"""The Optuna study of a search, made or loaded, and its storage, whose failures are one line."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, unquote_plus

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.base.units import nanoseconds
from themis_opt.tuning.launching import Choice
from themis_opt.tuning.space import CaseMeasurement

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial


IDENTITY = "themis_opt"  # the user attribute of a study that says what it is about
JOURNAL = "journal:"  # what begins the name of a journal file, in place of a URL
# How often and when to look again for a new database whose tables other processes are making
MOST_RIVALS, RIVAL_SECONDS = 5, 0.2
# Where URLs hold what nobody else may read: the password of the user, and parameters
_SECRETS = (
    re.compile(r"(?<=://)[^:/@]*:(?P<secret>.*)@"),
    re.compile(r"[?&;][^=&;]*(?:pass|pwd|secret|token|key|credential)[^=&;]*=(?P<secret>[^&;]*)", re.IGNORECASE),
)

_CONNECT_ARGUMENTS = {"postgresql": "connect_timeout", "mysql": "connect_timeout", "sqlite": "timeout"}


def without_secrets(text: str, url: str) -> str:
    """The text, of which the URL may be a part, with stars for the secrets of the URL."""
    written = {match["secret"] for pattern in _SECRETS for match in pattern.finditer(url)}
    secrets = {form for secret in written for form in (secret, unquote(secret), unquote_plus(secret))}
    for secret in sorted(secrets, key=len, reverse=True):  # the longest first: it may hold others
        text = text.replace(secret, "***") if secret else text
    return text


class StorageError(InputError):
    """A study that cannot be read or written."""


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
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
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
        for _ in range(MOST_RIVALS):
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
        cause: BaseException = error
        match error:
            case ImportError():
                rule, cause = "needs a database driver that is not installed", error.__cause__ or error
            case ArgumentError() | NoSuchModuleError():
                rule = "must be a storage URL such as sqlite:///study.db"
            case OptunaError() | SQLAlchemyError():
                rule, cause = "failed", _cause(error)
            case OSError():
                rule, cause = "failed", OSError(error.strerror) if error.strerror else error
            case _:
                rule = "cannot be read"
        line = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
        rule, shown = (without_secrets(text, url or "") for text in (f"{rule}: {line}", url or "memory"))
        raise StorageError(rule, field="storage", value=shown) from None


def _cause(error: BaseException) -> BaseException:
    """What the driver said, behind the exceptions of Optuna and SQLAlchemy."""
    inner = error.__cause__ or getattr(error, "orig", None)
    return error if inner is None or inner is error else _cause(inner)


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

    def __init__(self, study: Study) -> None:
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


def _read(trial: FrozenTrial) -> Trial:
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
