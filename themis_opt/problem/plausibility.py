"""Doubts about a network that obeys every rule: bandwidths that no link has, and dimensions in the inverted order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from themis_opt.base.units import format_bandwidth, format_link, format_seconds

if TYPE_CHECKING:
    from themis_opt.problem.network import Network

FASTEST = 10**12
"""Bytes per second above any link between NPUs: all links of an NPU to NVLink of the fifth generation carry 900 GB/s.

https://www.nvidia.com/en-us/data-center/nvlink/
"""

SLOWEST_LINK = 10**6
"""Bytes per second below any network that is worth a schedule; most are numbers without their unit."""

LONGEST_LAUNCH = 10**11
"""Picoseconds above any launch, 0.1 s: it takes microseconds."""

INVERTED = 2.0
"""How many times faster a dimension is than the one inside it where the order is doubted."""


def doubts(network: Network) -> Iterator[str]:
    """What seems wrong with a network, in sentences."""
    named = list(zip(network.dimension_names, network.bandwidths, strict=True))
    for name, bandwidth in named:
        if bandwidth > FASTEST:
            yield f"{name}: {format_link(bandwidth)} is more than any link has; bandwidths are those of one direction"
        elif bandwidth < SLOWEST_LINK:
            yield f"{name}: {format_bandwidth(bandwidth)} is no network; is a unit missing ('{bandwidth:g} GB/s')?"
    for name, dimension in zip(network.dimension_names, network.dimensions, strict=True):
        if dimension.launch_overhead > LONGEST_LAUNCH:
            seconds = format_seconds(dimension.launch_overhead)
            yield f"{name}: no launch takes {seconds}; is a unit missing ('{seconds.removesuffix(' s')} us')?"
        if dimension.reduction is not None and dimension.reduction < SLOWEST_LINK:
            summed = dimension.reduction
            yield f"{name}: no NPU sums {summed:g} B/s; is a unit missing ('{summed:g} GB/s')?"
    for (inner, slow), (outer, fast) in pairwise(named):
        if fast > INVERTED * slow:
            yield (
                f"{outer} is {fast / slow:.3g} times as fast as {inner} inside it; dimensions stand from the innermost "
                "outwards"
            )
