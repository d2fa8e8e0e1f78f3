"""Linear constraints on bandwidths, written as people write them."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from themis_opt.base.errors import suggestion
from themis_opt.base.units import parse_bandwidth

if TYPE_CHECKING:
    from formulations.allocation import Sense

_SIGNS = re.compile(r"(<=|>=|==)")
_OPERATOR = re.compile(r"\s+([-+])\s+")
_FACTOR = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)?\s*\*?\s*(.*)")

SENSES: "dict[str, Sense]" = {"<=": "<=", ">=": ">=", "==": "=="}


class Constraint(NamedTuple):
    """A linear constraint on the bandwidths of dimensions.

    `coefficients`: one for each dimension.
    `limit`: bytes per second.
    `text`: as it was written; parts of a chain of signs have only theirs.
    """

    coefficients: tuple[float, ...]
    sense: "Sense"
    limit: float
    text: str


def read_constraint(text: str, names: Sequence[str]) -> list[Constraint]:
    """Read a constraint such as ``"node >= 2 pod"`` or ``"chip >= node >= pod"``; one for each sign.

    Raises ValueError if it is none, or names a dimension that there is not.
    """
    parts = _SIGNS.split(text)
    if len(parts) < 3:
        raise ValueError(f"'{text}' must have a sign <=, >= or ==, such as 'node >= 2 pod' or 'node + pod <= 200 GB/s'")
    sides = [_read_side(side, names) for side in parts[::2]]
    texts = [side.strip() for side in parts[::2]]
    constraints = []
    for sign, (left, right), (one, other) in zip(parts[1::2], pairwise(sides), pairwise(texts), strict=True):
        coefficients = tuple(a - b for a, b in zip(left[0], right[0], strict=True))
        if not any(coefficients):
            raise ValueError(f"'{one} {sign} {other}' names no dimension whose bandwidth it limits")
        constraints.append(Constraint(coefficients, SENSES[sign], right[1] - left[1], f"{one} {sign} {other}"))
    return constraints


def _read_side(text: str, names: Sequence[str]) -> tuple[list[float], float]:
    """Coefficients of the dimensions, and the bandwidth added to them."""
    coefficients, constant = [0.0] * len(names), 0.0
    terms = _OPERATOR.split(text.strip())
    for sign, term in zip(["+", *terms[1::2]], terms[::2], strict=True):
        factor, name = _read_term(term, names)
        factor = -factor if sign == "-" else factor
        if name is None:
            constant += factor
        else:
            coefficients[names.index(name)] += factor
    return coefficients, constant


def _read_term(text: str, names: Sequence[str]) -> tuple[float, str | None]:
    """Factor and name, or a bandwidth and None."""
    if text in names:
        return 1.0, text
    match = _FACTOR.fullmatch(text)
    try:
        if match is not None and match[2] in names:
            return float(match[1] or 1), match[2]
        return parse_bandwidth(text), None
    except ValueError:
        hint = suggestion(match[2] if match else text, names) or f"; the dimensions are {', '.join(names)}"
        raise ValueError(f"'{text}' is neither a dimension, with a factor or not, nor a bandwidth{hint}") from None
