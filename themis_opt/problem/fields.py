"""What the documents of a problem share: frozen models, whole numbers, limits, and errors that name their field."""

from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from themis_opt.base.errors import InputError

MAX_DIMENSIONS = 12
MAX_RAILS = 16
MAX_CHUNKS = 10**6
MAX_STAGES = 10**6
"""Stages of all chunks of collectives: heuristics plan so many in about ten seconds and a gigabyte."""

MAX_NPUS = 2**40
MAX_BYTES = 2**50
MAX_BANDWIDTH = 1e18


def _whole_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


Count = Annotated[int, BeforeValidator(_whole_number)]


class Model(BaseModel):
    """Frozen, and strict about unknown fields; a broken rule raises :class:`pydantic.ValidationError`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ignored_types=(cached_property,))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new object."""
        return type(self)(**(self.model_dump(mode="json", exclude_unset=True) | changes))

    def varied(self, **changes: Any) -> Self:
        """The same as :meth:`replace`, much faster: changes are objects, and those that stay are not checked again."""
        return type(self)(**({name: getattr(self, name) for name in self.model_fields_set} | changes))


class FieldError(ValueError):
    """A broken rule of a field that the whole model knows of, for :func:`located`."""

    def __init__(self, rule: str, field: str) -> None:
        super().__init__(rule)
        self.field = field


def located(error: ValidationError) -> InputError:
    """The first failed check of a pydantic model, as one line with field, value and rule."""
    found = error.errors(include_url=False)
    details = [d for d in found if d["type"] != "too_short" or not d["input"]]  # else it lost its wrong items
    first = (details or found)[0]
    own = getattr(first.get("ctx", {}).get("error"), "field", None)
    place = (*first["loc"], own) if own else first["loc"]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    rule = first["msg"].removeprefix("Value error, ")
    rule = {"extra_forbidden": "unknown field", "missing": "required field is missing"}.get(first["type"], rule)
    value = None if isinstance(first["input"], dict | list | BaseModel) or own else first["input"]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return InputError(rule[0].lower() + rule[1:] + more, field=field, value=value)
