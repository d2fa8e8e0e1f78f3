"""Costs of a dimension that can be set for a whole network at once.

``tune`` has an option, a batch an override and a column for each of them.  They are fields of
:class:`~themis_opt.problem.network.Dimension`, which says what values they take.  Nothing here loads a library, so
that the command line shows its help at once.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

NONE = "none"  # takes a cost away where it may be missing


def _packet(text: str) -> dict[str, str]:
    payload, slash, header = text.partition("/")
    if not slash:
        raise ValueError(f"must be payload and header, such as 4096B/30B, or '{NONE}'")
    return {"payload": payload, "header": header}


class CostTerm(NamedTuple):
    """A cost."""

    meaning: str  # for the help of an option
    words: str  # what its value stands behind in a description
    column: str  # of rows; in nanoseconds where the name says so, else in words
    read: Callable[[str], Any] = str  # from a text to what the field of the dimension takes; raises ValueError


COST_TERMS: Mapping[str, CostTerm] = {
    "launch_overhead": CostTerm(
        "Time a stage holds its dimension before it sends, such as 2us.", "launch", "launch_overhead_ns"
    ),
    "packet": CostTerm("Payload and header of a packet, such as 4096B/30B.", "packets", "packet", _packet),
    "reduction": CostTerm("Bytes per second at which an NPU sums, such as 200GB/s.", "sums at", "reduction"),
}
"""The costs by the name of their field."""
