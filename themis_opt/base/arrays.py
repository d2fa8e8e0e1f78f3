"""Types of the arrays that every module speaks of."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]


AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def read_only(array: AnyArray) -> AnyArray:
    """A view of the array that cannot be written through."""
    view = array.view()
    view.setflags(write=False)
    return view
