"""Where instances come from: files, the ones shipped with the package by name, and random ones by seed."""

from pathlib import Path

from pydantic import ValidationError

from themis_opt.cost import check_clock
from themis_opt.documents import read_json
from themis_opt.errors import InputError
from themis_opt.instance import FORMAT, Instance, located
from themis_opt.iteration_instance import IterationInstance
from themis_opt.random_networks import PREFIX, random_instance, seed_of

_PACKAGE = Path(__file__).parent
INSTANCES = next(p for p in (_PACKAGE / "instances", _PACKAGE.parent / "instances") if p.is_dir())
"""The shipped instances: inside an installed package, beside it in a source tree."""


def shipped() -> dict[str, Path]:
    """Files of the shipped instances by name, such as ``3d-sw_sw_sw_hetero.all_reduce.100MiB``."""
    return {path.name.removesuffix(".json"): path for path in sorted(INSTANCES.rglob("*.json"))}


def load(source: str | Path) -> Instance | IterationInstance:
    """Read an instance from a file, or a shipped one by its name, or make the random one of ``random:SEED``.

    Returns
    -------
    Instance or IterationInstance
        The latter if the document has an ``iteration``.

    Raises
    ------
    InputError
        If there is no such instance, or it breaks a rule; the message names file, field, value and rule.
    """
    if str(source).startswith(PREFIX):
        return _random(str(source))
    path = _located(source)
    document = read_json(path)
    if document.get("format") != FORMAT:
        raise InputError(f"must be '{FORMAT}'", field="format", value=document.get("format"), source=str(path))
    instance: Instance | IterationInstance
    try:
        if "iteration" in document and "collectives" in document:
            raise InputError("has either collectives or an iteration", field="iteration")
        if "iteration" in document:
            instance = IterationInstance.model_validate(document)
            check_clock(instance.one_by_one())
        else:
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
