"""What schedule files of collectives and of iterations share: reading them, with errors that name the file."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from themis_opt.documents import read_json
from themis_opt.errors import InputError
from themis_opt.instance import located

Content = TypeVar("Content", bound=BaseModel)
Made = TypeVar("Made")


def read_content(path: str | Path, identifier: str, model: type[Content], make: Callable[[Content], Made]) -> Made:
    """What `make` makes of a JSON file whose ``format`` is `identifier` and whose content fits `model`.

    Raises
    ------
    InputError
        If the file is no such file, or `make` refuses its content.
    """
    document = read_json(Path(path))
    if document.get("format") != identifier:
        raise InputError(f"must be '{identifier}'", field="format", value=document.get("format"), source=str(path))
    try:
        return make(model.model_validate(document))
    except ValidationError as error:
        raise located(error).within(str(path)) from None
    except InputError as error:
        raise error.within(str(path)) from None


def check_fingerprint(found: str, required: str) -> None:
    """Refuse the fingerprint of another instance.

    Raises
    ------
    InputError
        If it is not the one required.
    """
    if found != required:
        raise InputError(f"belongs to another instance, this one has '{required}'", field="fingerprint", value=found)
