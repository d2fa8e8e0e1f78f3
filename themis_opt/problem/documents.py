"""Documents of problems: their formats, and how a model reads one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from themis_opt.base.documents import read_json, schema_text
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.problem.fields import Model, located

INSTANCE_FORMAT: Literal["themis-opt/instance/1"] = "themis-opt/instance/1"

SomeModel = TypeVar("SomeModel", bound=BaseModel)


def read_model(path: Path, model: type[SomeModel], form: str) -> SomeModel:
    """Read a document of a model. Raises InputError if it is none, or says another ``format`` than `form`."""
    document = read_json(path)
    if document.get("format") != form:
        raise InputError(f"must be '{form}'", field="format", value=document.get("format"), source=str(path))
    with errors_of(path):
        return model.model_validate(document)


@contextmanager
def errors_of(path: Path | str) -> Iterator[None]:
    """Say where a field or a schedule breaks a rule; all fields that fail the checks of a model at once."""
    try:
        yield
    except ValidationError as error:
        raise located(error).within(str(path)) from None
    except (InputError, InvalidSchedule) as error:
        raise error.within(str(path)) from None


def model_schema(model: type[Model]) -> str:
    """The JSON Schema of documents of a model, which must say their ``format``."""
    schema = model.model_json_schema()
    return schema_text(schema | {"required": sorted({*schema["required"], "format"})})
