"""Edits of JSON documents by the path of a field."""

import copy
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()  # in place of a value: the field is taken away


def edited(document: dict[str, Any], path: str, value: Any = ABSENT) -> dict[str, Any]:
    """A copy with another value at a path such as ``network.dimensions.0.size``."""
    result = copy.deepcopy(document)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    parent: Any = result
    for part in way:
        parent = parent[part]
    if value is ABSENT:
        del parent[last]
    else:
        parent[last] = value
    return result
