"""Nodes and links of graphs."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from themis_opt.base.units import BytesPerSecond, Picoseconds
from themis_opt.problem.fields import MAX_BANDWIDTH, FieldError, Model

Name = Annotated[str, Field(min_length=1, pattern=r"^[^,=\s]+$")]
"""What ``--lost`` and ``--slow`` name: without commas, equals signs and blanks."""

MAX_GRAPH_NODES, MAX_GRAPH_LINKS = 2**15, 2**18
"""Most nodes and links of a graph: flows between all pairs of more would take hours."""


class GraphNode(Model):
    """An NPU or a switch.

    A switch that `sums` may add up what it receives; one that `multicasts` may send on several copies.
    """

    name: Name
    kind: Literal["npu", "switch"] = "npu"
    sums: StrictBool = False
    multicasts: StrictBool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        for flag in ("sums", "multicasts"):
            if self.kind == "npu" and getattr(self, flag):
                raise FieldError("only switches say so, since NPUs do both", flag)
        return self


class GraphLink(Model):
    """A cable between two nodes.

    `bandwidth` is that from the first end to the second, `back` the other way: the same where it is not given, 0 where
    the link has one direction.  `latency` is from the last byte sent to its arrival, each way.
    """

    ends: tuple[Name, Name]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
    back: Annotated[BytesPerSecond, Field(ge=0, le=MAX_BANDWIDTH)] | None = None
    latency: Annotated[Picoseconds, Field(ge=0)] = 0
    name: Annotated[str, Field(pattern=r"^[^,=\s]*$")] = ""

    @property
    def label(self) -> str:
        """The name, or both ends."""
        return self.name or "-".join(self.ends)

    @property
    def bandwidths(self) -> dict[tuple[str, str], float]:
        """Bytes per second of each direction that there is."""
        first, second = self.ends
        back = self.bandwidth if self.back is None else self.back
        return {(first, second): self.bandwidth} | ({(second, first): back} if back else {})

    def slower(self, factor: float, later: float = 1.0) -> Self:
        """The link with a part of its bandwidth, and a multiple of its latency."""
        back, latency = None if self.back is None else self.back * factor, round(self.latency * later)
        return self.model_copy(update={"bandwidth": self.bandwidth * factor, "back": back, "latency": latency})

    @property
    def names(self) -> set[str]:
        """What the link may be called: its name, or its ends in either order."""
        return {self.label, "-".join(self.ends), "-".join(reversed(self.ends))}
