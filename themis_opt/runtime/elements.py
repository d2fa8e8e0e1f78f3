"""Element types and reductions, by name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.errors import InputError, check_choice

DTYPES = ("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
"""Names of element types; ``bfloat16`` needs the package ml_dtypes."""

_EXACT_BITS: Mapping[str, int] = {"float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
"""Bits of the largest whole number up to which sums of whole numbers are exact, where that is less than 24."""


class Reduction(NamedTuple):
    """How elements of several ranks become one."""

    combine: Callable[..., Any]  # two arrays and `out`: the reduction of pairs
    divides: bool = False  # whether the result is divided by the number of ranks once all are combined


REDUCTIONS: Mapping[str, Reduction] = {
    "sum": Reduction(np.add),
    "min": Reduction(np.minimum),
    "max": Reduction(np.maximum),
    "avg": Reduction(np.add, divides=True),
}
"""Reductions by name; averages of whole numbers are rounded down."""


def element_type(name: str) -> np.dtype[Any]:
    """The numpy type of a name. Raises InputError if there is none, or the package that has it is not installed."""
    check_choice(name, DTYPES, "dtype")
    if name != "bfloat16":
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise InputError("needs the package ml_dtypes", field="dtype", value=name) from None
    dtype: np.dtype[Any] = np.dtype(bfloat16)
    return dtype


def exact_limit(name: str, num_ranks: int) -> int:
    """Largest whole number that so many ranks can add up without rounding, 255 at most."""
    largest: int = 2 ** _EXACT_BITS.get(name, 24) - 1
    return min(255, largest // num_ranks)


def divide(array: np.ndarray[Any, Any], num_ranks: int) -> None:
    """Divide in place, in the type of the array."""
    if array.dtype.kind in "iu":
        np.floor_divide(array, array.dtype.type(num_ranks), out=array)
    else:
        np.divide(array, array.dtype.type(num_ranks), out=array)
