"""Where instances come from: files, the ones shipped with the package by name, and random ones by seed."""

from pathlib import Path

from pydantic import ValidationError

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.base.registries import Registry
from themis_opt.problem.cost import check_clock
from themis_opt.problem.fields import located
from themis_opt.problem.instance import FORMAT, Instance
from themis_opt.problem.random_networks import PREFIX, random_instance, seed_of

_PACKAGE = Path(__file__).parents[1]
INSTANCES = next(p for p in (_PACKAGE / "instances", _PACKAGE.parent / "instances") if p.is_dir())
"""The shipped instances: inside an installed package, beside it in a source tree."""


READERS = Registry("themis_opt.readers", {"json": "themis_opt.problem.catalog:read_instance"})
"""Functions from a file to an instance by the ending of its name; files of other endings are read as JSON."""


def shipped() -> dict[str, Path]:
    """Files of the shipped instances by name, such as ``3d-sw_sw_sw_hetero.all_reduce.100MiB``."""
    return {path.name.removesuffix(".json"): path for path in sorted(INSTANCES.rglob("*.json"))}


def load(source: str | Path) -> Instance:
    """Read an instance from a file, or a shipped one by its name, or make the random one of ``random:SEED``.

    Raises
    ------
    InputError
        If there is no such instance, or it breaks a rule; the message names file, field, value and rule.
    """
    if str(source).startswith(PREFIX):
        return _random(str(source))
    path = _located(source)
    kind = path.suffix.removeprefix(".")
    instance: Instance = READERS.load(kind if kind in READERS else "json")(path)
    return instance


def read_instance(path: Path) -> Instance:
    """Read an instance from a document of our own.

    Raises
    ------
    InputError
        If it is none, or breaks a rule; the message names file, field, value and rule.
    """
    document = read_json(path)
    if document.get("format") != FORMAT:
        raise InputError(f"must be '{FORMAT}'", field="format", value=document.get("format"), source=str(path))
    try:
        instance = Instance.model_validate(document)
        check_clock(instance)
    except ValidationError as error:
        raise located(error).within(str(path)) from None
    except InputError as error:
        raise error.within(str(path)) from None
    return instance


def _random(name: str) -> Instance:
    seed = seed_of(name)
    if seed is None:
        raise InputError(f"must be '{PREFIX}' and a seed, such as {PREFIX}17", source=name)
    return random_instance(seed)


def _located(source: str | Path) -> Path:
    path = Path(source)
    try:
        if path.exists():
            return path
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(source)) from None
    name = path.name.removesuffix(".json")
    if path.name != str(source) or name not in shipped():
        raise InputError("no such file, and no shipped instance of that name", source=str(source))
    return shipped()[name]
