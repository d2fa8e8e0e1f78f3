"""What the `instances` of an experiment stand for: shipped instances, files beside it, and random networks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

from themis_opt.catalog import INSTANCES, load, shipped
from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.random_networks import MAX_SEED, PREFIX, seed_of

MAX_INSTANCES = 10**6
"""Most instances that one pattern stands for."""


@dataclass(frozen=True, eq=False)
class Source:
    """An instance that is made when it is needed.

    Attributes
    ----------
    name : str
        What the column `instance` calls it.
    make : callable
        Makes it; raises an InputError if it breaks a rule.
    extra : dict
        What the column `extra` of its rows tells besides results.
    """

    name: str
    make: Callable[[], Instance | IterationInstance]
    extra: dict[str, Any] = field(default_factory=dict)


def instance_sources(patterns: Iterable[str], folder: Path) -> list[Source]:
    """The instances that names and patterns stand for, each once.

    Parameters
    ----------
    patterns : iterable of str
        Names or patterns of shipped instances, files, and ``random:A-B``.
    folder : Path
        Where files are looked for.

    Raises
    ------
    InputError
        If one of them stands for nothing.
    """
    names = dict.fromkeys(name for pattern in patterns for name in _matches(pattern, folder))
    return [Source(name, partial(loaded, name, folder)) for name in names]


def loaded(name: str, folder: Path) -> Instance | IterationInstance:
    """The instance of a name: shipped, random or beside the experiment.

    Raises
    ------
    InputError
        If there is none, or it breaks a rule.
    """
    return load(name if name.startswith(PREFIX) or name in shipped_names() else folder / name)


def _matches(pattern: str, folder: Path) -> Sequence[str]:
    """Names of the instances that a name or pattern stands for."""
    if pattern.startswith(PREFIX):
        return [f"{PREFIX}{seed}" for seed in _seeds(pattern)]
    if _is_file(folder / pattern):
        return [pattern]
    found = [name for name, known_as in shipped_names().items() if any(fnmatchcase(n, pattern) for n in known_as)]
    if not found:
        rule = "no such file beside the experiment, and no shipped instance of that name"
        raise InputError(rule, field="instances", value=pattern)
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


@cache
def shipped_names() -> dict[str, tuple[str, str]]:
    """What each shipped instance can be called: its name, and the same after its folder."""
    return {
        name: (name, path.relative_to(INSTANCES).as_posix().removesuffix(".json")) for name, path in shipped().items()
    }


def _seeds(pattern: str) -> range:
    """The seeds of ``random:A-B`` or ``random:A``."""
    first, dash, last = pattern.removeprefix(PREFIX).partition("-")
    numbers = [seed_of(f"{PREFIX}{digits}") for digits in ((first, last) if dash else (first, first))]
    low, high = numbers
    if low is None or high is None or not low <= high <= MAX_SEED or high - low >= MAX_INSTANCES:
        rule = f"must be '{PREFIX}' and a seed, or two with a dash between, in order, up to {MAX_SEED}"
        raise InputError(rule, field="instances", value=pattern)
    return range(low, high + 1)
