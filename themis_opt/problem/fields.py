"""What the documents of a problem share: frozen models, whole numbers, limits, and errors that name their field."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from formulations.interruption import TimeUp
from themis_opt.base.errors import InputError, suggestion

# Messages of pydantic are for people here, who gain nothing from an address for each of them.
os.environ.setdefault("PYDANTIC_ERRORS_INCLUDE_URL", "0")

MAX_DIMENSIONS = 12  # dimensions of a network
MAX_RAILS = 16  # rails of a dimension
MAX_CHUNKS = 10**6  # chunks of a collective
MAX_CHUNK_STAGES = 10**6
"""Stages of all chunks of collectives: heuristics plan so many in about ten seconds and a gigabyte."""

MAX_NPUS = 2**40  # NPUs of a network
MAX_BYTES = 2**50  # bytes of a collective
MAX_BANDWIDTH = 1e18  # bytes per second


def _whole_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


Count = Annotated[int, BeforeValidator(_whole_number)]


class Model(BaseModel):
    """Frozen, and strict about unknown fields; values that break a rule raise :class:`ModelError`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ignored_types=(cached_property,))

    def __init__(self, /, **fields: Any) -> None:
        with _located_in(type(self).__name__):
            super().__init__(**fields)

    # As of the base class: pydantic checks models inside of others itself, and so finds all of their errors.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """As of pydantic, but with errors of this package."""
        with _located_in():
            return super().model_validate(obj, **options)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new object."""
        return type(self)(**(self.model_dump(mode="json", exclude_unset=True) | changes))

    def varied(self, **changes: Any) -> Self:
        """The same as :meth:`replace`, much faster: changes are objects, and those that stay are not checked again."""
        return type(self)(**({name: getattr(self, name) for name in self.model_fields_set} | changes))

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As of pydantic, but Ctrl-C stays Ctrl-C."""
        with _interruptible():
            return super().model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        """As of pydantic, but Ctrl-C stays Ctrl-C."""
        with _interruptible():
            return super().model_dump_json(**options)


@contextmanager
def _located_in(source: str = "") -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise located(error).within(source) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise an interruption again, which pydantic takes for an error of the function that it interrupts."""
    try:
        yield
    except PydanticSerializationError as error:
        for kind in (KeyboardInterrupt, TimeUp):
            if kind.__name__ in str(error):
                raise kind from error
        raise


class ModelError(InputError, ValueError):
    """Fields of a model that break rules."""


class FieldError(ValueError):
    """A broken rule of a field that the whole model knows of, for :func:`located`."""

    def __init__(self, rule: str, field: str) -> None:
        super().__init__(rule)
        self.field = field


def located(error: ValidationError) -> ModelError:
    """All failed checks of a pydantic model, unknown fields first, each with field, value and rule."""
    errors = error.errors(include_url=False)
    details = [d for d in errors if d["type"] != "too_short" or not d["input"]]  # else it lost its wrong items
    details = sorted(details or errors, key=lambda detail: detail["type"] != "extra_forbidden")
    first, *others = (one for detail in details[:MOST_ERRORS] for one in _located(detail, error.title))
    if len(details) > MOST_ERRORS:
        others.append(InputError(f"and {len(details) - MOST_ERRORS} more errors"))
    return ModelError(first.rule, field=first.field, value=first.value, others=others)


MOST_ERRORS = 20  # errors of one document that are shown


def _located(detail: Any, title: str) -> list[InputError]:
    """One failed check of the model with a title, which may have made another model."""
    inner = detail.get("ctx", {}).get("error")
    if isinstance(inner, ModelError):
        return [InputError(e.rule, field=_path(detail, e.field), value=e.value) for e in (inner, *inner.others)]
    field = getattr(inner, "field", "")
    value = None if isinstance(detail["input"], dict | list | BaseModel) or field else detail["input"]
    return [InputError(_rule(detail, title), field=_path(detail, field), value=value)]


def _path(detail: Any, inner: str) -> str:
    """The place of a field within the document that was checked."""
    place = (*detail["loc"], inner) if inner else detail["loc"]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _rule(detail: Any, title: str) -> str:
    """The rule that is broken, with the nearest name where a field or a name is unknown."""
    match detail["type"]:
        case "extra_forbidden":
            name = str(detail["loc"][-1])
            return f"unknown field{suggestion(name, _fields_at(title, detail['loc'][:-1]))}"
        case "missing":
            return "required field is missing"
    rule = str(detail["msg"].removeprefix("Value error, "))
    if detail["type"] in ("enum", "literal_error"):
        rule += suggestion(str(detail["input"]), re.findall(r"'([^']+)'", rule))
    return rule[0].lower() + rule[1:]


def _fields_at(title: str, place: Iterable[str | int]) -> set[str]:
    """Names of the fields that a document of a model may have at a place; none where that cannot be said."""
    models = {model for model in _descendants(Model) if model.__name__ == title}
    for part in (part for part in place if isinstance(part, str)):
        inner = {
            m for model in models if part in model.model_fields for m in _models_in(model.model_fields[part].annotation)
        }
        models = inner or models
    return {name for model in models for name in model.model_fields}


def _descendants(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for subclass in model.__subclasses__():
        yield subclass
        yield from _descendants(subclass)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
