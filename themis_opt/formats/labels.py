"""How exported files spell phases."""

from collections.abc import Mapping
from types import MappingProxyType

from themis_opt.cost import Phase

PHASE_ABBREVIATIONS: Mapping[Phase, str] = MappingProxyType(
    {Phase.REDUCE_SCATTER: "RS", Phase.ALL_GATHER: "AG", Phase.ALL_TO_ALL: "A2A"}
)
"""The field's abbreviations, for people."""


def phase_name(phase: Phase) -> str:
    """The name for machines, such as ``reduce_scatter``."""
    return phase.name.lower()
